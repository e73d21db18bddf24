"""Collectors over all rows for fusion by ranks and for normalized scores: nearest rows by column, counts, extremes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.sparse import SparseBlock
from hudi_vector.kernels.topk import Bounds, HitPool, Hits, Ints
from hudi_vector.query.hybrid.question import RANK_CONSTANT, HybridQuestion
from hudi_vector.query.hybrid.screens import Screens, query_parts
from hudi_vector.read.several import Together

__all__ = ["Counts", "Extremes", "NearestByColumn", "ranks_needed"]


def ranks_needed(weights: list[float], k: int) -> int:
    """Return how many of the nearest rows of each column suffice to find the k best rows by ranks.

    The k nearest rows of the heaviest column score at least its weight / (60 + k). A row beyond rank r in every column
    scores at most the sum of the weights / (61 + r). For the returned r the latter is less.

    Example:
        >>> ranks_needed([1.0, 1.0], 10)
        81
    """
    return math.floor(sum(weights) / max(weights) * (RANK_CONSTANT + k)) - RANK_CONSTANT + 1


class NearestByColumn:
    """A collector of the nearest rows for every query and column, as many as `ranks_needed` requires.

    `bounds` are those of all queries in the first column, then in the second, and so on.
    """

    def __init__(self, question: HybridQuestion, bounds: Bounds) -> None:
        self._question = question
        self._screens = Screens(question)
        self._columns = len(question.columns)
        self._needed = ranks_needed([entry.weight for entry in question.columns], question.k)
        parts = [slice(at * question.queries, (at + 1) * question.queries) for at in range(self._columns)]
        self._bounds = [Bounds(bounds.distance[part], bounds.is_full[part]) for part in parts]
        self._pools = [HitPool(self._needed, part) for part in self._bounds]
        self.invalid = 0

    def offer(self, blocks: Together) -> None:
        """Consider the rows of some blocks."""
        for first, last in query_parts(len(blocks[0]), self._question.queries):
            for number, entry in enumerate(self._question.columns):
                if entry.weight > 0:
                    self._offer(blocks, number, first, last)

    def _offer(self, blocks: Together, number: int, first: int, last: int) -> None:
        floors, ceilings = self._screens.spans(number, blocks, first, last)
        limit = self._bounds[number].distance[first:last]
        if len(floors) >= self._needed:
            # This block alone has enough rows within this distance.
            limit = np.minimum(limit, np.partition(ceilings, self._needed - 1, axis=0)[self._needed - 1])
        rows, asked = np.nonzero(floors <= limit[None, :])
        if not len(rows):
            return
        distances = np.empty((len(rows), self._columns))
        for other, block in enumerate(blocks):
            if isinstance(block, SparseBlock):
                distances[:, other] = self._screens.exact(other, blocks, first, last)[rows, asked]
            else:
                distances[:, other] = self._screens.exact_of(other, blocks, rows, asked + first)
        own = distances[:, number]
        self._pools[number].add(Hits(asked + first, own, blocks[0].positions[rows], distances))

    def hits(self) -> Hits:
        """Return the rows found, each once per query, by query and position; `distance` is 0, not yet a score."""
        found = Hits.joined([pool.hits() for pool in self._pools])
        _, first = np.unique(np.stack([found.query, found.position]), axis=1, return_index=True)
        return replace(found.take(first), distance=np.zeros(len(first)))

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be found."""
        return np.concatenate([pool.candidates() for pool in self._pools])


class Counts:
    """A counter of rows by distance, for every query and column, between given limits.

    `limits` are distances for each query and column, ascending. `result` has for each query and column an array that
    counts rows by the number of limits that are no larger than their distance.
    """

    def __init__(self, question: HybridQuestion, limits: tuple[tuple[Floats, ...], ...]) -> None:
        self._question = question
        self._screens = Screens(question)
        self._limits = limits
        self.result = [[np.zeros(len(limit) + 1, np.int64) for limit in of_query] for of_query in limits]

    def candidates(self) -> Ints:
        """Return no positions: rows are only counted."""
        return np.empty(0, np.int64)

    def offer(self, blocks: Together) -> None:
        """Count the rows of some blocks."""
        for first, last in query_parts(len(blocks[0]), self._question.queries):
            for number, entry in enumerate(self._question.columns):
                if entry.weight > 0:
                    floors, ceilings = self._screens.spans(number, blocks, first, last)
                    for query in range(first, last):
                        spans = floors[:, query - first], ceilings[:, query - first]
                        self._count(blocks, number, query, *spans)

    def _count(self, blocks: Together, number: int, query: int, floor: Floats, ceiling: Floats) -> None:
        limit = self._limits[query][number]
        beyond = np.searchsorted(limit, floor, "right")
        unclear = np.flatnonzero(beyond != np.searchsorted(limit, ceiling, "right"))
        if len(unclear):
            exact = self._screens.exact_of(number, blocks, unclear, np.full(len(unclear), query))
            beyond[unclear] = np.searchsorted(limit, exact, "right")
        self.result[query][number] += np.bincount(beyond, minlength=len(limit) + 1)


class Extremes:
    """A collector of the least and the largest distance for every query and column, arrays of shape (m, columns).

    Without any rows they are inf and -inf.
    """

    def __init__(self, question: HybridQuestion) -> None:
        self._question = question
        self._screens = Screens(question)
        shape = (question.queries, len(question.columns))
        self._least: npt.NDArray[np.float64] = np.full(shape, np.inf)
        self._largest: npt.NDArray[np.float64] = np.full(shape, -np.inf)

    @property
    def result(self) -> tuple[Floats, Floats]:
        """Return the least and the largest distances of the rows so far."""
        return self._least, self._largest

    def candidates(self) -> Ints:
        """Return no positions: rows are only compared."""
        return np.empty(0, np.int64)

    def offer(self, blocks: Together) -> None:
        """Consider the rows of some blocks."""
        if not len(blocks[0]):
            return
        for first, last in query_parts(len(blocks[0]), self._question.queries):
            for number in range(len(blocks)):
                floors, ceilings = self._screens.spans(number, blocks, first, last)
                outer = (floors <= ceilings.min(axis=0)) | (ceilings >= floors.max(axis=0))
                rows, asked = np.nonzero(outer)
                exact = self._exact(number, blocks, floors, rows, asked, first)
                query = asked + first
                np.minimum.at(self._least[:, number], query, exact)
                np.maximum.at(self._largest[:, number], query, exact)

    def _exact(self, number: int, blocks: Together, floors: Floats, rows: Any, asked: Any, first: int) -> Floats:
        if isinstance(blocks[number], SparseBlock):
            known: Floats = floors[rows, asked]
            return known
        return self._screens.exact_of(number, blocks, rows, asked + first)
