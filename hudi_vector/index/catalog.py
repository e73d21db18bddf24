"""The indexes of a table: which there are, what each covers, and how far a search has to look in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from hudi_vector.index.files import column_folder, indexes_folder
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, newest_manifest
from hudi_vector.storage import FileInfo, StorageOptions, join, open_storage
from hudi_vector.storage.side_files import forget

__all__ = ["Index", "drop_index", "indexed_columns", "list_indexes", "opened_index"]


@dataclass(frozen=True)
class Index:
    """An index of a table, as its newest manifest has it. `folder` is where it lies."""

    table_uri: str
    folder: str
    manifest: IndexManifest

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
        return self.entries.get(file.uri.removeprefix(self.table_uri.rstrip("/") + "/"))

    def entry_of(self, file: FileInfo) -> ManifestEntry | None:
        """The entry of a base file; None where it has none, or the listing shows that it was written anew."""
        entry = self.entry_at(file)
        fits = entry is not None and (entry.file.size, entry.file.mtime_ns) == (file.size, file.mtime_ns)
        return entry if fits else None

    def covered(self, files: Iterable[FileInfo]) -> list[tuple[FileInfo, ManifestEntry]]:
        """Those of some base files that have a segment, with its entry."""
        return [(file, entry) for file in files if (entry := self.entry_of(file)) is not None]


def list_indexes(table_uri: str, column: str, options: StorageOptions) -> list[Index]:
    """The indexes of a column, by metric and kind.

    Args:
        table_uri: The table, a normalised URI.
        column: The column, as the table spells it.
        options: How the storage is opened.

    Returns:
        Those with a whole manifest; none where the column has no index.

    Raises:
        UnsupportedTableError: A manifest has a version this package does not know.
    """
    folder = column_folder(table_uri, column)
    names = sorted(open_storage(table_uri, options).list_folders(folder))
    found = (opened_index(table_uri, join(folder, name), options) for name in names)
    return [index for index in found if index is not None]


def opened_index(table_uri: str, folder: str, options: StorageOptions) -> Index | None:
    """The index in a folder, or None.

    Args:
        table_uri: The table, a normalised URI.
        folder: The index's folder.
        options: How the storage is opened.
    """
    manifest = newest_manifest(open_storage(folder, options), folder)
    return None if manifest is None else Index(table_uri, folder, manifest)


def indexed_columns(table_uri: str, options: StorageOptions) -> list[str]:
    """The columns of a table that have a folder for indexes.

    Args:
        table_uri: The table, a normalised URI.
        options: How the storage is opened.
    """
    return sorted(unquote(name) for name in open_storage(table_uri, options).list_folders(indexes_folder(table_uri)))


def drop_index(index: Index, options: StorageOptions) -> None:
    """Remove an index; its manifests first, so that nobody begins to use what is going.

    Args:
        index: The index.
        options: How the storage is opened.
    """
    storage = open_storage(index.folder, options)
    for part in ("manifests", "segments", "models"):
        forget(storage, join(index.folder, part), ())
