"""Bounds of distances column by column: exact for sparse vectors, from one matrix product for dense vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hudi_vector.kernels.metrics import METRICS, Floats, Screen, exact_distances
from hudi_vector.kernels.sparse import SparseBlock
from hudi_vector.kernels.topk import VectorBlock, product_dtype
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.read.several import Together

__all__ = ["Screens", "query_parts"]

# The largest number of (row, query) pairs that are compared at a time.
_PAIRS = 1 << 20


def query_parts(rows: int, queries: int) -> Iterator[tuple[int, int]]:
    """Yield the queries in parts that can be compared with `rows` rows at a time: first and last (exclusive) query."""
    step = max(1, _PAIRS // max(1, rows))
    for first in range(0, queries, step):
        yield first, min(first + step, queries)


class Screens:
    """The bounds of distances for the queries of a question."""

    def __init__(self, question: HybridQuestion) -> None:
        self._question = question
        self._made: dict[tuple[int, int, int, np.dtype[Any]], Screen] = {}

    def spans(self, number: int, blocks: Together, first: int, last: int) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of distances of rows to queries in one column, arrays of shape (n, queries).

        `last` is exclusive. For sparse columns both arrays are the exact distances.
        """
        block = blocks[number]
        if isinstance(block, SparseBlock):
            exact = self.exact(number, blocks, first, last)
            return exact, exact
        precision = product_dtype(block.values.dtype)
        key = (number, first, last, precision)
        screen = self._made.get(key)
        if screen is None:
            entry, probes = self._question.columns[number], self._question.probes[number]
            assert isinstance(probes, np.ndarray)
            screen = self._made[key] = METRICS[entry.metric].screen(np.ascontiguousarray(probes[first:last]), precision)
        return screen.spans(block)

    def exact(self, number: int, blocks: Together, first: int, last: int) -> Floats:
        """Return the exact distances of all rows to queries `first` to `last` (exclusive), shape (n, queries)."""
        entry, probes = self._question.columns[number], self._question.probes[number]
        found = np.empty((len(blocks[0]), last - first))
        for query in range(first, last):
            found[:, query - first] = entry.distances(blocks[number], probes, query)
        return found

    def exact_of(self, number: int, blocks: Together, rows: Any, asked: Any) -> Floats:
        """Return the exact distances of pairs of a row and a query in one column of dense vectors, shape (p,)."""
        block, probes = blocks[number], self._question.probes[number]
        assert isinstance(block, VectorBlock)
        assert isinstance(probes, np.ndarray)
        query = probes[0] if len(probes) == 1 else probes[asked]
        return exact_distances(block.values[rows], query, self._question.columns[number].metric)
