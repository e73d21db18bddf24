"""What every metric brings: exact distances, a screen that leaves rows out, scores, and what libraries call it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics.screen import Floats, Screen

__all__ = ["SMALLEST_SQUARE", "Metric", "row_dots", "row_sums", "unit_scaled"]

SMALLEST_SQUARE = 1e-290  # a sum of squares below it may have lost digits: vectors are scaled first


class Metric(ABC):
    """A distance: smaller is nearer.

    Attributes:
        name: The name in arguments, plans and files.
        aliases: Other names that arguments may give it.
        elements: The element types of vectors it compares.
        least: No distance is less.
        of_nothing: The distance of two sparse vectors without an entry.
        sparse: How sparse vectors are compared: by their products, by the differences of all terms, or not at all.
        order: How an index orders codes by it: by distances between vectors, by their products, or not at all.
        on_sphere: Whether an index divides vectors by their lengths first.
        lance: What Lance calls it; None where Lance does not have it.
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

        The sum of a row runs over its elements in one fixed order, so that its distance is the same bits whatever other
        rows are in the block.
        """

    @abstractmethod
    def screen(self, queries: Floats, precision: np.dtype[Any]) -> Screen:
        """Make a screen of queries, shape (m, d), that computes in a precision."""

    @abstractmethod
    def scores(self, distances: Floats) -> Floats:
        """Turn distances into scores, of which the larger is better."""

    def of_products(self, dots: Floats, norms: Floats) -> Floats:
        """Compute the distances of sparse rows from their products with a query, and the products of both lengths."""
        raise NotImplementedError


def row_sums(products: Floats) -> Floats:
    """Add up each row, in one fixed order."""
    sums: Floats = np.add.reduce(products, axis=1)
    return sums


def row_dots(block: Floats, query: Floats) -> Floats:
    """Multiply rows with a query, or each with its own; products beyond float64's range may still sum to one within."""
    sums = row_sums(block * query)
    lost = ~np.isfinite(sums)
    if lost.any():
        rows, row_scale = unit_scaled(block[lost])
        ask, ask_scale = unit_scaled(np.atleast_2d(query if query.ndim == 1 else query[lost]))
        sums[lost] = row_sums(rows * ask) * row_scale * ask_scale
    return sums


def unit_scaled(block: Floats) -> tuple[Floats, npt.NDArray[np.float64]]:
    """Divide rows by their largest element; the rows, and what they were divided by (0 for a zero row)."""
    scale = np.abs(block).max(axis=1, initial=0.0)
    return block / np.where(scale == 0, 1.0, scale)[:, None], scale
