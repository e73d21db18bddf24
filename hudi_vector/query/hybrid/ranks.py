"""Collectors over all rows for fusion by ranks and for normalized scores: nearest rows by column, counts, extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.sparse import SparseBlock
from hudi_vector.kernels.topk import Bounds, Hits, Ints
from hudi_vector.query.hybrid.best import Pool, Scored
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
    """A collector of the nearest rows for every query and column, as many as `ranks_needed` requires."""

    def __init__(self, question: HybridQuestion, bounds: tuple[Bounds, ...]) -> None:
        self._question = question
        self._screens = Screens(question)
        self._columns = len(question.columns)
        self._needed = ranks_needed([entry.weight for entry in question.columns], question.k)
        self._bounds = bounds
        self._pools = [Pool(self._needed, question.queries, self._columns, part) for part in bounds]
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
        query = (asked + first).astype(np.int64)
        self._pools[number].add(query, distances[:, number], blocks[0].positions[rows], distances)

    def found(self) -> Scored:
        """Return the rows found, each once per query; the distances in the hits are 0."""
        parts = [pool.found() for pool in self._pools]
        query = np.concatenate([part.hits.query for part in parts])
        position = np.concatenate([part.hits.position for part in parts])
        distances = np.concatenate([part.distances for part in parts])
        _, first = np.unique(np.stack([query, position]), axis=1, return_index=True)
        hits = Hits(query[first], np.zeros(len(first)), position[first])
        return Scored(hits, distances[first])

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be found."""
        return np.concatenate([pool.candidates() for pool in self._pools])


class Counts:
    """A counter of rows by distance, for every query and column, between given limits.

    `limits` are distances for each query and column, ascending. `nearer` counts rows by the number of limits that are
    no larger than their distance.
    """

    def __init__(self, question: HybridQuestion, limits: tuple[tuple[Floats, ...], ...]) -> None:
        self._question = question
        self._screens = Screens(question)
        self._limits = limits
        self.nearer = [[np.zeros(len(limit) + 1, np.int64) for limit in of_query] for of_query in limits]

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
        self.nearer[query][number] += np.bincount(beyond, minlength=len(limit) + 1)


class Extremes:
    """A collector of the least and the largest distance for every query and column, arrays of shape (m, columns).

    Without any rows they are inf and -inf.
    """

    def __init__(self, question: HybridQuestion) -> None:
        self._question = question
        self._screens = Screens(question)
        shape = (question.queries, len(question.columns))
        self.least: npt.NDArray[np.float64] = np.full(shape, np.inf)
        self.largest: npt.NDArray[np.float64] = np.full(shape, -np.inf)

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
                np.minimum.at(self.least[:, number], query, exact)
                np.maximum.at(self.largest[:, number], query, exact)

    def _exact(self, number: int, blocks: Together, floors: Floats, rows: Any, asked: Any, first: int) -> Floats:
        if isinstance(blocks[number], SparseBlock):
            known: Floats = floors[rows, asked]
            return known
        return self._screens.exact_of(number, blocks, rows, asked + first)
