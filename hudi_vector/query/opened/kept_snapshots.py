"""The cached snapshots of an opened table: the newest, kept until it is refreshed, and some of the past."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hudi_vector.errors import DataFileError
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import Snapshot
from hudi_vector.table.recent import Recent

__all__ = ["KeptSnapshots", "SnapshotSource"]

T = TypeVar("T")

_PAST = 8


class SnapshotSource(Protocol):
    """Anything that has snapshots: a Hudi table, files, a Delta table or a Lance dataset."""

    def snapshot(self, as_of: AsOf | None = None) -> Snapshot:
        """Return the snapshot of now, or of a point in the history."""
        ...


@dataclass(frozen=True)
class _Chosen:
    """A snapshot, and the time (monotonic, seconds) at which its listing began."""

    snapshot: Snapshot
    begun: float


class KeptSnapshots:
    """The snapshots of one source, chosen when they are first needed; thread-safe.

    Args:
        source: The source of snapshots.
        refresh_every: The age in seconds after which a snapshot is chosen again; None for never.
        on_choice: A function that is called before each choice.
    """

    def __init__(
        self,
        source: SnapshotSource,
        refresh_every: float | None = None,
        on_choice: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._on_choice = on_choice
        self._every = refresh_every
        self._lock = threading.Lock()
        self._newest: _Chosen | None = None
        # A past snapshot may change too: an action that was requested before it may complete later.
        self._past: Recent[AsOf, _Chosen] = Recent(_PAST)

    @property
    def identity(self) -> str | None:
        """Return the identity of the newest snapshot, or None if none was chosen yet."""
        newest = self._newest
        return None if newest is None else newest.snapshot.identity

    def get(self, as_of: AsOf | None = None) -> Snapshot:
        """Return the snapshot to search now."""
        kept = self._newest if as_of is None else self._past.get(as_of)
        if kept is not None and (self._every is None or time.monotonic() - kept.begun < self._every):
            return kept.snapshot
        return self._choose(as_of)

    def refresh(self) -> Snapshot:
        """Choose the newest snapshot again and return it; forget the snapshots of the past."""
        self._past.forget(lambda _: True)
        return self._choose(None)

    def _choose(self, as_of: AsOf | None) -> Snapshot:
        begun = time.monotonic()
        self._on_choice()
        chosen = _Chosen(self._source.snapshot(as_of), begun)
        if as_of is not None:
            self._past.put(as_of, chosen)
            return chosen.snapshot
        with self._lock:
            # Another thread may have begun later and finished earlier; its snapshot is newer.
            if self._newest is None or self._newest.begun <= begun:
                self._newest = chosen
        return chosen.snapshot

    def answer(self, as_of: AsOf | None, work: Callable[[Snapshot], T]) -> T:
        """Run a search on a snapshot, and again on a newer one if a file is missing because Hudi's clean removed it.

        `as_of` is the point in the history to search, None for now; a search of the past is not repeated. Raises
        InstantNotAvailableError if the files of that point were cleaned away, and DataFileError if a file cannot be
        read.
        """
        try:
            return work(self.get(as_of))
        except DataFileError as problem:
            failed = problem
        if as_of is not None:
            self._past.forget(lambda key: key == as_of)
            self._source.snapshot(as_of)  # if this point is gone, raises an error that names the instants left
            raise failed
        return work(self.refresh())
