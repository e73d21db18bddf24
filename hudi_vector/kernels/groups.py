"""Search for the nearest groups of rows: the best row of each of the k nearest groups, or more rows of given groups.

A group is as near as its nearest row. Rows are screened as in `TopK`; the group of a row is looked up only if its lower
bound lies within the limit of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.blocks import Values
from hudi_vector.kernels.metrics import Floats, Screen
from hudi_vector.kernels.topk import Bounds, HitPool, Hits, Ints, TopK, VectorBlock, pairs_within, rank_within

__all__ = ["GroupPool", "GroupedBlock", "GroupedTopK", "Known", "MemberPool", "Pool", "SpanPool", "seeds_of_groups"]

_SEEDS_TIMES_K, _SEEDS_AND = 4, 16
_SEED_PAIRS = 1 << 18
_CODE_BITS = 32


@dataclass(frozen=True)
class GroupedBlock(VectorBlock):
    """Rows to search, and a function that gives the values by which rows, at given places in the block, are grouped."""

    values_at: Callable[[Ints], Any] = field(compare=False)

    def part(self, start: int, stop: int) -> GroupedBlock:
        """Return the rows from `start` to `stop` (exclusive) as views."""
        part, of_all = super().part(start, stop), self.values_at
        return GroupedBlock(part.values, part.positions, part.squares, part.odd, lambda at: of_all(at + start))


@dataclass(frozen=True)
class Known:
    """The groups that a pool knows of each query, with the largest distance at which a row of the group matters.

    `query`, `code` and `limit` have shape (g,) and are sorted by query and code. Unless `others`, rows of further
    groups do not matter.
    """

    query: Ints
    code: Ints
    limit: Floats
    others: bool

    def places(self, query: Ints, code: Ints) -> Ints:
        """Return the places of pairs of a query and a group among the known ones, -1 for others."""
        if not len(self.query):
            return np.full(len(query), -1, np.int64)
        own, asked = (np.left_shift(q, _CODE_BITS) | c for q, c in ((self.query, self.code), (query, code)))
        place = np.minimum(np.searchsorted(own, asked), len(own) - 1)
        return np.where(own[place] == asked, place, -1)

    def limits(self, screen: Screen, queries: int) -> Floats:
        """Return the limits in the rank units of a screen for so many queries."""
        _, number = rank_within(self.query, self.code)
        table = np.full((queries, int(number.max(initial=-1)) + 1), np.inf)
        table[self.query, number] = self.limit
        for column in range(table.shape[1]):
            table[:, column] = screen.limits(table[:, column])
        ranks: Floats = table[self.query, number]
        return ranks


class Pool(Protocol):
    """The best rows of groups so far."""

    def add(self, hits: Hits) -> None:
        """Add hits with the codes of their groups."""
        ...

    def hits(self) -> Hits:
        """Return the hits, and tighten the bounds."""
        ...

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be among the hits, unordered and with duplicates."""
        ...

    def known(self) -> Known:
        """Return what limits the rows of each group."""
        ...


class GroupPool(HitPool):
    """The nearest row of each of the k nearest groups of m queries, with all rows and groups that tie.

    Hits have the codes of their groups, and are sorted by query and group. `bounds`, of m queries, holds the distance
    of the k-th group, and is tightened whenever the hits are reduced.
    """

    def __init__(self, k: int, bounds: Bounds) -> None:
        super().__init__(k, bounds, max(4 * k * len(bounds.distance), 1024))

    def known(self) -> Known:
        """Return the best distance of each group so far; rows of others matter too."""
        pool = self.hits()
        first = _firsts(pool)
        code = np.empty(0, np.int64) if pool.group is None else pool.group[first]
        return Known(pool.query[first], code, pool.distance[first], others=True)

    def _reduced(self, pool: Hits) -> Hits:
        pool = _distinct(pool)
        first = _firsts(pool)
        query, best = pool.query[first], pool.distance[first]
        order, rank = rank_within(query, best)
        kth = order[rank == self._k - 1]
        self._tighten(query[kth], best[kth])
        of_group = np.repeat(best, np.diff(np.append(first, len(pool))))
        return pool.take(pool.distance <= np.minimum(of_group, self._bound[pool.query]))


