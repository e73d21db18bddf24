"""The best groups by an index: the nearest rows are searched, more and more of them, until they hold k groups.

The nearest rows of a query are a beginning of all its rows in their order. So the groups in them come in the order of
all groups, and the first row of each is its best row. Each search of rows is a usual one, exact or with the recall that
the index was measured for. Queries whose nearest rows hold too few groups are answered by a scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.topk import Ints
from hudi_vector.query.execute import Asked, Question, SearchedRows, SliceFound
from hudi_vector.query.grouping.arguments import MOST_ROWS, rows_at_first
from hudi_vector.query.grouping.keys import group_keys
from hudi_vector.query.merge import SliceHits, Winners, within_groups
from hudi_vector.read.spec import ScanCounts

__all__ = ["InGroups", "found_by_index"]

_TIMES = 4


class InGroups(Asked, Protocol):
    """A question for groups that can ask for the nearest rows, and for some of its queries alone."""

    def nearest(self, queries: Ints, count: int) -> Question:
        """Return the question of some queries for so many of the nearest rows."""
        ...

    def part(self, queries: Ints) -> Asked:
        """Return the question of some queries."""
        ...


@dataclass
class _Seen:
    """The counts of the first search, with the bytes of all, and for each query what its last search did not see."""

    counts: ScanCounts | None = None
    unseen: npt.NDArray[np.float64] | None = None

    def add(self, counts: ScanCounts, asked: Ints, queries: int) -> None:
        """Add the counts of a search for the queries numbered `asked`."""
        if counts.unseen is not None:
            self.unseen = np.full(queries, np.inf) if self.unseen is None else self.unseen
            self.unseen[asked] = counts.unseen
        if self.counts is None:
            self.counts = counts
        else:
            self.counts.bytes_read += counts.bytes_read
        self.counts.unseen = self.unseen


def found_by_index(asked: InGroups, slices: SearchedRows) -> Iterator[SliceFound]:
    """Yield the best row of each of the k nearest groups, for every query; the slices must have an index."""
    waiting, by_scan, seen = np.arange(asked.queries), list[Ints](), _Seen()
    wanted, times = rows_at_first(asked.k), 1
    while len(waiting):
        winners, counts = _nearest(asked, slices, waiting, wanted, times)
        seen.add(counts, waiting, asked.queries)
        groups = np.bincount(winners.query, minlength=len(waiting))
        if winners.group is not None and len(winners):
            chosen, _ = within_groups(winners.query, winners.group, len(winners), 1)
            groups = np.bincount(winners.query[chosen], minlength=len(waiting))
        short = np.bincount(winners.query, minlength=len(waiting)) < wanted
        enough = groups >= asked.k
        if counts.unseen is None:
            enough |= short  # all rows were found
        yield _parts(winners.take(enough[winners.query]), waiting, asked.k), ScanCounts()
        wanted, times = wanted * _TIMES, times * _TIMES
        gives_up = ~enough & (short | (wanted > MOST_ROWS))
        by_scan.append(waiting[gives_up])
        waiting = waiting[~enough & ~gives_up]
    yield from _scanned(asked, slices, np.concatenate([np.empty(0, np.int64), *by_scan]), seen)
    yield [], seen.counts or ScanCounts()


def _nearest(
    asked: InGroups, slices: SearchedRows, waiting: Ints, wanted: int, times: int
) -> tuple[Winners, ScanCounts]:
    """Return the nearest rows of some queries with the keys of their groups, and the counts of the search."""
    wider = slices.wider(times)
    assert wider is not None
    question = asked.nearest(waiting, wanted)
    parts, counts = list[SliceHits](), ScanCounts()
    for hits, own in wider.search(question, question.bounds()):
        parts += hits
        counts.add(own)
    winners = slices.merged(question, parts)
    return replace(winners, group=group_keys(slices.columns(winners, asked.needs))), counts


def _parts(winners: Winners, waiting: Ints, k: int) -> list[SliceHits]:
    """Return the best row of each of the first k groups of some queries, by slice."""
    if not len(winners):
        return []
    chosen, _ = within_groups(winners.query, winners.group, k, 1)
    best = winners.take(chosen)
    return replace(best, query=waiting[best.query]).parts()


def _scanned(asked: InGroups, slices: SearchedRows, queries: Ints, seen: _Seen) -> Iterator[SliceFound]:
    """Yield the hits of some queries by a scan of all rows."""
    if not len(queries):
        return
    rest = asked.part(queries)
    for hits, own in slices.search(rest, rest.bounds()):
        parts = [replace(part, hits=replace(part.hits, query=queries[part.hits.query])) for part in hits]
        yield parts, ScanCounts(bytes_read=own.bytes_read)
    if seen.unseen is not None:
        seen.unseen[queries] = np.inf
