"""What a hybrid search does with rows as they come: the best by score, the nearest by column, counts and extremes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics import Floats, exact_distances
from hudi_vector.kernels.sparse import SparseBlock
from hudi_vector.kernels.topk import Bounds, Hits, Ints, Screen, VectorBlock, product_dtype, rank_within
from hudi_vector.read.several import Together
from hudi_vector.search.hybrid_question import RANK_CONSTANT, HybridQuestion, scores

__all__ = ["BestRows", "Counts", "Extremes", "NearestByColumn", "Scale", "Scored", "ranks_needed"]

# How many (row, query) pairs are looked at together.
_PAIRS = 1 << 20
_EXACT_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Scale:
    """What normalizing takes off each score and divides it by: arrays of shape (m, c)."""

    least: Floats
    span: Floats


@dataclass(frozen=True)
class Scored:
    """Rows found: hits whose distance is the negated score, and the distances by column, shape (h, c)."""

    hits: Hits
    distances: Floats

    def distances_of(self, hits: Hits) -> Floats:
        """The distances of some of the hits, in their order."""
        order = np.lexsort((self.hits.position, self.hits.query))
        span = int(self.hits.position.max(initial=0)) + 1
        known = (self.hits.query * span + self.hits.position)[order]
        found: Floats = self.distances[order[np.searchsorted(known, hits.query * span + hits.position)]]
        return found


class _Pool:
    """The k rows of the least cost for each query, those that tie with the k-th included."""

    def __init__(self, k: int, queries: int, columns: int, bounds: Bounds) -> None:
        self._k = k
        self._bound, self._full = bounds.distance, bounds.is_full
        self._most = max(k * queries, 64)
        self._pool = Scored(Hits.none(), np.empty((0, columns)))
        self._fresh: list[Scored] = []
        self._count = 0

    def add(self, query: Ints, cost: Floats, position: Ints, distances: Floats) -> None:
        """Rows; those beyond the bound are left out."""
        near = cost <= self._bound[query]
        if not near.any():
            return
        self._fresh.append(Scored(Hits(query[near], cost[near], position[near]), distances[near]))
        self._count += int(near.sum())
        if self._count >= self._most:
            self.found()

    def found(self) -> Scored:
        """The rows, by query and cost."""
        if self._fresh:
            parts = [self._pool, *self._fresh]
            hits = Hits(
                np.concatenate([part.hits.query for part in parts]),
                np.concatenate([part.hits.distance for part in parts]),
                np.concatenate([part.hits.position for part in parts]),
            )
            distances = np.concatenate([part.distances for part in parts])
            self._fresh, self._count = [], 0
            order, rank = rank_within(hits.query, hits.distance)
            hits, distances = hits.take(order), distances[order]
            kth = rank == self._k - 1
            self._bound[hits.query[kth]] = np.minimum(self._bound[hits.query[kth]], hits.distance[kth])
            self._full[hits.query[kth]] = True
            kept = hits.distance <= self._bound[hits.query]
            self._pool = Scored(hits.take(kept), distances[kept])
        return self._pool

    def candidates(self) -> Ints:
        """The positions of the rows that may still be found."""
        return np.concatenate([self._pool.hits.position, *(part.hits.position for part in self._fresh)])


class BestRows:
    """Collects the k rows of the highest score for every query.

    A column of dense vectors with a weight above 0 is screened first: by the least distance a product in the rows' own
    precision allows. Rows that may be among the best are scored exactly.
    """

    def __init__(self, question: HybridQuestion, bounds: Bounds, scale: Scale | None = None) -> None:
        self._question = question
        self._bounds = bounds
        self._scale = scale
        self._pool = _Pool(question.k, question.queries, len(question.columns), bounds)
        self._screens: dict[tuple[int, int, np.dtype[Any]], Screen] = {}
        self.invalid = 0

    def offer(self, blocks: Together) -> None:
        """Consider rows."""
        for first, last in _query_parts(len(blocks[0]), self._question.queries):
            self._offer(blocks, first, last)

    def found(self) -> Scored:
        """The rows found so far."""
        return self._pool.found()

    def candidates(self) -> Ints:
        """The positions of the rows that may still be found."""
        return self._pool.candidates()

    def _offer(self, blocks: Together, first: int, last: int) -> None:
        count = len(blocks[0])
        best = np.zeros((count, last - first))
        known: dict[int, Floats] = {}
        for number, (entry, block) in enumerate(zip(self._question.columns, blocks, strict=True)):
            if isinstance(block, SparseBlock) or entry.weight < 0:
                known[number] = _all_distances(self._question, number, blocks, first, last)
                nearest = known[number]
            elif entry.weight == 0:
                continue
            else:
                nearest = self._screen(number, block, first, last).floors(block)
                if entry.metric == "l2":
                    nearest = np.maximum(nearest, 0.0)
            with np.errstate(over="ignore", invalid="ignore"):
                best += self._share(number, nearest, slice(first, last))
        cost = np.where(np.isnan(best), -np.inf, -best)
        bound = self._seeded(blocks, cost, known, first, last)
        rows, asked = np.nonzero(cost <= bound[None, :])
        self._score(blocks, rows, asked, known, first)

    def _seeded(self, blocks: Together, cost: Floats, known: dict[int, Floats], first: int, last: int) -> Floats:
        """The bounds; of queries that have none yet, by k rows of this block."""
        k, bound, full = self._question.k, self._bounds.distance, self._bounds.is_full
        if len(cost) > k:
            for query in np.flatnonzero(~full[first:last]):
                rows, asked = np.argpartition(cost[:, query], k - 1)[:k], np.full(k, query)
                total = self._cost(self._exact(blocks, rows, asked, known, first), asked + first)
                if not np.isnan(total).any():
                    bound[query + first] = min(bound[query + first], float(total.max()))
                    full[query + first] = True
        return bound[first:last]

    def _score(self, blocks: Together, rows: Any, asked: Any, known: dict[int, Floats], first: int) -> None:
        widest = max((block.values.shape[1] for block in blocks if isinstance(block, VectorBlock)), default=1)
        step = max(1, _EXACT_ELEMENTS // max(1, widest))
        for start in range(0, len(rows), step):
            at, ask = rows[start : start + step], asked[start : start + step]
            exact = self._exact(blocks, at, ask, known, first)
            cost = self._cost(exact, ask + first)
            wrong = np.isnan(cost)
            if wrong.any():
                self.invalid += int(wrong.sum())
                at, ask, cost, exact = at[~wrong], ask[~wrong], cost[~wrong], exact[~wrong]
            self._pool.add((ask + first).astype(np.int64), cost, blocks[0].positions[at], exact)

    def _exact(self, blocks: Together, rows: Any, asked: Any, known: dict[int, Floats], first: int) -> Floats:
        """The distances of pairs of a row and a query, shape (p, c)."""
        found = np.empty((len(rows), len(blocks)))
        for number, (entry, block) in enumerate(zip(self._question.columns, blocks, strict=True)):
            if number in known:
                found[:, number] = known[number][rows, asked]
                continue
            assert isinstance(block, VectorBlock)
            probes: Any = self._question.probes[number]
            query = probes[0] if len(probes) == 1 else probes[asked + first]
            found[:, number] = exact_distances(block.values[rows], query, entry.metric)
        return found

    def _cost(self, distances: Floats, asked: Any) -> Floats:
        total = np.zeros(len(distances))
        with np.errstate(over="ignore", invalid="ignore"):
            for number, entry in enumerate(self._question.columns):
                if entry.weight:
                    total += self._share(number, distances[:, number], asked)
        return 0.0 - total

    def _share(self, number: int, distances: Floats, asked: Any) -> Floats:
        """What a column adds to the score; never less for a smaller distance, if its weight is above 0."""
        entry = self._question.columns[number]
        score = scores(distances, entry.metric)
        if self._scale is not None:
            span = self._scale.span[asked, number]
            score = np.where(span > 0, (score - self._scale.least[asked, number]) / np.where(span > 0, span, 1.0), 0.0)
        share: Floats = entry.weight * score
        return share

    def _screen(self, number: int, block: VectorBlock, first: int, last: int) -> Screen:
        precision = product_dtype(block.values.dtype)
        key = (number, first * (1 << 32) + last, precision)
        found = self._screens.get(key)
        if found is None:
            probes: Any = self._question.probes[number]
            metric = self._question.columns[number].metric
            found = self._screens[key] = Screen(np.ascontiguousarray(probes[first:last]), metric, precision)
        return found


def _query_parts(rows: int, queries: int) -> Iterator[tuple[int, int]]:
    step = max(1, _PAIRS // max(1, rows))
    for first in range(0, queries, step):
        yield first, min(first + step, queries)


def _all_distances(question: HybridQuestion, number: int, blocks: Together, first: int, last: int) -> Floats:
    """The exact distances of all rows to some queries in one column, shape (n, queries)."""
    entry, probes = question.columns[number], question.probes[number]
    found = np.empty((len(blocks[0]), last - first))
    for query in range(first, last):
        found[:, query - first] = entry.distances(blocks[number], probes, query)
    return found


class NearestByColumn:
    """Collects for every query and column the nearest rows, as many as a score by ranks can be decided by."""

    def __init__(self, question: HybridQuestion, bounds: tuple[Bounds, ...]) -> None:
        self._question = question
        self._columns = len(question.columns)
        needed = ranks_needed([entry.weight for entry in question.columns], question.k)
        self._pools = [_Pool(needed, question.queries, self._columns, part) for part in bounds]
        self.invalid = 0

    def offer(self, blocks: Together) -> None:
        """Consider rows."""
        question, positions = self._question, blocks[0].positions
        for query in range(question.queries):
            parts = [_all_distances(question, i, blocks, query, query + 1)[:, 0] for i in range(self._columns)]
            distances = np.stack(parts, axis=1)
            asked = np.full(len(positions), query, np.int64)
            for number, pool in enumerate(self._pools):
                if question.columns[number].weight > 0:
                    pool.add(asked, distances[:, number], positions, distances)

    def found(self) -> Scored:
        """The rows found, each once."""
        parts = [pool.found() for pool in self._pools]
        query = np.concatenate([part.hits.query for part in parts])
        position = np.concatenate([part.hits.position for part in parts])
        distances = np.concatenate([part.distances for part in parts])
        _, first = np.unique(np.stack([query, position]), axis=1, return_index=True)
        hits = Hits(query[first], np.zeros(len(first)), position[first])
        return Scored(hits, distances[first])

    def candidates(self) -> Ints:
        """The positions of the rows that may still be found."""
        return np.concatenate([pool.candidates() for pool in self._pools])


def ranks_needed(weights: list[float], k: int) -> int:
    """How many of the nearest rows of each column decide the k best by ranks.

    The k nearest of the heaviest column score at least its weight / (60 + k). A row beyond rank r in every column
    scores at most the sum of the weights / (61 + r): for the number that is returned this is less.

    Example:
        >>> ranks_needed([1.0, 1.0], 10)
        81
    """
    return math.floor(sum(weights) / max(weights) * (RANK_CONSTANT + k)) - RANK_CONSTANT + 1


class Counts:
    """Counts for every query and column how many rows are nearer than each of some distances."""

    def __init__(self, question: HybridQuestion, limits: tuple[tuple[Floats, ...], ...]) -> None:
        self._question = question
        self._limits = limits
        self.nearer = [[np.zeros(len(limit) + 1, np.int64) for limit in of_query] for of_query in limits]

    def offer(self, blocks: Together) -> None:
        """Count rows."""
        for query, of_query in enumerate(self._limits):
            for number, limit in enumerate(of_query):
                if self._question.columns[number].weight > 0:
                    distances = _all_distances(self._question, number, blocks, query, query + 1)[:, 0]
                    first_beyond = np.searchsorted(limit, distances, "right")
                    self.nearer[query][number] += np.bincount(first_beyond, minlength=len(limit) + 1)


class Extremes:
    """The least and the largest distance for every query and column."""

    def __init__(self, question: HybridQuestion) -> None:
        self._question = question
        shape = (question.queries, len(question.columns))
        self.least: npt.NDArray[np.float64] = np.full(shape, np.inf)
        self.largest: npt.NDArray[np.float64] = np.full(shape, -np.inf)

    def offer(self, blocks: Together) -> None:
        """Look at rows."""
        if not len(blocks[0]):
            return
        for query in range(self._question.queries):
            for number in range(len(blocks)):
                distances = _all_distances(self._question, number, blocks, query, query + 1)[:, 0]
                self.least[query, number] = min(self.least[query, number], float(distances.min()))
                self.largest[query, number] = max(self.largest[query, number], float(distances.max()))
