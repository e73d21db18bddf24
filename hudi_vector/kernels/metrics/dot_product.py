"""The metric ``dot_product``: −x·q, so that smaller is nearer, as in Hudi 1.2 (RFC-102)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hudi_vector.kernels.metrics.metric import Metric, row_dots
from hudi_vector.kernels.metrics.screen import Floats, ProductScreen

__all__ = ["DotProduct"]


class DotProduct(Metric):
    """The negated dot product."""

    name = "dot_product"
    aliases = ("dot", "inner_product")
    least = -np.inf
    sparse = "products"
    order = "products"
    lance = "dot"

    def distances(self, block: Floats, query: Floats) -> Floats:
        """Compute distances as described in `Metric.distances`."""
        return 0.0 - row_dots(block, query)

    def screen(self, queries: Floats, precision: np.dtype[Any]) -> ProductScreen:
        """Make a screen whose rank units are the distances."""
        return _Screen(queries, precision)

    def scores(self, distances: Floats) -> Floats:
        """Return the dot product."""
        return 0.0 - distances

    def of_products(self, dots: Floats, norms: Floats) -> Floats:  # noqa: ARG002 - the norms do not matter here
        """Compute the distances of sparse rows."""
        return 0.0 - dots


class _Screen(ProductScreen):
    def weighted(self, queries: Floats) -> Floats:
        return queries * -1.0

    def within(self, bounds: Floats) -> Floats:
        # A product that left float64 is infinite, and so is its bound.
        return np.where(np.isinf(bounds), bounds, bounds + np.abs(bounds) * 1e-12)

    def between(self, lower: Floats, squares: Floats, error: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        return lower - np.abs(lower) * 2e-12, lower + np.abs(lower) * 2e-12 + 2.5 * error
