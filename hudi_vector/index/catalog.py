"""The indexes of a table and the segments that each has for the table's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hudi_vector.index.files import path_from, uri_from
from hudi_vector.index.locations import IndexHome, IndexPlace
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, manifests_folder, newest_manifest
from hudi_vector.storage import FileInfo, StorageOptions, join, open_storage
from hudi_vector.storage.side_files import forget, is_side_file

__all__ = ["Index", "drop_index", "indexes_at", "opened_index", "others_of"]


@dataclass(frozen=True)
class Index:
    """An index, as its newest manifest describes it.

    `table_uri` is the table that base file paths are relative to, empty for files outside a table. `folder` is where
    the index is stored. `key` identifies its list of files if several lists share that folder.
    """

    table_uri: str
    folder: str
    manifest: IndexManifest
    key: str = ""

    @property
    def place(self) -> IndexPlace:
        """Return where the index is."""
        return IndexPlace(self.table_uri, self.folder, self.key)

    @property
    def name(self) -> str:
        """Return metric, kind and generation as a text for people."""
        return f"{self.manifest.metric}-{self.manifest.kind}, generation {self.manifest.generation}"

    @property
    def recall_target(self) -> float | None:
        """Return the recall of searches that do not set one, or None."""
        target: float | None = self.manifest.parameters.get("recall_target")
        return target

    @cached_property
    def entries(self) -> Mapping[str, ManifestEntry]:
        """Return the manifest entries by the path of their base file, relative to the table."""
        return {entry.file.path: entry for entry in self.manifest.entries}

    def entry_at(self, file: FileInfo) -> ManifestEntry | None:
        """Return the entry of the base file with this name, whatever content the file has now, or None."""
        return self.entries.get(path_from(self.table_uri, file.uri))

    def uri_of(self, path: str) -> str:
        """Return the URI of the base file at an entry's path."""
        return uri_from(self.table_uri, path)

    def entry_of(self, file: FileInfo) -> ManifestEntry | None:
        """Return the entry of a base file, or None if it has none or the file differs from the indexed one.

        A base file of a Hudi table is known by its path and size, since Hudi writes no name twice; a file outside a
        table must have the indexed modification time too.
        """
        entry = self.entry_at(file)
        if entry is None or entry.file.size != file.size:
            return None
        return entry if entry.file.is_named_once or entry.file.mtime_ns == file.mtime_ns else None

    def covered(self, files: Iterable[FileInfo]) -> list[tuple[FileInfo, ManifestEntry]]:
        """Return the base files that have a segment, each with its entry."""
        return [(file, entry) for file in files if (entry := self.entry_of(file)) is not None]


def indexes_at(home: IndexHome, options: StorageOptions) -> list[Index]:
    """Return the indexes in a home that have a whole manifest, ordered by metric and kind.

    Where an object store tells the files of the home in one answer, manifests are not listed again. Raises
    UnsupportedTableError if a manifest has a version that this package does not know.
    """
    storage = open_storage(home.root, options)
    below = storage.all_below(home.folder)
    found = storage.each(lambda place: opened_index(place, options, below), home.places(options, below))
    return [index for index in found if index is not None]


def opened_index(place: IndexPlace, options: StorageOptions, below: Sequence[FileInfo] | None = None) -> Index | None:
    """Return the index at a place, or None; `below` are all files there, among others, if they have been listed."""
    manifest = newest_manifest(open_storage(place.folder, options), place.folder, place.key, below)
    return None if manifest is None else Index(place.base, place.folder, manifest, place.key)


def others_of(place: IndexPlace, options: StorageOptions, most: int | None = None) -> list[Index]:
    """Return the indexes of other lists of files that share a place's folder, newest first, at most `most`."""
    if not place.key:
        return []
    storage = open_storage(place.folder, options)
    times: dict[str, int] = {}
    for file in storage.list_files(manifests_folder(place.folder), recursive=True):
        key = file.uri.rsplit("/", 2)[1]
        if is_side_file(file.name) and key != place.key:
            times[key] = max(file.mtime_ns, times.get(key, 0))
    keys = sorted(times, key=lambda key: -times[key])[:most]
    found = (opened_index(IndexPlace(place.base, place.folder, key), options) for key in keys)
    return [index for index in found if index is not None]


def drop_index(place: IndexPlace, options: StorageOptions) -> None:
    """Remove what is at a place: first manifests, so that no new search begins to use them, then all other files.

    A drop that was killed on the way leaves files without a manifest; these go too. Models, segments and packs stay if
    other lists of files share them; `hudi_vector.index.compact` removes those that nothing needs.
    """
    storage = open_storage(place.folder, options)
    forget(storage, manifests_folder(place.folder, place.key), ())
    forget(storage, join(place.folder, "recall", place.key), ())
    if others_of(place, options, most=1):
        return
    for part in ("packs", "segments", "models"):
        forget(storage, join(place.folder, part), ())
