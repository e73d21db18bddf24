"""The nearest rows of fixed queries, carried from one snapshot of a table to the next, and the changes between them.

The rows of a snapshot are in file slices, most of which a commit leaves unchanged. A row of an unchanged slice that was
not among the k nearest rows is farther than all that were. So the nearest rows after a commit are found among the
former nearest rows whose slice still exists and the rows of the new slices, as long as the last of them is no farther
than the last one before. Otherwise some other row might be among the nearest, and the query is searched again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hudi_vector.query.opened.request import Asked
from hudi_vector.read.spec import TIE_COLUMNS
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["Change", "Key", "Member", "Ranked", "advanced", "changes_between", "ranked"]

Key = tuple[str, str]
"""A record key and a partition path."""


class Change(NamedTuple):
    """A change of a row: ``entered``, ``left`` or ``moved`` (to another rank or distance).

    Rank, from 1, and distance are None on the side where the row is not among the nearest. A watch also has
    ``snapshot`` for a row of a whole ranking, and ``unchanged``; these may have no row.
    """

    change: str
    key: str | None = None
    partition: str | None = None
    from_rank: int | None = None
    to_rank: int | None = None
    from_distance: float | None = None
    to_distance: float | None = None


class Member(NamedTuple):
    """One of the k nearest rows of a query, and the file slice that holds it; rows are ordered by the first four."""

    distance: float
    key: str
    partition: str
    seqno: str
    file_slice: FileSlice


@dataclass(frozen=True)
class Ranked:
    """The k nearest rows of every query at a snapshot; `searched` are the queries that had to be searched again."""

    snapshot: Snapshot
    members: tuple[tuple[Member, ...], ...]
    searched: frozenset[int]

    def ranks(self, query: int) -> dict[Key, tuple[int, float]]:
        """Return rank, from 1, and distance of each row of a query, in order of rank."""
        return {(m.key, m.partition): (rank, m.distance) for rank, m in enumerate(self.members[query], 1)}


def changes_between(
    before: Mapping[Key, tuple[int, float]], after: Mapping[Key, tuple[int, float]]
) -> Iterator[Change]:
    """Yield the changes between two rankings, which hold rank and distance by row, in order of rank.

    Rows that entered or moved come first, by their later rank; rows that left come last.

    Example:
        >>> [c.change for c in changes_between({("a", ""): (1, 0.5)}, {("b", ""): (1, 0.2), ("a", ""): (2, 0.5)})]
        ['entered', 'moved']
    """
    for key, (rank, distance) in after.items():
        was, far = before.get(key, (None, None))
        if (was, far) != (rank, distance):
            yield Change("entered" if was is None else "moved", *key, was, rank, far, distance)
    for key, (rank, distance) in before.items():
        if key not in after:
            yield Change("left", *key, rank, None, distance, None)


def ranked(asked: Asked, snapshot: Snapshot) -> Ranked:
    """Return the k nearest rows of every query by a search; `asked` must not use an index."""
    return Ranked(snapshot, _found(asked, snapshot), frozenset(range(len(asked.vectors))))


def advanced(asked: Asked, before: Ranked, snapshot: Snapshot) -> Ranked:
    """Return the k nearest rows of every query at a later snapshot, the same rows as a search finds.

    They are computed from the earlier ones where that is certain; the other queries are searched again, and all of them
    if the schema changed.
    """
    if not before.snapshot.schema.equals(snapshot.schema, check_metadata=True):
        return ranked(asked, snapshot)
    then, now = set(before.snapshot.file_slices), set(snapshot.file_slices)
    added = tuple(entry for entry in snapshot.file_slices if entry not in then)
    fresh = _found(asked, replace(snapshot, file_slices=added)) if added else ((),) * len(asked.vectors)
    members: list[tuple[Member, ...]] = []
    uncertain = []
    for query, (old, new) in enumerate(zip(before.members, fresh, strict=True)):
        kept = [member for member in old if member.file_slice in now]
        merged = sorted([*kept, *new], key=lambda member: member[:4])[: asked.k]
        members.append(tuple(merged))
        # Fewer than k rows were all rows there are. The sequence number is left out of the comparison: a row that was
        # rewritten unchanged has a new one.
        if len(old) == asked.k and (len(merged) < asked.k or merged[-1][:3] > old[-1][:3]):
            uncertain.append(query)
    if uncertain:
        again = _found(replace(asked, vectors=asked.vectors[uncertain]), snapshot)
        for query, found in zip(uncertain, again, strict=True):
            members[query] = found
    return Ranked(snapshot, tuple(members), frozenset(uncertain))


def _found(asked: Asked, snapshot: Snapshot) -> tuple[tuple[Member, ...], ...]:
    """Return the k nearest rows of every query by a search without indexes."""
    found = asked.find(snapshot, ())
    slices = [found.plan.slices[place].file_slice for place in found.winners.slice_index.tolist()]
    keys = found.columns(list(TIE_COLUMNS))
    columns = [keys[name].to_pylist() for name in TIE_COLUMNS]
    rows = list(map(Member, found.winners.distance.tolist(), *columns, slices))
    ends = np.searchsorted(found.winners.query, np.arange(len(asked.vectors) + 1))
    return tuple(tuple(rows[first:last]) for first, last in pairwise(ends.tolist()))
