"""Compaction of an index: writes better packs, and deletes files that no manifest has named for a while."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.events import heard_as
from hudi_vector.index.catalog import Index, others_of
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, newest_manifest, newest_since, publish_manifest
from hudi_vector.index.packing import packed, segments_to_repack
from hudi_vector.options import Settings, parse_duration
from hudi_vector.shown import Listed
from hudi_vector.storage import Storage, StorageOptions, join, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.side_files import generation_of, is_side_file
from hudi_vector.table_services.vector_index.places import IndexSource, IndexSubject, Place, the_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

__all__ = ["compact"]


@known_arguments(IndexSource)
@heard_as("index.compact")
def compact(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    grace: str = "24h",
    kind: str | None = None,
    metric: str | None = None,
    **place: Unpack[IndexSource],
) -> Listed[str]:
    """Drop the segments of base files that are gone, and delete files that no manifest names any more.

    On an object store, segments in separate files and small packs are put into larger packs, and packs that hold
    dropped segments are written without them.

    A table object that `hudi_vector.open` returned keeps using the generation that it found until it is refreshed. If a
    segment of that generation is gone, a search scans the segment's base file and logs a warning; no answer changes.

    Args:
        spark: As for `create`.
        table: The name or path of a Hudi table.
        column: The vector column.
        grace: Keep files that were needed within this time, because searches that began earlier may still read them.
        kind: The kind of the index, if the column has several indexes.
        metric: The metric of the index, if the column has several indexes.
        place: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`.

    Returns:
        The files that were deleted, as paths relative to the index's folder.

    Raises:
        InvalidArgumentError: There is no such index, or the grace is not a duration.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> compacted = hv.index.compact(spark, "products", "embedding")
    """
    window = parse_duration(grace) if isinstance(grace, str) else None
    if window is None:
        raise InvalidArgumentError(f"grace = {grace!r} is not allowed: give a duration such as '90s', '24h' or '7d'")
    subject = IndexSubject.of(spark, table, **place)
    at = subject.place(column)
    index = the_index(at, kind, metric)
    storage = open_storage(index.folder, at.spec.options)
    manifest = _repacked(replace(index, manifest=_without_gone_files(index, storage, at.spec.options)), at)
    since = clock_ms() - window
    needed, given_up = _of_other_lists(index, since, at.spec.options)
    needed |= _named_by([manifest, *newest_since(storage, index.folder, since, index.key)])
    parts = ("manifests", "models", "segments", "packs")
    listed = storage.each(lambda part: storage.list_files(join(index.folder, part), recursive=True), parts)
    gone = []
    for part, files in zip(parts, listed, strict=True):
        for file in files:
            key = file.uri.rsplit("/", 2)[1]
            needless = file.name not in needed
            if part == "manifests" and is_side_file(file.name):
                is_older = key == (index.key or part) and generation_of(file.name) < manifest.generation
                needless &= key in given_up or is_older
            old = file.mtime_ns // 1_000_000 < since
            if needless and old:
                gone.append(file.uri)
    # Searches that begin now read the newest generation, whose files are never deleted here.
    deleted = storage.each(storage.delete, gone)
    return Listed(uri.removeprefix(index.folder + "/") for uri, done in zip(gone, deleted, strict=True) if done)


def _without_gone_files(index: Index, storage: Storage, storage_options: StorageOptions) -> IndexManifest:
    """Return the newest manifest; if it names base files that are gone, publish one without them and return that."""
    there = {entry.file.path for entry in _of_files_that_are(index, storage_options)}
    # Another job may have published meanwhile, so entries are removed from the newest manifest, not from the index's.
    latest = newest_manifest(storage, index.folder, index.key) or index.manifest
    gone = index.entries.keys() - there
    kept = tuple(entry for entry in latest.entries if entry.file.path not in gone)
    if len(kept) == len(latest.entries):
        return latest
    return publish_manifest(storage, index.folder, replace(latest, entries=kept), index.key)


def _repacked(index: Index, at: Place) -> IndexManifest:
    """Put together small packs, and leave segments of files that are gone out of others; return the newest manifest."""
    names = segments_to_repack(index, at.spec.options)
    if not names:
        return index.manifest
    manifest = packed(index.folder, index.manifest, at.spec.options, at.each, names)
    if manifest == index.manifest:
        return manifest
    storage = open_storage(index.folder, at.spec.options)
    latest = newest_manifest(storage, index.folder, index.key)
    if latest is not None and latest.name != index.manifest.name:
        return latest  # another job has published meanwhile; the next compaction packs
    return publish_manifest(storage, index.folder, manifest, index.key)


def _of_other_lists(index: Index, since_ms: int, storage_options: StorageOptions) -> tuple[set[str], set[str]]:
    """Return the names of files that indexes of other file lists need, and the keys of lists that nothing can search.

    Files that such an index needed since `since_ms` are included. A list can no longer be searched once one of its
    files is gone.
    """
    needed, given_up = set(), set()
    storage = open_storage(index.folder, storage_options)
    for other in others_of(index.place, storage_options):
        if len(_of_files_that_are(other, storage_options)) < len(other.manifest.entries):
            given_up.add(other.key)  # one of its files is gone
        else:
            needed |= _named_by([other.manifest, *newest_since(storage, index.folder, since_ms, other.key)])
    return needed, given_up


def _named_by(manifests: Iterable[IndexManifest]) -> set[str]:
    """Return the file names of some manifests, of their models, and of the segments and packs that they name."""
    return {
        name
        for manifest in manifests
        for name in (
            manifest.name,
            f"{manifest.model_id}.arrow",
            *(entry.segment if entry.pack is None else entry.pack.name for entry in manifest.entries),
        )
    }


def _of_files_that_are(index: Index, storage_options: StorageOptions) -> list[ManifestEntry]:
    """Return the entries of an index whose base files still exist, whatever their content is now."""

    def is_there(path: str) -> bool:
        uri = index.uri_of(path)
        return open_storage(uri, storage_options).info(uri) is not None

    there = open_storage(index.folder, storage_options).each(is_there, index.entries)
    return [entry for entry, found in zip(index.entries.values(), there, strict=True) if found]
