"""The k nearest rows of every query, found in blocks with bounded memory.

A matrix product in the rows' own precision gives each (row, query) pair a lower bound of its distance: the
computed value less the largest error that rounding can have caused, γ·|x||q| with γ ≈ d·u. Pairs whose bound lies
within the k-th distance so far are scored exactly, in float64, from their own row alone; so a product in float32
never decides an answer, it only leaves out what cannot be one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.blocks import Ints, Values, VectorBlock, make_block, product_dtype
from hudi_vector.kernels.metrics import METRICS, Floats, Screen, exact_distances

__all__ = ["Bounds", "Hits", "Ints", "TopK", "VectorBlock", "make_block", "product_dtype", "rank_within"]

_EXACT_CHUNK_ELEMENTS = 1 << 22
_SCREEN_ELEMENTS = 1 << 21


@dataclass(frozen=True)
class Hits:
    """Rows found: for each its query, its exact distance and its position, three arrays of shape (h,)."""

    query: Ints
    distance: Floats
    position: Ints

    @classmethod
    def none(cls) -> Hits:
        """No rows."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.query)

    def take(self, chosen: npt.NDArray[Any]) -> Hits:
        """The hits at these indices, or under this mask."""
        return Hits(self.query[chosen], self.distance[chosen], self.position[chosen])


def rank_within(query: Ints, *keys: Any) -> tuple[npt.NDArray[np.intp], Ints]:
    """Order hits by query and then by keys, and number them within each query.

    Args:
        query: The query of each hit, shape (h,).
        *keys: Arrays of shape (h,), the most significant first.

    Returns:
        The order, and for each place in it the rank within its query, from 0.
    """
    order = np.lexsort((*reversed(keys), query))
    ordered = query[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(ordered) else ordered
    lengths = np.diff(np.append(begins, len(ordered)))
    return order, np.arange(len(ordered)) - np.repeat(begins, lengths)


@dataclass(frozen=True)
class Bounds:
    """For each query the distance beyond which no row is wanted, shared by searches over parts of the rows.

    Threads may write at once: every value ever written is the distance of a k-th row that was found (or the
    largest distance asked for), so a write that is lost costs time and never an answer.
    """

    distance: Floats
    is_full: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, queries: int, max_distance: float | None = None) -> Bounds:
        """No rows found yet.

        Args:
            queries: How many queries there are.
            max_distance: The largest distance asked for, inclusive, or None.
        """
        start = np.inf if max_distance is None else max_distance
        return cls(np.full(queries, start, np.float64), np.zeros(queries, np.bool_))


class TopK:
    """Collects the k nearest rows, ties at the k-th distance included, for m queries at once.

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
        self._pool = Hits.none()
        self._fresh: list[Hits] = []
        self._fresh_count = 0
        self._screens: dict[np.dtype[Any], Screen] = {}

    def offer(self, block: VectorBlock) -> None:
        """Consider the rows of a block.

        Args:
            block: The rows.
        """
        queries = len(self.queries)
        step = max(256, _SCREEN_ELEMENTS // max(queries, 1)) if queries > 1 else 1 << 16
        for start in range(0, len(block), step):
            self._offer(block if len(block) <= step else block.part(start, start + step))

    def offer_pairs(self, block: VectorBlock, rows: Ints, queries: Ints) -> None:
        """Consider single rows of a block, each for one query.

        Args:
            block: The rows.
            rows: Indices into the block, shape (p,).
            queries: The query each is considered for, shape (p,).
        """
        if len(rows):
            self._score(block, rows, queries)

    def hits(self) -> Hits:
        """What was found, by query and distance; more than k rows for a query only where distances tie."""
        self._reduce()
        return self._pool

    def candidates(self) -> Ints:
        """The positions of the rows that are still among the nearest, in no order, some of them twice."""
        return np.concatenate([self._pool.position, *(found.position for found in self._fresh)])

    def _offer(self, block: VectorBlock) -> None:
        precision = product_dtype(block.values.dtype)
        screen = self._screens.get(precision)
        if screen is None:
            screen = self._screens[precision] = METRICS[self.metric].screen(self.queries, precision)
        lower = screen.lower_bounds(block)
        if len(block.odd):
            lower[block.odd] = -np.inf
        if not self._full.all():
            self._seed(block, lower)
        limits = screen.limits(self._bound)
        if lower.shape[1] == 1:
            rows = np.flatnonzero(lower[:, 0] <= limits[0])
            columns = np.zeros(len(rows), np.int64)
        else:
            flat = np.flatnonzero((lower <= limits).ravel())
            rows, columns = np.divmod(flat, lower.shape[1])
        if len(rows):
            self._score(block, rows, columns)

    def _seed(self, block: VectorBlock, lower: Values) -> None:
        """Bound the queries that have no k rows yet by k rows of this block."""
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
            distances = self._exact(block, at, ask)
            near = distances <= self._bound[ask]
            if near.any():
                found = Hits(ask[near].astype(np.int64), distances[near], block.positions[at[near]])
                self._fresh.append(found)
                self._fresh_count += len(found)
                if self._fresh_count >= max(self.k * len(self.queries), 64):
                    self._reduce()

    def _exact(self, block: VectorBlock, rows: npt.NDArray[Any], ask: npt.NDArray[Any]) -> Floats:
        query = self.queries[0] if len(self.queries) == 1 else self.queries[ask]
        return exact_distances(block.values[rows], query, self.metric)

    def _reduce(self) -> None:
        if not self._fresh:
            return
        parts = [self._pool, *self._fresh]
        pool = Hits(
            np.concatenate([part.query for part in parts]),
            np.concatenate([part.distance for part in parts]),
            np.concatenate([part.position for part in parts]),
        )
        self._fresh, self._fresh_count = [], 0
        order, rank = rank_within(pool.query, pool.distance)
        pool = pool.take(order)
        kth = rank == self.k - 1
        self._bound[pool.query[kth]] = np.minimum(self._bound[pool.query[kth]], pool.distance[kth])
        self._full[pool.query[kth]] = True
        self._pool = pool.take(pool.distance <= self._bound[pool.query])
