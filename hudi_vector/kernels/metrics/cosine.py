"""The metric ``cosine``: 1 − x·q / (|x||q|), clamped to [0, 2], and 1 for a zero vector, as in Hudi 1.2 (RFC-102)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hudi_vector.kernels.blocks import Values, products_of
from hudi_vector.kernels.metrics.metric import SMALLEST_SQUARE, Metric, row_sums, unit_scaled
from hudi_vector.kernels.metrics.screen import MANY_QUERIES, Floats, ProductScreen

__all__ = ["Cosine"]


class Cosine(Metric):
    """The cosine distance; indexes divide vectors by their lengths first."""

    name = "cosine"
    of_nothing = 1.0
    sparse = "products"
    order = "distances"
    on_sphere = True
    lance = "cosine"

    def distances(self, block: Floats, query: Floats) -> Floats:
        """Compute distances as described in `Metric.distances`."""
        norms = row_sums(block * block)
        query_norm = row_sums(np.atleast_2d(query * query))
        dots = row_sums(block * query)
        similarity = dots / (np.sqrt(norms) * np.sqrt(query_norm))
        in_range = (norms >= SMALLEST_SQUARE) & (query_norm >= SMALLEST_SQUARE)
        in_range &= np.isfinite(norms) & np.isfinite(query_norm)
        odd = ~(in_range & np.isfinite(similarity))
        if odd.any():
            similarity[odd] = _scaled(block[odd], query if query.ndim == 1 else query[odd])
        distances: Floats = np.clip(1.0 - similarity, 0.0, 2.0)
        return distances

    def screen(self, queries: Floats, precision: np.dtype[Any]) -> ProductScreen:
        """Make a screen whose rank units are −similarity."""
        return _Screen(queries, precision)

    def scores(self, distances: Floats) -> Floats:
        """Return the similarity."""
        return 1.0 - distances

    def of_products(self, dots: Floats, norms: Floats) -> Floats:
        """Compute the distances of sparse rows; the distance is 1 where a norm is 0."""
        similarity = np.divide(dots, norms, out=np.zeros(len(dots)), where=norms > 0)
        return np.clip(1.0 - similarity, 0.0, 2.0)


class _Screen(ProductScreen):
    def weighted(self, queries: Floats) -> Floats:
        weights: Floats = -(queries / np.where(self.norms > 0, self.norms, 1.0)[:, None])
        return weights

    def within(self, bounds: Floats) -> Floats:
        limits: Floats = bounds - 1.0 + 2.0 * self.error
        return limits

    def between(self, lower: Floats, squares: Floats, error: Floats) -> tuple[Floats, Floats]:  # noqa: ARG002
        return lower + (1.0 - 3.0 * self.error), lower + (1.0 + 3.0 * self.error)

    def products(self, values: Values, squares: Values, norms: Values) -> Values:  # noqa: ARG002
        inverse = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1), 0).astype(self.precision)
        if self.weights.shape[1] >= MANY_QUERIES:
            lower: Values = (values * inverse[:, None]) @ self.weights
        else:
            lower = products_of(values, self.weights)
            lower *= inverse[:, None]
        return lower


def _scaled(block: Floats, query: Floats) -> Floats:
    """Compute the cosine similarity of rows whose squares leave the range of float64; 0 where a vector is zero."""
    rows, row_scale = unit_scaled(block)
    ask, ask_scale = unit_scaled(np.atleast_2d(query))
    norms = np.sqrt(row_sums(rows * rows)) * np.sqrt(row_sums(ask * ask))
    zero = (row_scale == 0) | (ask_scale == 0)
    similarity: Floats = np.where(zero, 0.0, row_sums(rows * ask) / np.where(zero, 1.0, norms))
    return similarity
