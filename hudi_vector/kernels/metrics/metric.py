"""The base class of metrics, and sums that stay within the range of float64."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics.screen import Floats, Screen

__all__ = ["SMALLEST_SQUARE", "Metric", "row_dots", "row_sums", "unit_scaled"]

SMALLEST_SQUARE = 1e-290  # a sum of squares below this may have lost digits, so vectors are scaled first


class Metric(ABC):
    """A distance between vectors, of which the smaller is nearer, with its screen and its scores.

    Attributes:
        name: The name in arguments, plans and files.
        aliases: Other names accepted in arguments.
        elements: The element types of the vectors that can be compared.
        least: A lower bound of all distances.
        of_nothing: The distance of two sparse vectors without entries.
        sparse: Whether sparse vectors are compared by products or by the differences of all terms; None if not at all.
        order: Whether an index orders codes by distances between vectors or by products; None if no index supports it.
        on_sphere: Whether an index divides vectors by their lengths first.
        lance: Lance's name of the metric; None if Lance does not have it.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    elements: ClassVar[frozenset[str]] = frozenset({"float", "double", "int8"})
    least: ClassVar[float] = 0.0
    of_nothing: ClassVar[float] = 0.0
    sparse: ClassVar[Literal["products", "differences"] | None] = None
    order: ClassVar[Literal["distances", "products"] | None] = None
    on_sphere: ClassVar[bool] = False
    lance: ClassVar[str | None] = None

    @abstractmethod
    def distances(self, block: Floats, query: Floats) -> Floats:
        """Compute the distances of rows, shape (n, d), to one query, shape (d,), or one for each row, shape (n, d).

        The sum of a row runs over its elements in one fixed order, so a distance has the same bits whatever other rows
        are in the block.
        """

    @abstractmethod
    def screen(self, queries: Floats, precision: np.dtype[Any]) -> Screen:
        """Make a screen for queries of shape (m, d) that computes in the given precision."""

    @abstractmethod
    def scores(self, distances: Floats) -> Floats:
        """Convert distances to scores, of which the larger is better."""

    def of_products(self, dots: Floats, norms: Floats) -> Floats:
        """Compute the distances of sparse rows from their dot products with a query and the products of both norms."""
        raise NotImplementedError


def row_sums(products: Floats) -> Floats:
    """Sum each row in one fixed order of its elements."""
    sums: Floats = np.add.reduce(products, axis=1)
    return sums


def row_dots(block: Floats, query: Floats) -> Floats:
    """Compute the dot products of rows with one query, shape (d,), or one for each row, shape (n, d).

    Rows whose sum overflows are computed again from scaled vectors: the true sum may still be within float64's range.
    """
    sums = row_sums(block * query)
    lost = ~np.isfinite(sums)
    if lost.any():
        rows, row_scale = unit_scaled(block[lost])
        ask, ask_scale = unit_scaled(np.atleast_2d(query if query.ndim == 1 else query[lost]))
        sums[lost] = row_sums(rows * ask) * row_scale * ask_scale
    return sums


def unit_scaled(block: Floats) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Divide each row by its largest absolute element; return the rows and the divisors (0 for a zero row)."""
    scale = np.abs(block).max(axis=1, initial=0.0)
    return block / np.where(scale == 0, 1.0, scale)[:, None], scale
