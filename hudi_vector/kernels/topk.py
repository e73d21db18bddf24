"""Search for the k nearest rows of many queries, block by block with bounded memory.

A matrix product in the precision of the rows gives each (row, query) pair a lower bound of its distance: the computed
value minus the largest possible rounding error, γ·|x||q| with γ ≈ d·u. Pairs whose lower bound does not exceed the
current k-th distance are scored exactly in float64, each from its own row alone. So the float32 product never decides
an answer: it only excludes rows that cannot be among the k nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.blocks import Ints, Values, VectorBlock, make_block, product_dtype
from hudi_vector.kernels.metrics import METRICS, Floats, Screen, exact_distances

__all__ = [
    "Bounds",
    "HitPool",
    "Hits",
    "Ints",
    "TopK",
    "VectorBlock",
    "make_block",
    "pairs_within",
    "product_dtype",
    "rank_within",
]

_EXACT_CHUNK_ELEMENTS = 1 << 22
_SCREEN_ELEMENTS = 1 << 21


@dataclass(frozen=True)
class Hits:
    """Rows found: query number, exact distance and row position of each, three arrays of shape (h,).

    `by_column` holds further distances of each row, shape (h, c), where a search ranks rows by c columns, else None.
    `group` identifies the group of each row, shape (h,), in a search for groups, else None.
    """

    query: Ints
    distance: Floats
    position: Ints
    by_column: Floats | None = None
    group: npt.NDArray[Any] | None = None

    @classmethod
    def none(cls) -> Hits:
        """Return hits of length 0."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Return the hits of all parts, one part after another; `by_column` is None if no part with hits has it.

        The same holds for `group`.
        """
        named = [part.by_column for part in parts if part.by_column is not None]
        grouped = [part.group for part in parts if part.group is not None]
        return cls(
            np.concatenate([np.empty(0, np.int64), *(part.query for part in parts)]),
            np.concatenate([np.empty(0, np.float64), *(part.distance for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.position for part in parts)]),
            np.concatenate(named) if named else None,
            np.concatenate(grouped) if grouped else None,
        )

    def __len__(self) -> int:
        return len(self.query)

    def take(self, chosen: npt.NDArray[Any]) -> Hits:
        """Return the hits at the given indices, or where the given mask is True."""
        by_column = None if self.by_column is None else self.by_column[chosen]
        group = None if self.group is None else self.group[chosen]
        return Hits(self.query[chosen], self.distance[chosen], self.position[chosen], by_column, group)


def rank_within(query: Ints, *keys: Any) -> tuple[npt.NDArray[np.intp], Ints]:
    """Sort hits by query, then by `keys` (the most significant first), and rank them within each query.

    All arrays have shape (h,). Return the sorting indices and, in sorted order, each hit's rank in its query, from 0.
    """
    order = np.lexsort((*reversed(keys), query))
    ordered = query[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(ordered) else ordered
    lengths = np.diff(np.append(begins, len(ordered)))
    return order, np.arange(len(ordered)) - np.repeat(begins, lengths)


@dataclass(frozen=True)
class Bounds:
    """The distance of each query beyond which no row is wanted, shared by searches over parts of the rows.

    Threads write without a lock: every value ever written is the distance of a k-th row found so far or the largest
    distance asked for, so a lost write costs time and never changes an answer.

    Attributes:
        distance: Inclusive limits, shape (m,); infinite where nothing limits a query yet.
        is_full: Whether k rows have been found for each query, shape (m,).
    """

    distance: Floats
    is_full: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, queries: int, max_distance: float | None = None) -> Bounds:
        """Make the initial bounds for a number of queries; `max_distance` is inclusive, None means no limit."""
        start = np.inf if max_distance is None else max_distance
        return cls(np.full(queries, start, np.float64), np.zeros(queries, np.bool_))


class HitPool:
    """The k hits of the least distance for each of m queries, including all hits that tie with the k-th.

    `bounds`, of m queries, is tightened whenever the hits are reduced to these: once `most` were added, by default k
    for each query.
    """

    def __init__(self, k: int, bounds: Bounds, most: int | None = None) -> None:
        self._k = k
        self._bound, self._full = bounds.distance, bounds.is_full
        self._most = max(k * len(bounds.distance), 64) if most is None else most
        self._pool = Hits.none()
        self._fresh: list[Hits] = []
        self._fresh_count = 0

    def add(self, hits: Hits) -> None:
        """Add hits, leaving out those beyond the bound of their query."""
        near = hits.distance <= self._bound[hits.query]
        if near.any():
            self._fresh.append(hits.take(near))
            self._fresh_count += len(self._fresh[-1])
            if self._fresh_count >= self._most:
                self.hits()

    def hits(self) -> Hits:
        """Return the hits, sorted by query and distance, and tighten the bounds."""
        if self._fresh:
            pool = Hits.joined([self._pool, *self._fresh])
            self._fresh, self._fresh_count = [], 0
            self._pool = self._reduced(pool)
        return self._pool

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be among the hits, unordered and with duplicates."""
        return np.concatenate([self._pool.position, *(found.position for found in self._fresh)])

    def _reduced(self, pool: Hits) -> Hits:
        """Return those of some hits that are to be kept, sorted, and tighten the bounds."""
        order, rank = rank_within(pool.query, pool.distance)
        pool = pool.take(order)
        kth = rank == self._k - 1
        self._tighten(pool.query[kth], pool.distance[kth])
        return pool.take(pool.distance <= self._bound[pool.query])

    def _tighten(self, query: Ints, kth: Floats) -> None:
        """Lower the bounds of queries, each named once, to the distances of their k-th hits."""
        self._bound[query] = np.minimum(self._bound[query], kth)
        self._full[query] = True


