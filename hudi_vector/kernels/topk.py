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

from hudi_vector.kernels.metrics import Floats, exact_distances

__all__ = ["Bounds", "Hits", "Screen", "TopK", "VectorBlock", "make_block", "product_dtype", "rank_within"]

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[Any]

_EXACT_CHUNK_ELEMENTS = 1 << 22
_SCREEN_ELEMENTS = 1 << 21
_AUGMENTED_FROM_QUERIES = 4


@dataclass(frozen=True)
class VectorBlock:
    """Rows to be searched: their values, their positions in the slice, their norms.

    `values` has shape (n, d) and the storage dtype; `positions` (n,) int64; `squares` (n,) the squared norms in
    the precision of the product; `odd` the indices of rows whose squares leave that precision's safe range.
    """

    values: Values
    positions: Ints
    squares: Values
    odd: Ints

    def __len__(self) -> int:
        return len(self.values)

    def select(self, mask: npt.NDArray[np.bool_]) -> VectorBlock:
        """The rows under a mask of shape (n,)."""
        if mask.all():
            return self
        odd_mask = np.zeros(len(self), np.bool_)
        odd_mask[self.odd] = True
        return VectorBlock(self.values[mask], self.positions[mask], self.squares[mask], np.flatnonzero(odd_mask[mask]))

    def take(self, chosen: Ints) -> VectorBlock:
        """The rows at these indices, in this order."""
        odd = np.flatnonzero(np.isin(chosen, self.odd)) if len(self.odd) else self.odd
        return VectorBlock(self.values[chosen], self.positions[chosen], self.squares[chosen], odd)

    def part(self, start: int, stop: int) -> VectorBlock:
        """The rows from start to stop, as views."""
        odd = self.odd[(self.odd >= start) & (self.odd < stop)] - start if len(self.odd) else self.odd
        return VectorBlock(self.values[start:stop], self.positions[start:stop], self.squares[start:stop], odd)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return int(self.values.nbytes + self.positions.nbytes + self.squares.nbytes)


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


def product_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The precision candidates of a storage dtype are found in: float64 for doubles, float32 otherwise."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)


def make_block(values: Values, positions: Ints) -> tuple[VectorBlock, int]:
    """Norms for rows as they were read; rows with NaN or infinite elements are left out.

    Args:
        values: Vectors, shape (n, d), float32, float64 or int8.
        positions: Where each stands in its slice, shape (n,), int64.

    Returns:
        The block, and how many rows were left out as invalid.
    """
    precision = product_dtype(values.dtype)
    squares = _squares(values, precision)
    safe = np.finfo(precision)
    low, high = float(safe.tiny) ** 0.8, float(safe.max) ** 0.8
    strange = np.flatnonzero(~((squares >= low) & (squares <= high)))
    if not len(strange):
        return VectorBlock(values, positions, squares, strange), 0
    rows = values[strange].astype(np.float64)
    finite = np.isfinite(rows).all(axis=1)
    odd = strange[finite & rows.any(axis=1)]
    invalid = strange[~finite]
    if not len(invalid):
        return VectorBlock(values, positions, squares, odd), 0
    kept = np.ones(len(values), np.bool_)
    kept[invalid] = False
    block = VectorBlock(values, positions, squares, odd).select(kept)
    return block, len(invalid)


