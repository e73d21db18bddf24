"""Screens: bounds of distances by one matrix product, which leave out rows that cannot be among the nearest.

A product in the rows' own precision gives each (row, query) pair a lower bound of its distance: the computed value
less the largest error that rounding can have caused, γ·|x||q| with γ ≈ d·u. Bounds are in the rank units of the
metric, which order as its distances do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.blocks import Values, VectorBlock

__all__ = ["MANY_QUERIES", "Floats", "ProductScreen", "Screen"]

Floats = npt.NDArray[np.float64]

MANY_QUERIES = 4  # from here on it is quicker to change the rows before the product than the product


class Screen(Protocol):
    """What leaves rows out for m queries."""

    def lower_bounds(self, block: VectorBlock) -> Values:
        """Return a lower bound for every row and query, shape (n, m), in rank units; −inf where nothing is known."""

    def limits(self, bounds: Floats) -> Floats:
        """Return the rank units up to which a row may lie within each query's largest distance, shape (m,)."""

    def spans(self, block: VectorBlock) -> tuple[Floats, Floats]:
        """Return the least and the largest distance each row and query can have, two arrays of shape (n, m)."""


class ProductScreen(ABC):
    """A screen by products: its metric says what the queries become, and how a product becomes a bound.

    `first` and `second` make the slack that is added to a product: first·|x|² + second·γ|x||q|.

    Args:
        queries: Shape (m, d).
        precision: float32 or float64.
    """

    first = 0.0
    second = -1.0

    def __init__(self, queries: Floats, precision: np.dtype[Any]) -> None:
        unit = float(np.finfo(precision).eps) / 2
        self.error = 1.25 * (queries.shape[1] + 8) * unit
        with np.errstate(over="ignore", invalid="ignore"):
            self.norms = np.sqrt(np.einsum("ij,ij->i", queries, queries))
            # A query beyond the precision's range makes every bound useless: then all rows are scored exactly.
            limit = float(np.finfo(precision).max) ** 0.4
            self._useless = ~((self.norms < limit) & (self.norms > 1 / limit))
            self.weights = self.weighted(queries).astype(precision).T
        self.precision = precision

    @abstractmethod
    def weighted(self, queries: Floats) -> Floats:
        """Return what rows are multiplied with, shape (m, d)."""

    @abstractmethod
    def within(self, bounds: Floats) -> Floats:
        """Return the rank units of distances, shape (m,)."""

    @abstractmethod
    def between(self, lower: Floats, squares: Floats, error: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest distance, of lower bounds (n, m), |x|² (n, 1) and γ|x||q| (n, m)."""

    def lower_bounds(self, block: VectorBlock) -> Values:
        """Return a lower bound for every row and query, shape (n, m)."""
        values = block.values if block.values.dtype == self.precision else block.values.astype(self.precision)
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            lower = self.products(values, block.squares, np.sqrt(block.squares))
        if self._useless.any():
            lower[:, self._useless] = -np.inf
        return lower

    def limits(self, bounds: Floats) -> Floats:
        """Return the rank units up to which a row may lie within each query's bound, shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            limits = self.within(bounds)
        return np.where(self._useless, np.inf, np.asarray(limits, np.float64))

    def spans(self, block: VectorBlock) -> tuple[Floats, Floats]:
        """Return the least and the largest distance each row and query can have; infinite where nothing is known."""
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
        """Multiply rows with the queries and add the slack, shape (n, m)."""
        if self.weights.shape[1] >= MANY_QUERIES:
            return self._augmented(values, squares, norms)
        lower: Values = values @ self.weights
        across = norms[:, None] * self.norms[None, :].astype(self.precision)
        slack: Values = self.second * self.error * across
        if self.first:
            slack += (squares * (self.first - self.error))[:, None]
        lower += slack[0] if slack.shape[0] == 1 else slack
        return lower

    def _augmented(self, values: Values, squares: Values, norms: Values) -> Values:
        """The same by one larger product: the slack's factors become two more columns."""
        rows = np.empty((len(values), values.shape[1] + 2), self.precision)
        rows[:, :-2] = values
        rows[:, -2] = squares
        rows[:, -1] = norms
        first = self.first - self.error if self.first else 0.0
        second = self.second * self.error * self.norms
        tail = np.stack([np.full(len(second), first), second]).astype(self.precision)
        lower: Values = rows @ np.concatenate([self.weights, tail])
        return lower
