"""The metric ``l2``: the square root of the sum of squared differences (RFC-102)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hudi_vector.kernels.metrics.metric import SMALLEST_SQUARE, Metric, row_sums
from hudi_vector.kernels.metrics.screen import Floats, ProductScreen

__all__ = ["L2"]


class L2(Metric):
    """The Euclidean distance."""

    name = "l2"
    aliases = ("euclidean",)
    sparse = "differences"
    order = "distances"
    lance = "l2"

    def distances(self, block: Floats, query: Floats) -> Floats:
        """Compute distances as described in `Metric.distances`."""
        difference = block - query
        squares = row_sums(difference * difference)
        lost = ~np.isfinite(squares) | (squares < SMALLEST_SQUARE)
        distances = np.sqrt(squares)
        if lost.any():
            # The squares leave the range of float64: scale by the largest element first.
            scale = np.abs(difference[lost]).max(axis=1)
            safe = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
            scaled = difference[lost] / safe[:, None]
            distances[lost] = np.sqrt(row_sums(scaled * scaled)) * safe
        return distances

    def screen(self, queries: Floats, precision: np.dtype[Any]) -> ProductScreen:
        """Make a screen whose rank units are the squared distance minus |q|²."""
        return _Screen(queries, precision)

    def scores(self, distances: Floats) -> Floats:
        """Return 1 / (1 + distance)."""
        return 1.0 / (1.0 + distances)


class _Screen(ProductScreen):
    first = 1.0
    second = -2.0

    def weighted(self, queries: Floats) -> Floats:
        return queries * -2.0

    def within(self, bounds: Floats) -> Floats:
        limits: Floats = bounds * bounds * (1 + 1e-12) - self.norms**2 * (1 - self.error)
        return limits

    def between(self, lower: Floats, squares: Floats, error: Floats) -> tuple[Floats, Floats]:
        least = lower + self.norms**2 * (1 - self.error)
        largest = lower + self.norms**2 * (1 + self.error) + 2.5 * self.error * squares + 5.0 * error
        floors = np.sqrt(np.maximum(least, 0.0)) * (1 - 1e-12)
        ceilings = np.sqrt(np.maximum(largest, 0.0)) * (1 + 1e-12)
        return floors, ceilings