def _squares(values: Values, precision: np.dtype[Any]) -> Values:
    out = np.empty(len(values), precision)
    step = max(1, (1 << 18) // max(1, values.shape[1]))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for start in range(0, len(values), step):
            part = values[start : start + step]
            if part.dtype != precision:
                part = part.astype(precision)
            np.einsum("ij,ij->i", part, part, out=out[start : start + step])
    return out


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
            screen = self._screens[precision] = Screen(self.queries, self.metric, precision)
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


class Screen:
    """Lower bounds of distances by one matrix product, in the rank units of the metric.

    Rank units are −similarity for cosine, the squared distance without |q|² for l2, −x·q for dot_product.
    """

    def __init__(self, queries: Floats, metric: str, precision: np.dtype[Any]) -> None:
        dimension = queries.shape[1]
        unit = float(np.finfo(precision).eps) / 2
        self._metric = metric
        self._error = 1.25 * (dimension + 8) * unit
        with np.errstate(over="ignore", invalid="ignore"):
            self._norms = np.sqrt(np.einsum("ij,ij->i", queries, queries))
            # A query beyond the precision's range makes every bound useless: then all rows are scored exactly.
            limit = float(np.finfo(precision).max) ** 0.4
            self._useless = ~((self._norms < limit) & (self._norms > 1 / limit))
            if metric == "cosine":
                scaled = queries / np.where(self._norms > 0, self._norms, 1.0)[:, None]
                self._weights = (-scaled).astype(precision).T
            else:
                self._weights = (queries * (-2.0 if metric == "l2" else -1.0)).astype(precision).T
        self._precision = precision

    def lower_bounds(self, block: VectorBlock) -> Values:
        """A lower bound for every row and query, shape (n, m)."""
        values = block.values if block.values.dtype == self._precision else block.values.astype(self._precision)
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            norms = np.sqrt(block.squares)
            if self._metric == "cosine":
                lower = self._cosine(values, norms)
            elif self._weights.shape[1] >= _AUGMENTED_FROM_QUERIES:
                lower = self._augmented(values, block.squares, norms)
            else:
                lower = values @ self._weights
                slack = self._slack(block.squares, norms)
                lower += slack[0] if slack.shape[0] == 1 else slack
        if self._useless.any():
            lower[:, self._useless] = -np.inf
        return lower

    def limits(self, bounds: Floats) -> Floats:
        """The rank units up to which a row may lie within each query's bound, shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self._metric == "cosine":
                limits = bounds - 1.0 + 2.0 * self._error
            elif self._metric == "l2":
                limits = bounds * bounds * (1 + 1e-12) - self._norms**2 * (1 - self._error)
            else:
                limits = bounds + np.abs(bounds) * 1e-12
        return np.where(self._useless, np.inf, np.asarray(limits, np.float64))

    def spans(self, block: VectorBlock) -> tuple[Floats, Floats]:
        """The least and the largest distance each row and query can have, two arrays of shape (n, m).

        Infinite where nothing is known.
        """
        lower = self.lower_bounds(block).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(block.squares.astype(np.float64))
            error = self._error * norms[:, None] * self._norms[None, :]
            if self._metric == "cosine":
                floors, ceilings = lower + (1.0 - 3.0 * self._error), lower + (1.0 + 3.0 * self._error)
            elif self._metric == "l2":
                squares = block.squares.astype(np.float64)[:, None]
                least = lower + self._norms**2 * (1 - self._error)
                largest = lower + self._norms**2 * (1 + self._error) + 2.5 * self._error * squares + 5.0 * error
                floors = np.sqrt(np.maximum(least, 0.0)) * (1 - 1e-12)
                ceilings = np.sqrt(np.maximum(largest, 0.0)) * (1 + 1e-12)
            else:
                floors, ceilings = lower - np.abs(lower) * 2e-12, lower + np.abs(lower) * 2e-12 + 2.5 * error
        floors[:, self._useless], ceilings[:, self._useless] = -np.inf, np.inf
        floors[block.odd], ceilings[block.odd] = -np.inf, np.inf
        unknown = np.isnan(floors) | np.isnan(ceilings)
        floors[unknown], ceilings[unknown] = -np.inf, np.inf
        return floors, ceilings

    def _cosine(self, values: Values, norms: Values) -> Values:
        inverse = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1), 0).astype(self._precision)
        if self._weights.shape[1] >= _AUGMENTED_FROM_QUERIES:
            lower: Values = (values * inverse[:, None]) @ self._weights
        else:
            lower = values @ self._weights
            lower *= inverse[:, None]
        return lower

    def _slack(self, squares: Values, norms: Values) -> Values:
        """What is added to the product, shape (n, m)."""
        across = norms[:, None] * self._norms[None, :].astype(self._precision)
        slack: Values = -self._error * across
        if self._metric == "l2":
            slack = (squares * (1 - self._error))[:, None] - 2 * self._error * across
        return slack

    def _augmented(self, values: Values, squares: Values, norms: Values) -> Values:
        """The same by one larger product: the slack's factors become two more columns."""
        rows = np.empty((len(values), values.shape[1] + 2), self._precision)
        rows[:, :-2] = values
        rows[:, -2] = squares
        rows[:, -1] = norms
        first = (1 - self._error) if self._metric == "l2" else 0.0
        second = (-2 * self._error if self._metric == "l2" else -self._error) * self._norms
        tail = np.stack([np.full(len(second), first), second]).astype(self._precision)
        lower: Values = rows @ np.concatenate([self._weights, tail])
        return lower