class TopK:
    """A collector of the k nearest rows of each of m queries, including ties at the k-th distance.

    Example:
        >>> block, _ = make_block(np.eye(3, dtype="f4"), np.arange(3))
        >>> top = TopK(np.array([[1.0, 0.0, 0.0]]), "l2", 1, Bounds.of(1))
        >>> top.offer(block)
        >>> top.hits().position
        array([0])
    """

    def __init__(self, queries: Floats, metric: str, k: int, bounds: Bounds) -> None:
        self.queries = np.ascontiguousarray(queries, np.float64)
        self.metric = metric
        self.k = k
        self._bound = bounds.distance
        self._full = bounds.is_full
        self._pool = HitPool(k, bounds)
        self._screens: dict[np.dtype[Any], Screen] = {}

    def offer(self, block: VectorBlock) -> None:
        """Compare every row of a block with every query."""
        queries = len(self.queries)
        step = max(256, _SCREEN_ELEMENTS // max(queries, 1)) if queries > 1 else 1 << 16
        for start in range(0, len(block), step):
            self._offer(block if len(block) <= step else block.part(start, start + step))

    def offer_pairs(self, block: VectorBlock, rows: Ints, queries: Ints) -> None:
        """Compare single (row, query) pairs: indices into the block and query numbers, both of shape (p,)."""
        if len(rows):
            self._score(block, rows, queries)

    def hits(self) -> Hits:
        """Return the rows found, sorted by query and distance; a query has more than k rows only if distances tie."""
        return self._pool.hits()

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be among the nearest, unordered and with duplicates."""
        return self._pool.candidates()

    def _offer(self, block: VectorBlock) -> None:
        screen, lower = self._screened(block)
        if not self._full.all():
            self._seed(block, lower)
        rows, columns = pairs_within(lower, screen.limits(self._bound))
        if len(rows):
            self._score(block, rows, columns)

    def _screened(self, block: VectorBlock) -> tuple[Screen, Values]:
        """Return the screen for a block, and the lower bounds of its rows, shape (n, m)."""
        precision = product_dtype(block.values.dtype)
        screen = self._screens.get(precision)
        if screen is None:
            screen = self._screens[precision] = METRICS[self.metric].screen(self.queries, precision)
        lower = screen.lower_bounds(block)
        if len(block.odd):
            lower[block.odd] = -np.inf
        return screen, lower

    def _seed(self, block: VectorBlock, lower: Values) -> None:
        """Bound each query that is not full by the exact distances of the k most promising rows of this block.

        A block with fewer than k rows bounds nothing.
        """
        if len(block) < self.k:
            return
        open_queries = np.flatnonzero(~self._full)
        chosen = np.argpartition(lower[:, open_queries], self.k - 1, axis=0)[: self.k]
        step = max(1, _EXACT_CHUNK_ELEMENTS // (self.k * block.values.shape[1]))
        for start in range(0, len(open_queries), step):
            ask = open_queries[start : start + step]
            rows = chosen[:, start : start + step].T.ravel()
            distances = self._exact(block, rows, np.repeat(ask, self.k)).reshape(len(ask), self.k)
            self._bound[ask] = np.minimum(self._bound[ask], distances.max(axis=1))
        self._full[open_queries] = True

    def _score(self, block: VectorBlock, rows: npt.NDArray[Any], columns: npt.NDArray[Any]) -> None:
        step = max(1, _EXACT_CHUNK_ELEMENTS // block.values.shape[1])
        for start in range(0, len(rows), step):
            at, ask = rows[start : start + step], columns[start : start + step]
            self._pool.add(Hits(ask, self._exact(block, at, ask), block.positions[at]))

    def _exact(self, block: VectorBlock, rows: npt.NDArray[Any], ask: npt.NDArray[Any]) -> Floats:
        query = self.queries[0] if len(self.queries) == 1 else self.queries[ask]
        return exact_distances(block.values[rows], query, self.metric)


def pairs_within(lower: Values, limits: Floats) -> tuple[npt.NDArray[np.intp], Ints]:
    """Return the rows and queries of the pairs whose lower bound, shape (n, m), does not exceed the query's limit."""
    if lower.shape[1] == 1:
        rows = np.flatnonzero(lower[:, 0] <= limits[0])
        return rows, np.zeros(len(rows), np.int64)
    return np.divmod(np.flatnonzero((lower <= limits).ravel()), lower.shape[1])
