"""The changes that a completed instant made to the nearest rows of fixed queries, the same whenever computed.

The changes lead from the state just before the instant completed to the state just after. No state has to be kept in
between; the rankings of the last instants are cached in the process for speed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from hudi_vector.errors import DataFileError, InstantNotAvailableError
from hudi_vector.query.changes.compare import Key, Ranked, advanced, changes_between, ranked
from hudi_vector.query.opened.request import Asked
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent
from hudi_vector.table.timeline import Instant

__all__ = ["CHANGED_FILES", "ON_GAP", "SEARCH", "Noted", "WatchTask"]

_LOG = logging.getLogger("hudi_vector.watch")

CHANGED_FILES, SEARCH = "changed files", "search"
ON_GAP = ("fail", "snapshot")

_KEPT: Recent[tuple[str, str], Ranked] = Recent(8)


@dataclass(frozen=True)
class Noted:
    """A change that an instant made to one query's nearest rows, and how it was computed.

    `change` is ``entered``, ``left`` or ``moved``; ``unchanged`` for a query without changes; ``snapshot`` for a row of
    the whole ranking, where the changes cannot be computed. The last two may have no row. `computed` is `CHANGED_FILES`
    or `SEARCH`.
    """

    instant: Instant
    query: int
    change: str
    computed: str
    key: str | None = None
    partition: str | None = None
    from_rank: int | None = None
    to_rank: int | None = None
    from_distance: float | None = None
    to_distance: float | None = None


class _GapError(Exception):
    """The changes of an instant cannot be computed; the text is the reason, as the end of a sentence."""


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

    def changes(self, instant: Instant) -> Iterator[Noted]:
        """Yield the changes that a completed instant made, query by query.

        Raises InstantNotAvailableError if they can no longer be computed and `on_gap` is ``fail``.
        """
        if instant.completed <= self.start:
            return
        table = NativeTable(self.source)
        try:
            rankings = self._rankings(table, instant)
        except _GapError as gap:
            yield from self._at_gap(table, instant, gap)
            return
        if rankings is None:
            return
        before, after = rankings
        _LOG.info(
            "instant %s of %s: %d queries from changed files, %d by a search",
            instant.requested,
            self.source.name,
            len(after.members) - len(after.searched),
            len(after.searched),
        )
        for query in range(len(after.members)):
            yield from self._of_query(instant, query, before.ranks(query) if before else {}, after)

    def _of_query(
        self, instant: Instant, query: int, before: dict[Key, tuple[int, float]], after: Ranked
    ) -> Iterator[Noted]:
        computed = SEARCH if query in after.searched else CHANGED_FILES
        found = False
        for c in changes_between(before, after.ranks(query)):
            found = True
            ranks, distances = (c.from_rank, c.to_rank), (c.from_distance, c.to_distance)
            yield Noted(instant, query, c.change, computed, c.key, c.partition, *ranks, *distances)
        if self.unchanged and not found:
            yield Noted(instant, query, "unchanged", computed)

    def _rankings(self, table: NativeTable, instant: Instant) -> tuple[Ranked | None, Ranked] | None:
        """Return the rankings before and after an instant; the first is None for the table's first commit.

        Returns None if a later commit with the same completion time reports the changes of both. Raises _GapError if
        the rankings can no longer be computed.
        """
        if instant.action == "restore":
            raise _GapError("the table was restored to an earlier state")
        commits = sorted(table.timeline().commits, key=lambda entry: (entry.completed, entry.requested))
        if instant not in commits:
            raise _GapError("it was archived before the stream came to it")
        if instant != [entry for entry in commits if entry.completed == instant.completed][-1]:
            return None
        earlier = [entry.completed for entry in commits if entry.completed < instant.completed]
        if not earlier:
            if table.archived_since() is not None:
                raise _GapError("the commit before it was archived before the stream came to this one")
            return None, self._ranked(table, instant.completed, None)
        before = self._ranked(table, earlier[-1], None)
        return before, self._ranked(table, instant.completed, before)

    def _ranked(self, table: NativeTable, completed: str, before: Ranked | None) -> Ranked:
        """Return the rankings at a completion time, computed from `before` where possible.

        Raises _GapError if the snapshot is no longer available.
        """
        try:
            snapshot = table.snapshot(Moment(completed).as_of)
            key = (self.number, snapshot.identity)
            found = _KEPT.get(key) if before is None else advanced(self.asked, before, snapshot)
            if found is None:
                found = ranked(self.asked, snapshot)
            _KEPT.put(key, found)
            return found
        except InstantNotAvailableError as gone:
            raise _GapError(str(gone)) from None
        except DataFileError:
            try:  # raises InstantNotAvailableError if Hudi's clean removed the file
                table.snapshot(Moment(completed).as_of)
            except InstantNotAvailableError as gone:
                raise _GapError(str(gone)) from None
            raise

    def _at_gap(self, table: NativeTable, instant: Instant, gap: _GapError) -> Iterator[Noted]:
        name = self.source.name
        if self.on_gap == "fail":
            raise InstantNotAvailableError(
                f"what the instant {instant.requested} changed in '{name}' cannot be told: {gap}; watch with "
                "on_gap='snapshot' to be given whole rankings then, or start anew with another checkpoint"
            )
        _LOG.warning("whole rankings of %s at instant %s: %s", name, instant.requested, gap)
        try:
            after = self._ranked(table, instant.completed, None)
        except _GapError:
            return  # a later instant then has a gap before it and reports the whole rankings
        for query, members in enumerate(after.members):
            if not members:
                yield Noted(instant, query, "snapshot", SEARCH)
            for rank, m in enumerate(members, 1):
                yield Noted(
                    instant, query, "snapshot", SEARCH, m.key, m.partition, to_rank=rank, to_distance=m.distance
                )
