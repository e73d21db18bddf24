"""A blob area of plain files, marks of it, and a process that dies between two file operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hudi_vector.blobs.names import BLOB_AREA, ContainerName
from hudi_vector.storage import Storage, StorageOptions, join, open_storage
from hudi_vector.table_services.mark_report import KeptFile, MarkReport, UnneededFile
from hudi_vector.table_services.trash.trash import TRASH

OLD_MS = 1_700_000_000_000
WRITE = "20260101000000000_0123456789ab"


class Area:
    """A table's blob area; every file in it is unneeded but those in `needed`."""

    def __init__(self, table: str, options: StorageOptions | None = None) -> None:
        self.table = table
        self.storage = open_storage(table, options or StorageOptions())
        self.needed: set[str] = set()
        self.marks = 0

    def put(self, number: int, content: bytes | None = None) -> str:
        """A container of that number."""
        name = ContainerName("d=1" if number % 2 else "", "img", WRITE, number, 0, 0, "blob")
        path = name.uri(self.table).removeprefix(f"{self.table}/")
        self.storage.publish(join(self.table, path), b"%06d" % number if content is None else content)
        if self.storage.scheme == "file":
            local = self.storage.path(join(self.table, path))
            os.utime(local, ns=((OLD_MS + number) * 1_000_000,) * 2)
        return path

    def mark(self) -> MarkReport:
        """What a mark finds now."""
        self.marks += 1
        files = self.storage.list_files(join(self.table, BLOB_AREA), recursive=True)
        found = [(info.uri.removeprefix(f"{self.table}/"), info) for info in files]
        return MarkReport(
            f"mark-{self.marks}",
            self.table,
            OLD_MS,
            "identity",
            tuple(
                UnneededFile(path, info.size, "no data file refers to it", info.mtime_ns // 1_000_000)
                for path, info in found
                if path not in self.needed
            ),
            tuple(KeptFile(path, info.size, "a row refers to it") for path, info in found if path in self.needed),
            (),
            sum(info.size for _, info in found),
        )

    def in_place(self) -> dict[str, bytes]:
        """The files of the area with their bytes."""
        return self._below(BLOB_AREA)

    def in_trash(self) -> dict[str, bytes]:
        """The files in the trash, by the path each came from; two files of one path must be copies of each other."""
        found: dict[str, bytes] = {}
        for path, content in self._below(TRASH).items():
            origin = join(BLOB_AREA, path.removeprefix(f"{TRASH}/").partition("/")[2])
            assert found.setdefault(origin, content) == content, origin
        return found

    def trashed(self) -> int:
        """How many files are in the trash."""
        return len(self._below(TRASH))

    def _below(self, folder: str) -> dict[str, bytes]:
        files = self.storage.list_files(join(self.table, folder), recursive=True)
        return {info.uri.removeprefix(f"{self.table}/"): self.storage.read(info.uri) for info in files}


class Killed(BaseException):
    """The process is gone."""


class Death:
    """Counts what changes storage; dies before or after one of these steps, and does nothing more then."""

    def __init__(self, patch: pytest.MonkeyPatch, step: int, after: bool) -> None:
        self.steps = 0
        self._step, self._after = step, after
        for name in ("publish", "_copy", "delete", "remove_folder"):
            self._wrap(patch, name)
        self._wrap(patch, "_rename", is_static=True)

    def _wrap(self, patch: pytest.MonkeyPatch, name: str, is_static: bool = False) -> None:
        real = getattr(Storage, name)

        def call(*arguments: Any, **more: Any) -> Any:
            self.steps += 1
            if self.steps > self._step or (self.steps == self._step and not self._after):
                raise Killed
            made = real(*arguments, **more)
            if self.steps == self._step:
                raise Killed
            return made

        patch.setattr(Storage, name, staticmethod(call) if is_static else call)


@contextmanager
def dying(step: int, after: bool) -> Iterator[Death]:
    """Die at a step within the block; the block goes on behind where it did not come so far."""
    with pytest.MonkeyPatch.context() as patch:
        death = Death(patch, step, after)
        try:
            yield death
        except Killed:
            assert death.steps >= step


@contextmanager
def interrupted(step: int, act: Callable[[], None]) -> Iterator[None]:
    """Do something else right before one of the steps that change storage."""
    steps = 0

    def wrap(name: str) -> None:
        real = getattr(Storage, name)

        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                act()
            return real(*arguments, **more)

        patch.setattr(Storage, name, call)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("publish", "_copy", "delete"):
            wrap(name)
        yield
