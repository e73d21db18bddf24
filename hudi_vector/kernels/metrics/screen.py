"""Screens: distance bounds by one matrix product, which exclude rows that cannot be among the nearest.

A product in the precision of the rows gives each (row, query) pair a lower bound of its distance: the computed value
minus the largest possible rounding error, γ·|x||q| with γ ≈ d·u. Bounds are in the rank units of the metric, which have
the same order as its distances.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.blocks import Values, VectorBlock, products_of

__all__ = ["MANY_QUERIES", "Floats", "ProductScreen", "Screen"]

Floats = npt.NDArray[np.float64]

MANY_QUERIES = 4  # with this many queries or more, changing the rows is faster than changing the product


class Screen(Protocol):
    """A bound on the distances of rows to m queries, which excludes rows without computing their distances."""

    def lower_bounds(self, block: VectorBlock) -> Values:
        """Return a lower bound for every row and query, shape (n, m), in rank units; −inf if unknown."""

    def limits(self, bounds: Floats) -> Floats:
        """Convert the largest distance of each query, shape (m,), to rank units, rounded up."""

    def spans(self, block: VectorBlock) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of the distance of every row and query, two arrays of shape (n, m)."""


class ProductScreen(ABC):
    """A screen by matrix products for queries of shape (m, d), in float32 or float64.

    A subclass for each metric says what rows are multiplied with and how a product becomes a bound. The slack added to
    a product is first·|x|² + second·γ|x||q|, with the attributes `first` and `second`.
    """

    first = 0.0
    second = -1.0

    def __init__(self, queries: Floats, precision: np.dtype[Any]) -> None:
        unit = float(np.finfo(precision).eps) / 2
        self.error = 1.25 * (queries.shape[1] + 8) * unit
        with np.errstate(over="ignore", invalid="ignore"):
            self.norms = np.sqrt(np.einsum("ij,ij->i", queries, queries))
            # Bounds are useless for a query outside the range of the precision: all its rows are scored exactly.
            limit = float(np.finfo(precision).max) ** 0.4
            self._useless = ~((self.norms < limit) & (self.norms > 1 / limit))
            self.weights = self.weighted(queries).astype(precision).T
        self.precision = precision

    @abstractmethod
    def weighted(self, queries: Floats) -> Floats:
        """Return the vectors to multiply rows with, shape (m, d), one for each query."""

    @abstractmethod
    def within(self, bounds: Floats) -> Floats:
        """Convert distances, shape (m,), to rank units, rounded up."""

    @abstractmethod
    def between(self, lower: Floats, squares: Floats, error: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of distances from lower bounds in rank units, shape (n, m).

        `squares` is |x|², shape (n, 1); `error` is γ|x||q|, shape (n, m).
        """

    def lower_bounds(self, block: VectorBlock) -> Values:
        """Return a lower bound for every row and query, shape (n, m), in rank units; −inf for a useless query."""
        values = block.values if block.values.dtype == self.precision else block.values.astype(self.precision)
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            lower = self.products(values, block.squares, np.sqrt(block.squares))
        if self._useless.any():
            lower[:, self._useless] = -np.inf
        return lower

    def limits(self, bounds: Floats) -> Floats:
        """Convert the largest distance of each query, shape (m,), to rank units; infinite for a useless query."""
        with np.errstate(over="ignore", invalid="ignore"):
            limits = self.within(bounds)
        return np.where(self._useless, np.inf, np.asarray(limits, np.float64))

    def spans(self, block: VectorBlock) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of distances, two arrays of shape (n, m); −inf and inf where unknown."""
        lower = self.lower_bounds(block).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = block.squares.astype(np.float64)
            error = self.error * np.sqrt(squares)[:, None] * self.norms[None, :]
            floors, ceilings = self.between(lower, squares[:, None], error)
        floors[:, self._useless], ceilings[:, self._useless] = -np.inf, np.inf
        floors[block.odd], ceilings[block.odd] = -np.inf, np.inf
        unknown = np.isnan(floors) | np.isnan(ceilings)
        floors[unknown], ceilings[unknown] = -np.inf, np.inf
        return floors, ceilings

    def products(self, values: Values, squares: Values, norms: Values) -> Values:
        """Multiply rows with the weights and add the slack; return shape (n, m)."""
        if self.weights.shape[1] >= MANY_QUERIES:
            return self._augmented(values, squares, norms)
        lower = products_of(values, self.weights)
        across = norms[:, None] * self.norms[None, :].astype(self.precision)
        slack: Values = self.second * self.error * across
        if self.first:
            slack += (squares * (self.first - self.error))[:, None]
        lower += slack[0] if slack.shape[0] == 1 else slack
        return lower

    def _augmented(self, values: Values, squares: Values, norms: Values) -> Values:
        """Return the result of `products` from one larger product: the factors of the slack become two more columns."""
        rows = np.empty((len(values), values.shape[1] + 2), self.precision)
        rows[:, :-2] = values
        rows[:, -2] = squares
        rows[:, -1] = norms
        first = self.first - self.error if self.first else 0.0
        second = self.second * self.error * self.norms
        tail = np.stack([np.full(len(second), first), second]).astype(self.precision)
        lower: Values = rows @ np.concatenate([self.weights, tail])
        return lower
