"""The leases that an opened table holds on the generations of indexes it reads, so that `compact` leaves them alone.

A thread takes them, renews them and gives them back, so that no search waits for storage; it is there from the first
index on that the table finds. Where nothing can be written, searches go on without: segments that are gone are scanned.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hudi_vector.index.catalog import Index
from hudi_vector.index.manifest import manifests_folder
from hudi_vector.index.readers import publish_lease
from hudi_vector.storage import Storage, StorageOptions, join, open_storage
from hudi_vector.storage.leases import Renewals, clock_ms

__all__ = ["ReaderLeases"]

_LOG = logging.getLogger("hudi_vector.index")
_SHORTEST_MS = 1000
_FILES = 2
"""A lease's newest file and the one before, so that nobody who lists the folder during a renewal misses both."""
_AT_EXIT_SECONDS = 5.0


@dataclass(frozen=True)
class _Read:
    """A generation that is read: the index's folder, the list of files and the name of the manifest."""

    folder: str
    key: str
    manifest: str
    options: StorageOptions

    @property
    def storage(self) -> Storage:
        return open_storage(self.folder, self.options)

    @property
    def manifest_uri(self) -> str:
        return join(manifests_folder(self.folder, self.key), self.manifest)


class ReaderLeases:
    """The leases of one opened table; for several threads.

    Args:
        table: The table, for the log.
        lease_ms: How long a lease holds without a renewal, milliseconds; 0 for none at all.

    Example:
        >>> leases = ReaderLeases("products", 3_600_000)
        >>> leases.hold(lambda: [], StorageOptions())
        >>> leases.close()
    """

    def __init__(self, table: str, lease_ms: int) -> None:
        self._table = table
        self._lease_ms = max(lease_ms, _SHORTEST_MS)
        self._lock = threading.Lock()
        self._wanted: frozenset[_Read] = frozenset()
        self._is_running, self._is_closed = False, lease_ms == 0
        self._renewals = Renewals(f"a lease of '{table}'", self._renew, self._lease_ms, self._give_back)
        # What follows is the thread's own.
        self._files: dict[_Read, list[str]] = {}
        self._was_told = False

    def hold(self, indexes: Callable[[], Iterable[Index]], options: StorageOptions) -> None:
        """Say what is read from now on; storage is asked in the background.

        Args:
            indexes: Gives all indexes that the table reads.
            options: How their storage is opened.
        """
        with self._lock:
            read = frozenset(_Read(i.folder, i.key, i.manifest.name, options) for i in indexes())
            if self._is_closed or read == self._wanted:
                return
            self._wanted = read
            if not self._is_running:
                self._start()
            self._renewals.soon()

    def end(self) -> None:
        """Give the leases back; returns at once, and does nothing that a finaliser may not do."""
        self._is_closed = True
        self._renewals.end()

    def close(self, seconds: float | None = None) -> None:
        """Give the leases back, and wait until that is done.

        Args:
            seconds: How long to wait at most; None for as long as it takes.
        """
        self.end()
        with self._lock:
            if self._is_running:
                self._renewals.join(seconds)

    def _start(self) -> None:
        try:
            self._renewals.__enter__()
        except RuntimeError as problem:  # no more threads
            self._is_closed = True
            self._tell(problem)
            return
        self._is_running = True
        _OPEN.add(self)

    def _renew(self) -> None:
        wanted = self._wanted
        for read in wanted:
            with self._logged():
                self._prolong(read)
        for read in self._files.keys() - wanted:
            with self._logged():
                self._drop(read)

    def _give_back(self) -> None:
        for read in list(self._files):
            with self._logged():
                self._drop(read)

    def _prolong(self, read: _Read) -> None:
        storage = read.storage
        if storage.info(read.manifest_uri) is None:  # the index was dropped, perhaps with all of its table
            self._drop(read)
            return
        until = clock_ms() + self._lease_ms
        files = self._files.setdefault(read, [])
        files.append(publish_lease(storage, read.folder, read.manifest, read.key, until))
        while len(files) > _FILES:
            storage.delete(files[0])
            del files[0]

    def _drop(self, read: _Read) -> None:
        for uri in self._files.pop(read, []):
            read.storage.delete(uri)

    @contextmanager
    def _logged(self) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - drivers raise errors of their own, and a lease is only advice
            self._tell(problem)

    def _tell(self, problem: Exception) -> None:
        if not self._was_told:
            self._was_told = True
            _LOG.info(
                "'%s' goes on without a lease on its index, or with one that runs out by itself: %s; "
                "hudi_vector.index.compact may take segments that it reads, and these files are scanned then",
                self._table,
                problem,
            )


_OPEN: weakref.WeakSet[ReaderLeases] = weakref.WeakSet()


def _close_all() -> None:
    """Give back what nobody closed before the process ends; what takes too long runs out by itself."""
    left = list(_OPEN)
    for leases in left:
        leases.end()
    until = time.monotonic() + _AT_EXIT_SECONDS
    for leases in left:
        leases.close(max(0.0, until - time.monotonic()))


atexit.register(_close_all)
