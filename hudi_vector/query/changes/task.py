"""The changes that a completed instant made to the nearest rows of fixed queries, the same whenever computed.

The changes lead from the state just before the instant completed to the state just after. No state has to be kept in
between; the rankings of the last instants are cached in the process for speed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.query.changes.compare import Change, Ranked, advanced, changes_between, ranked
from hudi_vector.query.opened.kept_snapshots import KeptSnapshots
from hudi_vector.query.opened.request import Asked
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent
from hudi_vector.table.timeline import Instant

__all__ = ["ON_GAP", "WatchTask", "WatchedChange"]

_LOG = logging.getLogger("hudi_vector.watch")

ON_GAP = ("fail", "snapshot")

_RANKINGS: Recent[tuple[str, str], Ranked] = Recent(8)


class WatchedChange(NamedTuple):
    """A `Change` that an instant made to one query's nearest rows: a row of the stream, with its columns in order.

    `computed` is ``changed files``, or ``search`` if the query was searched again.
    """

    instant: str
    completed: str
    query: int
    change: str
    key: str | None
    partition: str | None
    from_rank: int | None
    to_rank: int | None
    from_distance: float | None
    to_distance: float | None
    computed: str


@dataclass(frozen=True)
class WatchTask:
    """A fixed set of queries over a table that changes. Picklable: executors get it.

    `start` is the completion time after which instants are reported. `number` distinguishes this watch from others of
    the process.
    """

    source: Source
    asked: Asked
    start: str
    on_gap: str
    unchanged: bool
    number: str

    def changes(self, instant: Instant) -> Iterator[WatchedChange]:
        """Yield the changes that a completed instant made, query by query.

        Raises InstantNotAvailableError if they can no longer be computed and `on_gap` is ``fail``.
        """
        if instant.completed <= self.start:
            return
        table = NativeTable(self.source)
        try:
            rankings: tuple[Ranked | None, Ranked] | None = self._rankings(table, instant)
        except InstantNotAvailableError as gap:
            rankings = self._at_gap(table, instant, gap)
        if rankings is None:
            return
        before, after = rankings
        again, queries = len(after.searched), len(after.members)
        counts = (instant.requested, self.source.name, queries - again, again)
        _LOG.info("instant %s of %s: %d queries from changed files, %d by a search", *counts)
        for query in range(queries):
            computed = "search" if query in after.searched else "changed files"
            for change in self._of_query(query, before, after):
                yield WatchedChange(instant.requested, instant.completed, query, *change, computed)

    def _of_query(self, query: int, before: Ranked | None, after: Ranked) -> list[Change]:
        """Return the changes of a query, or its whole ranking if `before` is None."""
        changes = list(changes_between(before.ranks(query) if before else {}, after.ranks(query)))
        if before is None:
            return [change._replace(change="snapshot") for change in changes or [Change("snapshot")]]
        return changes or ([Change("unchanged")] if self.unchanged else [])

    def _rankings(self, table: NativeTable, instant: Instant) -> tuple[Ranked, Ranked] | None:
        """Return the rankings before and after an instant; those before the table's first commit have no rows.

        Returns None if a later commit with the same completion time reports the changes of both. Raises
        InstantNotAvailableError, with the reason alone, if the rankings can no longer be computed.
        """
        if instant.action == "restore":
            raise InstantNotAvailableError("the table was restored to an earlier state")
        timeline = table.timeline()
        commits = timeline.commits
        if instant not in commits:
            raise InstantNotAvailableError("it was archived before the stream came to it")
        if any(other.completed == instant.completed and other > instant for other in commits):
            return None
        earlier = max((other.completed for other in commits if other.completed < instant.completed), default=None)
        if earlier is not None:
            if any(earlier < other.completed < instant.completed for other in table.archived_amid(timeline)):
                raise InstantNotAvailableError("the commit before it was archived before the stream came to this one")
            before = self._ranked(table, earlier)
            return before, self._ranked(table, instant.completed, before)
        if table.archived_since() is not None:
            raise InstantNotAvailableError("the commit before it was archived before the stream came to this one")
        after = self._ranked(table, instant.completed)
        return Ranked(after.snapshot, ((),) * len(after.members), frozenset()), after

    def _ranked(self, table: NativeTable, completed: str, before: Ranked | None = None) -> Ranked:
        """Return the rankings at a completion time, computed from `before` where possible.

        Raises InstantNotAvailableError if the table no longer keeps that snapshot.
        """

        def rank(snapshot: Snapshot) -> Ranked:
            if before is not None:
                return advanced(self.asked, before, snapshot)
            return _RANKINGS.get((self.number, snapshot.identity)) or ranked(self.asked, snapshot)

        found = KeptSnapshots(table).answer(Moment(completed).as_of, rank)
        _RANKINGS.put((self.number, found.snapshot.identity), found)
        return found

    def _at_gap(
        self, table: NativeTable, instant: Instant, gap: InstantNotAvailableError
    ) -> tuple[None, Ranked] | None:
        """Return the rankings after an instant whose changes cannot be computed, or None if these are gone too.

        Raises InstantNotAvailableError if `on_gap` is ``fail``.
        """
        name = self.source.name
        if self.on_gap == "fail":
            raise InstantNotAvailableError(
                f"what the instant {instant.requested} changed in '{name}' cannot be computed: {gap}; watch with "
                "on_gap='snapshot' to get whole rankings in such a case, or start again with another checkpoint"
            ) from None
        _LOG.warning("whole rankings of %s at instant %s: %s", name, instant.requested, gap)
        try:
            return None, self._ranked(table, instant.completed)
        except InstantNotAvailableError:
            return None  # a later instant then has a gap before it and reports the whole rankings
