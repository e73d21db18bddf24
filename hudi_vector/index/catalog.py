"""The indexes of a table: which there are, what each covers, and how far a search has to look in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """An index, as its newest manifest has it.

    `table_uri` is what its base files are named from, empty for files that are no table's; `folder` is where it lies,
    and `key` the list of files it is of, where several lists share that folder.
    """

    table_uri: str
    folder: str
    manifest: IndexManifest
    key: str = ""

    @property
    def name(self) -> str:
        """Metric, kind and generation, for people."""
        return f"{self.manifest.metric}-{self.manifest.kind}, generation {self.manifest.generation}"

    @property
    def recall_target(self) -> float | None:
        """The recall that searches without one of their own aim at."""
        target: float | None = self.manifest.parameters.get("recall_target")
        return target

    @cached_property
    def entries(self) -> Mapping[str, ManifestEntry]:
        """The segments by their base file's path, relative to the table."""
        return {entry.file.path: entry for entry in self.manifest.entries}

    def entry_at(self, file: FileInfo) -> ManifestEntry | None:
        """The entry of the base file of this name, whatever its content is now."""
        return self.entries.get(path_from(self.table_uri, file.uri))

    def uri_of(self, path: str) -> str:
        """The URI of the base file that an entry is of."""
        return uri_from(self.table_uri, path)

    def entry_of(self, file: FileInfo) -> ManifestEntry | None:
        """The entry of a base file; None where it has none, or the listing shows that it was written anew."""
        entry = self.entry_at(file)
        fits = entry is not None and (entry.file.size, entry.file.mtime_ns) == (file.size, file.mtime_ns)
        return entry if fits else None

    def covered(self, files: Iterable[FileInfo]) -> list[tuple[FileInfo, ManifestEntry]]:
        """Those of some base files that have a segment, with its entry."""
        return [(file, entry) for file in files if (entry := self.entry_of(file)) is not None]


def indexes_at(home: IndexHome, options: StorageOptions) -> list[Index]:
    """The indexes in a home, by metric and kind.

    Args:
        home: The home.
        options: How the storage is opened.

    Returns:
        Those with a whole manifest.

    Raises:
        UnsupportedTableError: A manifest has a version this package does not know.
    """
    found = (opened_index(place, options) for place in home.places(options))
    return [index for index in found if index is not None]


def opened_index(place: IndexPlace, options: StorageOptions) -> Index | None:
    """The index at a place, or None.

    Args:
        place: The place.
        options: How the storage is opened.
    """
    manifest = newest_manifest(open_storage(place.folder, options), place.folder, place.key)
    return None if manifest is None else Index(place.base, place.folder, manifest, place.key)


def others_of(place: IndexPlace, options: StorageOptions, most: int | None = None) -> list[Index]:
    """The indexes of other lists of files that share a place's models and segments, the youngest first.

    Args:
        place: The place.
        options: How the storage is opened.
        most: How many at the most.

    Returns:
        The indexes.
    """
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


def drop_index(index: Index, options: StorageOptions) -> None:
    """Remove an index; its manifests first, so that nobody begins to use what is going, then measurements.

    Models and segments stay where other lists of files share them: `hudi_vector.index.compact` removes what none needs.

    Args:
        index: The index.
        options: How the storage is opened.
    """
    storage = open_storage(index.folder, options)
    forget(storage, manifests_folder(index.folder, index.key), ())
    forget(storage, join(index.folder, "recall", index.key), ())
    if others_of(IndexPlace(index.table_uri, index.folder, index.key), options, most=1):
        return
    for part in ("segments", "models"):
        forget(storage, join(index.folder, part), ())
