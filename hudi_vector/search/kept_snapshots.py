"""The snapshots an opened table is searched at: the newest, kept until it is refreshed, and some of the past."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from hudi_vector.errors import DataFileError
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import Snapshot
from hudi_vector.table.recent import Recent

__all__ = ["KeptSnapshots", "SnapshotSource"]

T = TypeVar("T")

_PAST = 8


class SnapshotSource(Protocol):
    """Whatever has snapshots: a Hudi table, or files."""

    def snapshot(self, as_of: AsOf | None = None) -> Snapshot:
        """The table now, or at a point in its history."""
        ...


class KeptSnapshots:
    """Snapshots of one source, chosen when they are first needed; for several threads.

    Args:
        source: Where they come from.
        refresh_every: Seconds after which the newest is looked for again; None for never.
    """

    def __init__(self, source: SnapshotSource, refresh_every: float | None = None) -> None:
        self._source = source
        self._every = refresh_every
        self._lock = threading.Lock()
        self._newest: Snapshot | None = None
        self._chosen = 0.0
        self._past: Recent[AsOf, Snapshot] = Recent(_PAST)

    def get(self, as_of: AsOf | None = None) -> Snapshot:
        """The snapshot to search now."""
        if as_of is not None:
            return self._past.get(as_of) or self._past.first(as_of, self._source.snapshot(as_of))
        with self._lock:
            newest = self._newest
            if newest is not None and not (self._every is not None and time.monotonic() - self._chosen >= self._every):
                return newest
        return self.refresh()

    def refresh(self) -> Snapshot:
        """Look for the newest snapshot now, and keep it."""
        begun = time.monotonic()
        snapshot = self._source.snapshot()
        with self._lock:
            if begun >= self._chosen:  # another thread may have begun later and been quicker
                self._newest, self._chosen = snapshot, begun
        return snapshot

    def answer(self, as_of: AsOf | None, work: Callable[[Snapshot], T]) -> T:
        """Search, and once more on a newer snapshot if a file is gone: Hudi's clean took it (decision 9).

        Args:
            as_of: The point of the history to search, None for now.
            work: The search.

        Returns:
            What it returns.

        Raises:
            InstantNotAvailableError: The files of that point were cleaned away.
            DataFileError: A file cannot be read.
        """
        try:
            return work(self.get(as_of))
        except DataFileError as problem:
            failed = problem
        if as_of is not None:
            self._past.forget(lambda key: key == as_of)
            self._source.snapshot(as_of)  # says which instants are left, if this one is no longer there
            raise failed
        return work(self.refresh())
