"""The snapshots an opened table is searched at: the newest, kept until it is refreshed, and some of the past."""

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
    """Whatever has snapshots: a Hudi table, or files."""

    def snapshot(self, as_of: AsOf | None = None) -> Snapshot:
        """The table now, or at a point in its history."""
        ...


@dataclass(frozen=True)
class _Chosen:
    """A snapshot, and when it began to be looked for."""

    snapshot: Snapshot
    begun: float


class KeptSnapshots:
    """Snapshots of one source, chosen when they are first needed; for several threads.

    Args:
        source: Where they come from.
        refresh_every: Seconds after which they are chosen again; None for never.
        on_choice: Called before one is chosen.
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
        # A point of the history may change too: an action that was requested before it may complete later.
        self._past: Recent[AsOf, _Chosen] = Recent(_PAST)

    @property
    def identity(self) -> str | None:
        """Which state of the source is searched now, None where none was chosen yet."""
        newest = self._newest
        return None if newest is None else newest.snapshot.identity

    def get(self, as_of: AsOf | None = None) -> Snapshot:
        """The snapshot to search now."""
        kept = self._newest if as_of is None else self._past.get(as_of)
        if kept is not None and (self._every is None or time.monotonic() - kept.begun < self._every):
            return kept.snapshot
        return self._choose(as_of)

    def refresh(self) -> Snapshot:
        """Look for the newest snapshot now, and keep it; forget those of the past."""
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
            # Another thread may have begun later and been quicker.
            if self._newest is None or self._newest.begun <= begun:
                self._newest = chosen
        return chosen.snapshot

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
