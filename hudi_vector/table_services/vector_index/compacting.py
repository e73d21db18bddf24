"""What can go of an index: files that no manifest has named for a while."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.catalog import Index, others_of
from hudi_vector.index.locations import IndexPlace
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, newest_manifest, newest_since, publish_manifest
from hudi_vector.options import parse_duration
from hudi_vector.storage import Storage, StorageOptions, join, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.side_files import generation_of, is_side_file
from hudi_vector.table_services.vector_index.places import IndexSubject, the_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["compact"]


def compact(
    spark: SparkSession | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    files: Sequence[str] | None = None,
    delta: str | None = None,
    directory: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    grace: str = "24h",
    kind: str | None = None,
    metric: str | None = None,
) -> list[str]:
    """Drop the segments of base files that are gone, and delete files that no manifest names any more.

    A table that `hudi_vector.open` gave goes on with the generation it found until it is refreshed. A segment of that
    generation that is gone costs it a scan of the segment's file, and a warning; no answer changes.

    Args:
        spark: As for `create`; None for a path on this machine too.
        table: The name or path of a Hudi table.
        column: The vector column.
        files: As for `create`.
        delta: As for `create`.
        directory: As for `create`.
        storage_options: As for `create`.
        grace: For how long a file must not have been needed: searches that began before may still read it.
        kind: Which index, where the column has several.
        metric: Which index, where the column has several.

    Returns:
        The files that were deleted, from the index's folder.

    Raises:
        InvalidArgumentError: There is no such index, or the grace is no duration.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> compacted = hv.index.compact(spark, "products", "embedding")
    """
    window = parse_duration(grace) if isinstance(grace, str) else None
    if window is None:
        raise InvalidArgumentError(f"grace = {grace!r} is not allowed: give a duration such as '90s', '24h' or '7d'")
    subject = IndexSubject.of(spark, table, files, delta, directory, storage_options, builds=False)
    at = subject.place(column)
    index = the_index(at, kind, metric)
    storage = open_storage(index.folder, at.spec.options)
    manifest = _without_gone_files(index, storage, at.spec.options)
    since = clock_ms() - window
    needed, given_up = _of_other_lists(index, since, at.spec.options)
    needed |= _named_by([manifest, *newest_since(storage, index.folder, since, index.key)])
    gone = []
    for part in ("manifests", "models", "segments"):
        for file in storage.list_files(join(index.folder, part), recursive=True):
            key = file.uri.rsplit("/", 2)[1]
            needless = file.name not in needed
            if part == "manifests" and is_side_file(file.name):
                is_older = key == (index.key or part) and generation_of(file.name) < manifest.generation
                needless &= key in given_up or is_older
            old = file.mtime_ns // 1_000_000 < since
            if needless and old:
                gone.append(file)
    # Whoever begins to read now reads the newest generation, which stays.
    return [file.uri.removeprefix(index.folder + "/") for file in gone if storage.delete(file.uri)]


def _without_gone_files(index: Index, storage: Storage, storage_options: StorageOptions) -> IndexManifest:
    """The newest manifest, published anew where it names base files that are gone."""
    there = {entry.file.path for entry in _of_files_that_are(index, storage_options)}
    # Others may have published while the files were asked for: only what is gone is taken from what they made.
    latest = newest_manifest(storage, index.folder, index.key) or index.manifest
    gone = index.entries.keys() - there
    kept = tuple(entry for entry in latest.entries if entry.file.path not in gone)
    if len(kept) == len(latest.entries):
        return latest
    return publish_manifest(storage, index.folder, replace(latest, entries=kept), index.key)


def _of_other_lists(index: Index, since_ms: int, storage_options: StorageOptions) -> tuple[set[str], set[str]]:
    """What other lists of files need, or did since, and the lists that nobody can search any more."""
    needed, given_up = set(), set()
    storage = open_storage(index.folder, storage_options)
    for other in others_of(IndexPlace(index.table_uri, index.folder, index.key), storage_options):
        if len(_of_files_that_are(other, storage_options)) < len(other.manifest.entries):
            given_up.add(other.key)  # it names a file that is gone
        else:
            needed |= _named_by([other.manifest, *newest_since(storage, index.folder, since_ms, other.key)])
    return needed, given_up


def _named_by(manifests: Iterable[IndexManifest]) -> set[str]:
    """Manifests, their models and their segments, by name."""
    return {
        name
        for manifest in manifests
        for name in (manifest.name, f"{manifest.model_id}.arrow", *(entry.segment for entry in manifest.entries))
    }


def _of_files_that_are(index: Index, storage_options: StorageOptions) -> list[ManifestEntry]:
    """The entries of an index whose base files are there still, whatever their content is."""
    uris = {path: index.uri_of(path) for path in index.entries}
    return [
        index.entries[path] for path, uri in uris.items() if open_storage(uri, storage_options).info(uri) is not None
    ]
