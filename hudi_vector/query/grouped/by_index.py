"""The best groups by an index: the nearest rows are searched, more and more of them, until they hold k groups.

The nearest rows of a query are a beginning of all its rows in their order. So the groups in them come in the order of
all groups, and the first rows of each are its best rows. Each search of rows is a usual one, exact or with the recall
that the index was measured for. Queries whose nearest rows hold too few groups are answered by a scan. If they hold k
groups, but too few rows of these, the rows of these groups are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.topk import Bounds, Ints
from hudi_vector.query.execute import Asked, Question, SearchedRows, SliceFound
from hudi_vector.query.grouping.arguments import MOST_ROWS, rows_at_first
from hudi_vector.query.grouping.keys import group_keys
from hudi_vector.query.merge import SliceHits, Winners, within_groups
from hudi_vector.read.spec import ScanCounts

__all__ = ["InGroups", "found_by_index"]

_TIMES = 4


class InGroups(Asked, Protocol):
    """A question for groups that can ask for the nearest rows, and for some of its queries alone."""

    @property
    def per_group(self) -> int:
        """Return the number of rows that each group gives at most."""
        ...

    def nearest(self, queries: Ints, count: int) -> Question:
        """Return the question of some queries for so many of the nearest rows."""
        ...

    def part(self, queries: Ints) -> InGroups:
        """Return the question of some queries."""
        ...

    def scanned(self, slices: SearchedRows, bounds: Bounds) -> Iterator[SliceFound]:
        """Yield the hits of all slices by a scan."""
        ...

    def members_of(self, winners: Winners, slices: SearchedRows) -> Iterator[SliceFound]:
        """Yield the best rows of the groups that have a row among the winners."""
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
    """Yield the best rows of each of the k nearest groups, for every query; the slices must have an index."""
    waiting, by_scan, seen = np.arange(asked.queries), list[Ints](), _Seen()
    wanted, times = rows_at_first(asked.k), 1
    while len(waiting):
        probed = slices.wider(times)
        if probed is None:  # all vectors came into memory meanwhile
            by_scan.append(waiting)
            break
        winners, counts = _nearest(asked, probed, waiting, wanted)
        seen.add(counts, waiting, asked.queries)
        chosen, rank = within_groups(winners.query, winners.group, asked.k, asked.per_group)
        best, groups = winners.take(chosen), np.zeros(len(waiting), np.int64)
        np.maximum.at(groups, best.query, rank + 1)
        short = np.bincount(winners.query, minlength=len(waiting)) < wanted
        enough = np.bincount(best.query, minlength=len(waiting)) >= asked.k * asked.per_group
        if counts.unseen is None:
            enough |= short  # all rows were found
        yield _parts(best.take(enough[best.query]), waiting), ScanCounts()
        known = ~enough & (groups >= asked.k)
        yield from _rest_of_groups(asked, slices, best, waiting, known)
        wanted, times = wanted * _TIMES, times * _TIMES
        gives_up = ~enough & ~known & (short | (wanted > MOST_ROWS))
        by_scan.append(waiting[gives_up])
        waiting = waiting[~enough & ~known & ~gives_up]
    yield from _scanned(asked, slices, np.concatenate([np.empty(0, np.int64), *by_scan]), seen)
    yield [], seen.counts or ScanCounts()


def _nearest(asked: InGroups, slices: SearchedRows, waiting: Ints, wanted: int) -> tuple[Winners, ScanCounts]:
    """Return the nearest rows of some queries with the keys of their groups, and the counts of the search."""
    question = asked.nearest(waiting, wanted)
    parts, counts = list[SliceHits](), ScanCounts()
    for hits, own in slices.search(question, question.bounds()):
        parts += hits
        counts.add(own)
    winners = slices.merged(question, parts)
    return replace(winners, group=group_keys(slices.columns(winners, asked.needs))), counts


def _parts(best: Winners, waiting: Ints) -> list[SliceHits]:
    """Return rows found for some queries, by slice."""
    return replace(best, query=waiting[best.query]).parts() if len(best) else []


def _rest_of_groups(
    asked: InGroups, slices: SearchedRows, best: Winners, waiting: Ints, known: npt.NDArray[np.bool_]
) -> Iterator[SliceFound]:
    """Yield the best rows of the groups of those waiting queries whose groups are known."""
    if not known.any():
        return
    own = best.take(known[best.query])
    own = replace(own, query=(np.cumsum(known) - 1)[own.query])
    yield from _for_queries(asked.part(waiting[known]).members_of(own, slices), waiting[known])


def _scanned(asked: InGroups, slices: SearchedRows, queries: Ints, seen: _Seen) -> Iterator[SliceFound]:
    """Yield the hits of some queries by a scan of all rows."""
    if not len(queries):
        return
    rest = asked.part(queries)
    yield from _for_queries(rest.scanned(slices, rest.bounds()), queries)
    if seen.unseen is not None:
        seen.unseen[queries] = np.inf


def _for_queries(found: Iterator[SliceFound], queries: Ints) -> Iterator[SliceFound]:
    """Yield hits with the numbers that their queries have among all; the rows were counted before."""
    for hits, own in found:
        parts = [replace(part, hits=replace(part.hits, query=queries[part.hits.query])) for part in hits]
        yield parts, ScanCounts(bytes_read=own.bytes_read)
