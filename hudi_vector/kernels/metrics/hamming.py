"""The metric ``hamming``: the number of differing bits of INT8 vectors, whose elements hold eight bits each.

Elements are compared as stored. A query may give a byte as -128 to 127, or as 0 to 255 like ``numpy.packbits``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidVectorError
from hudi_vector.kernels.blocks import Values, VectorBlock
from hudi_vector.kernels.metrics.metric import Metric
from hudi_vector.kernels.metrics.screen import Floats

__all__ = ["Hamming"]

_COUNTS = np.array([number.bit_count() for number in range(256)], np.uint8)
_ROWS_AT_ONCE = 1 << 16


class Hamming(Metric):
    """The number of bits in which vectors differ; no kind of index supports it."""

    name = "hamming"
    elements = frozenset({"int8"})

    def distances(self, block: Floats, query: Floats) -> Floats:
        """Compute distances as described in `Metric.distances`; raise InvalidVectorError if a value is not a byte."""
        return _differing(_bytes(block), _bytes(query)).astype(np.float64)

    def screen(self, queries: Floats, precision: np.dtype[Any]) -> _Screen:
        """Make a screen whose rank units are the exact counts."""
        return _Screen(_bytes(queries), precision)

    def scores(self, distances: Floats) -> Floats:
        """Return 1 / (1 + count)."""
        return 1.0 / (1.0 + distances)


class _Screen:
    def __init__(self, queries: npt.NDArray[np.uint8], precision: np.dtype[Any]) -> None:
        self._queries = queries
        self._precision = precision

    def lower_bounds(self, block: VectorBlock) -> Values:
        values = _bytes(block.values)
        counts = np.empty((len(values), len(self._queries)), self._precision)
        for start in range(0, len(values), _ROWS_AT_ONCE):
            part = values[start : start + _ROWS_AT_ONCE]
            for number, query in enumerate(self._queries):
                counts[start : start + len(part), number] = _differing(part, query)
        return counts

    def limits(self, bounds: Floats) -> Floats:
        return bounds

    def spans(self, block: VectorBlock) -> tuple[Floats, Floats]:
        counts = self.lower_bounds(block).astype(np.float64)
        return counts, counts


def _differing(rows: npt.NDArray[np.uint8], query: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Count the differing bits of rows, shape (n, d), and one query, shape (d,), or one for each row, shape (n, d)."""
    counts: npt.NDArray[np.int64] = _COUNTS[rows ^ query].sum(axis=1, dtype=np.int64)
    return counts


def _bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return numbers as bytes; raise InvalidVectorError unless all are whole numbers from -128 to 255."""
    if values.dtype == np.int8:
        return values.view(np.uint8)
    if not ((values == np.floor(values)) & (values >= -128) & (values <= 255)).all():
        raise InvalidVectorError(
            "the metric hamming compares bits, and a query vector holds something else than bytes; give whole numbers "
            "from -128 to 255"
        )
    bits: npt.NDArray[np.uint8] = (values.astype(np.int16) & 0xFF).astype(np.uint8)
    return bits
