"""Locations of files that a sweep may take: paths in the table, or URIs below managed roots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hudi_vector.blobs.files import default_threads, in_threads
from hudi_vector.blobs.names import BLOB_AREA
from hudi_vector.storage import FileInfo, Storage, StorageOptions, join, open_storage, root_of
from hudi_vector.table_services.guards import is_plain

__all__ = ["Site", "is_outside"]

T = TypeVar("T")
R = TypeVar("R")


def is_outside(path: str) -> bool:
    """Return True if a path of a mark is a URI because the file lies outside of the table's blob area."""
    return not path.startswith(f"{BLOB_AREA}/")


@dataclass(frozen=True)
class Site:
    """A table with its storage; `threads` is the number of files handled at once, None for the storage's default."""

    table: str
    options: StorageOptions = field(repr=False)
    threads: int | None = None

    @property
    def storage(self) -> Storage:
        """Return the storage of the table, which holds its trash too."""
        return open_storage(self.table, self.options)

    def uri(self, path: str) -> str:
        """Return the URI of a file that a mark names."""
        return path if is_outside(path) else join(self.table, path)

    def storage_of(self, path: str) -> Storage:
        """Return the storage that holds a file that a mark names."""
        return open_storage(self.uri(path), self.options)

    def shares_storage(self, path: str) -> bool:
        """Return True if a file is on the table's file system, so that it can be moved to the trash without a copy."""
        return root_of(self.uri(path)) == root_of(self.table)

    def info(self, path: str) -> FileInfo | None:
        """Return the storage's information about a file that a mark names, or None if the file does not exist."""
        return self.storage_of(path).info(self.uri(path))

    def remove_empty_folders(self, *places: str) -> None:
        """Remove the empty folders below some folders of the table; those behind a symbolic link stay."""
        for place in places:
            for name in self.storage.list_folders(join(self.table, place)):
                if is_plain(self.storage, self.table, join(place, name)):
                    self.storage.remove_empty_folders(join(self.table, place, name))

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the function's results for the items, in order; remote storage handles several at once."""
        is_local = self.storage.scheme == "file"
        # A local move costs two syncs of the file system's journal, which handles one at a time: threads gain nothing.
        return in_threads(function, items, self.threads or (1 if is_local else default_threads(local=False)))