class MemberPool:
    """The nearest rows of given groups, up to `count` for each query and group, with all rows that tie with the last.

    `query` and `code`, shape (g,), are the pairs of a query and a group, sorted and distinct. `bounds` are those of the
    queries, and are lowered once all groups of a query have enough rows.
    """

    def __init__(self, count: int, query: Ints, code: Ints, bounds: Bounds) -> None:
        self._query, self._code = query, code
        self._bound = bounds.distance
        self._own = Bounds(bounds.distance[query], np.zeros(len(query), np.bool_))
        self._pool = HitPool(count, self._own)

    def add(self, hits: Hits) -> None:
        """Add hits with the codes of their groups, all of which are given ones."""
        assert hits.group is not None
        place = self.known().places(hits.query, hits.group)
        self._pool.add(replace(hits, query=place, group=None))

    def hits(self) -> Hits:
        """Return the hits, sorted by query, group and distance, and tighten the bounds."""
        found = self._pool.hits()
        largest = np.full(len(self._bound), -np.inf)
        np.maximum.at(largest, self._query, self._own.distance)
        self._bound[:] = np.minimum(self._bound, largest)
        at = found.query
        return replace(found, query=self._query[at], group=self._code[at])

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be among the hits, unordered and with duplicates."""
        return self._pool.candidates()

    def known(self) -> Known:
        """Return the distance of the last wanted row of each group so far; rows of others do not matter."""
        return Known(self._query, self._code, self._own.distance, others=False)


class SpanPool(HitPool):
    """The rows that may be among the best of their groups, whose distances are known to lie within spans.

    Hits have the least distance that the row may have, the codes of their groups, and `by_column` whose last column is
    the largest distance. `count` is the number of rows that each group gives. With `k`, rows of the k nearest groups
    alone are kept, and `bounds`, of m queries, are tightened to what the k-th group certainly reaches.
    """

    def __init__(self, count: int, k: int | None, bounds: Bounds) -> None:
        super().__init__(count if k is None else k, bounds, 1 << 14)
        self._count, self._groups = count, k

    def known(self) -> Known:
        """Return what the last wanted row of each group so far certainly reaches; rows of others matter too."""
        pool = self.hits()
        first, limit = _firsts(pool), self._limits(pool)
        code = np.empty(0, np.int64) if pool.group is None else pool.group[first]
        return Known(pool.query[first], code, limit, others=True)

    def _limits(self, pool: Hits) -> Floats:
        """Return the `count`-th largest distance of each group, infinite with fewer rows, of hits sorted by group."""
        first = _firsts(pool)
        limit = np.full(len(first), np.inf)
        if pool.by_column is not None:
            number = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(pool))))
            order, rank = rank_within(number, pool.by_column[:, -1])
            last = order[rank == self._count - 1]
            limit[number[last]] = pool.by_column[last, -1]
        return limit

    def _reduced(self, pool: Hits) -> Hits:
        pool = _distinct(pool)
        first, limit = _firsts(pool), self._limits(pool)
        if self._groups is not None and pool.by_column is not None and len(first):
            best, query = np.minimum.reduceat(pool.by_column[:, -1], first), pool.query[first]
            order, rank = rank_within(query, best)
            kth = order[rank == self._groups - 1]
            self._tighten(query[kth], best[kth])
        of_group = np.repeat(limit, np.diff(np.append(first, len(pool))))
        return pool.take(pool.distance <= np.minimum(of_group, self._bound[pool.query]))


class GroupedTopK(TopK):
    """A collector of the best rows of groups for m queries, block by block.

    Args:
        queries: Vectors, shape (m, d).
        metric: A name in `METRICS`.
        k: The number of groups that each query wants.
        bounds: What is known of the distance of each query's k-th group.
        pool: The rows to keep.
        codes: A function that returns the codes of groups, from 0, for the values that a `GroupedBlock` gives; -1 for
            groups that do not matter.
    """

    def __init__(
        self, queries: Floats, metric: str, k: int, bounds: Bounds, pool: Pool, codes: Callable[[Any], Ints]
    ) -> None:
        super().__init__(queries, metric, k, bounds)
        self._best = pool
        self._codes = codes

    def hits(self) -> Hits:
        """Return the rows found, with the codes of their groups."""
        return self._best.hits()

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be among the nearest, unordered and with duplicates."""
        return self._best.candidates()

    def _offer(self, block: VectorBlock) -> None:
        screen, lower = self._screened(block)
        if not self._full.all():
            self._seed(block, lower)
        rows, columns = pairs_within(lower, screen.limits(self._bound))
        if not len(rows):
            return
        code = self._codes_at(block, rows)
        known = self._best.known()
        place = known.places(columns, code)
        near = place >= 0
        if near.any():
            limits = known.limits(screen, len(self.queries))
            near[near] = lower[rows[near], columns[near]] <= limits[place[near]]
        if known.others:
            near |= place < 0
        self._score_groups(block, rows[near], columns[near], code[near])
        self._best.hits()

    def _seed(self, block: VectorBlock, lower: Values) -> None:
        """Score the most promising rows of a block for each query that has no k groups yet, and tighten its bound."""
        for rows, columns in seeds_of_groups(lower, self._full, self.k):
            self._score_groups(block, rows, columns, self._codes_at(block, rows))
            self._best.hits()

    def _codes_at(self, block: VectorBlock, rows: npt.NDArray[Any]) -> Ints:
        assert isinstance(block, GroupedBlock)
        if len(self.queries) == 1:
            return self._codes(block.values_at(rows))
        distinct, inverse = np.unique(rows, return_inverse=True)
        codes: Ints = self._codes(block.values_at(distinct))[inverse]
        return codes

    def _score_groups(self, block: VectorBlock, rows: npt.NDArray[Any], columns: Ints, code: Ints) -> None:
        step = max(1, (1 << 22) // block.values.shape[1])
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            far = self._exact(block, rows[part], columns[part])
            self._best.add(Hits(columns[part], far, block.positions[rows[part]], group=code[part]))


def seeds_of_groups(lower: Values, full: npt.NDArray[np.bool_], k: int) -> Iterator[tuple[npt.NDArray[Any], Ints]]:
    """Yield the most promising rows of a block, with a query each, for the queries that are not full: some, then more.

    `lower`, shape (n, m), bounds the distances; `full`, shape (m,), is looked at again after the first rows.
    """
    for wanted in (_SEEDS_TIMES_K * k + _SEEDS_AND, 8 * (_SEEDS_TIMES_K * k + _SEEDS_AND)):
        ask = np.flatnonzero(~full)
        seeds = min(wanted, len(lower), _SEED_PAIRS // max(1, len(ask)))
        if not len(ask) or not seeds:
            return
        chosen = np.argpartition(lower[:, ask], seeds - 1, axis=0)[:seeds]
        yield chosen.T.ravel(), np.repeat(ask, seeds)
        if seeds == len(lower):
            return


def _distinct(hits: Hits) -> Hits:
    """Return the hits by query, group and distance, each row once for a query."""
    assert hits.group is not None
    hits = hits.take(np.lexsort((hits.position, hits.distance, hits.group, hits.query)))
    same = (hits.query[1:] == hits.query[:-1]) & (hits.position[1:] == hits.position[:-1])
    return hits.take(np.concatenate(([True], ~same)))


def _firsts(hits: Hits) -> npt.NDArray[np.intp]:
    """Return the place of the first hit of each query and group, of hits sorted by both."""
    if not len(hits):
        return np.empty(0, np.intp)
    assert hits.group is not None
    changed = (hits.query[1:] != hits.query[:-1]) | (hits.group[1:] != hits.group[:-1])
    return np.flatnonzero(np.concatenate(([True], changed)))
