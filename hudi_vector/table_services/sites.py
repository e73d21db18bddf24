"""Where the files that a sweep may take lie: in the table, by their paths, or below managed roots, by their URIs."""

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
    """Whether a file that a mark names lies outside of the table's blob area, so that its path is a URI."""
    return not path.startswith(f"{BLOB_AREA}/")


@dataclass(frozen=True)
class Site:
    """A table with its storage; `threads` is how many files are worked at together, None for the storage's default."""

    table: str
    options: StorageOptions = field(repr=False)
    threads: int | None = None

    @property
    def storage(self) -> Storage:
        """The table's storage, with its trash."""
        return open_storage(self.table, self.options)

    def uri(self, path: str) -> str:
        """The place of a file that a mark names."""
        return path if is_outside(path) else join(self.table, path)

    def storage_of(self, path: str) -> Storage:
        """The storage of its place."""
        return open_storage(self.uri(path), self.options)

    def shares_storage(self, path: str) -> bool:
        """Whether a file can be moved to the table's trash, which no copy between file systems is made for."""
        return root_of(self.uri(path)) == root_of(self.table)

    def info(self, path: str) -> FileInfo | None:
        """What storage shows of a file that a mark names."""
        return self.storage_of(path).info(self.uri(path))

    def remove_empty_folders(self, *places: str) -> None:
        """Remove the folders below some places of the table that hold nothing: they go with their last file."""
        for place in places:
            for name in self.storage.list_folders(join(self.table, place)):
                if is_plain(self.storage, self.table, join(place, name)):
                    self.storage.remove_empty_folders(join(self.table, place, name))

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The function's results for some files, in order; several at a time where requests mostly wait."""
        is_local = self.storage.scheme == "file"
        # A local move is two syncs of a journal that takes one at a time.
        return in_threads(function, items, self.threads or (1 if is_local else default_threads(local=False)))
