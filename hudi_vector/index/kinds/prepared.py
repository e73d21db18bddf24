"""Queries made ready for an index: what is multiplied with codes, and how far a result can be from the truth.

For l2 and cosine a *rank* is a distance between vectors in the model's space (for cosine on the unit sphere, where it
orders like the cosine distance); for dot_product it is −x·q. A row's code y (from the model's `low` on), its `error` e
and the query p (from `low` on too) bound the rank r of the row:

    l2, cosine     √(|y|² − 2 y·p + |p|²) − e  ≤  r  ≤  √(|y|² − 2 y·p + |p|²) + e
    dot_product    −y·q − low·q − |q|e         ≤  r  ≤  −y·q − low·q + |q|e

Both ends are widened by what rounding in float32 may have done to the product: γ(|y|² + |p|²) and γ|y||q|, with γ a
little more than d·2⁻²⁴. So that one matrix product answers "may this row lie within the limit U?", rows have three
more columns, |y|², e² and e, and queries three more weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel, working
from hudi_vector.kernels.metrics import METRICS

__all__ = ["EXTRA", "Asked", "extra_columns", "rounding"]

EXTRA = 3
"""How many columns rows have beside their codes."""

_UNIT = float(np.finfo(np.float32).eps) / 2
_EPS = float(np.finfo(np.float64).eps)


def rounding(dimension: int) -> float:
    """γ: what a float32 product of rows and queries may be wrong by, as a part of the sum of its terms' sizes."""
    return 1.25 * (dimension + EXTRA + 8) * _UNIT


def extra_columns(model: IndexModel, square: Floats32, error: Floats32) -> Floats32:
    """The columns that rows have beside their codes: |y|², e² and e, where e covers γ's part of itself.

    Args:
        model: The index's model.
        square: |y|², shape (n,).
        error: e, shape (n,).

    Returns:
        Shape (n, 3); for dot_product the last is how far −y·q may be off for |q| = 1, all in all.
    """
    gamma = rounding(model.dimension)
    wide = error * np.float32(1 + 4 * gamma)
    if model.by_products:
        wide = wide + np.sqrt(square) * np.float32(3 * gamma)
    columns: Floats32 = np.stack([square, wide * wide * np.float32(1 + 4 * gamma), wide], axis=1)
    return columns


@dataclass(frozen=True)
class Asked:
    """Queries ready for a model. Arrays by query, m of them; `beyond` are those that no bound holds for."""

    model: IndexModel
    points: Floats64
    beyond: npt.NDArray[np.bool_]
    weights: Floats32
    norms: Floats64
    squares: Floats64
    constant: Floats64
    gamma: float
    floor: float
    shift: Floats64

    @classmethod
    def of(cls, queries: npt.NDArray[Any], model: IndexModel) -> Asked:
        """Make queries ready.

        Args:
            queries: Shape (m, d).
            model: The index's model.
        """
        points, fit = working(queries, model.metric)
        points[~fit] = 0.0
        is_dot = model.by_products
        shifted = points if is_dot else points - model.base
        weights = shifted * (-1.0 if is_dot else -2.0)
        if model.kind == "ivf_sq8":
            weights *= model.scale
        norms = np.sqrt(np.einsum("ij,ij->i", points, points))
        slop = (model.dimension + 8) * _EPS
        return cls(
            model,
            points,
            ~fit,
            np.concatenate([weights.T, np.zeros((EXTRA, len(points)))]).astype(np.float32),
            norms,
            np.einsum("ij,ij->i", shifted, shifted),
            points @ model.base if is_dot else np.zeros(len(points)),
            rounding(model.dimension),
            # What underflow may lose; for cosine, exact distances are 1 − similarity, off by some 1e-16.
            (model.dimension + 8) * 1e-32 + (64 * slop if METRICS[model.metric].on_sphere else 0.0),
            4 * slop * (norms + model.base_length),
        )

    def __len__(self) -> int:
        return len(self.points)

    @property
    def is_dot(self) -> bool:
        """Whether ranks are −x·q."""
        return self.model.by_products

    def estimating(self) -> Floats32:
        """Weights, shape (d + 3, m), whose product orders rows by the ranks of their codes."""
        weights: Floats32 = self.weights.copy()
        if not self.is_dot:
            weights[-3] = 1.0
        return weights

    def limiting(self, chosen: npt.NDArray[Any], within: Floats64) -> tuple[Floats32, Floats32]:
        """Weights and limits: a row whose product is above the limit lies beyond `within` for certain.

        Args:
            chosen: Queries, shape (h,).
            within: A rank for each, finite, shape (h,).

        Returns:
            Weights, shape (d + 3, h), and limits, shape (h,).
        """
        weights = self.weights[:, chosen]
        if self.is_dot:
            weights[-1] = -self.norms[chosen]
            limits = within + self.constant[chosen]
            limits += self.floor + (np.abs(within) + np.abs(self.constant[chosen])) * 1e-14
        else:
            weights[-3], weights[-2], weights[-1] = 1.0 - 3 * self.gamma, -1.0, -2.0 * within
            limits = within**2 * (1 + 1e-12) - self.squares[chosen] * (1 - 2 * self.gamma) + self.floor
        return weights, np.nextafter(limits.astype(np.float32), np.float32(np.inf))

    def interval(
        self, chosen: npt.NDArray[Any], products: npt.NDArray[Any], weights: Floats32, extra: Floats32
    ) -> tuple[Floats64, Floats64]:
        """The least and the largest rank that rows can have, from their products.

        Args:
            chosen: The query of each, shape (h,).
            products: What `weights` made of them, shape (h,).
            weights: The last three weights of each, shape (3, h).
            extra: Their extra columns, shape (h, 3).

        Returns:
            Lower and upper bounds, shape (h,).
        """
        columns = extra.astype(np.float64)
        terms = columns * weights.T
        dots = products.astype(np.float64) - terms.sum(axis=1)
        if self.is_dot:
            middle = dots - self.constant[chosen]
            reach = self.norms[chosen] * columns[:, 2] + self.floor + np.abs(middle) * 1e-14
            return middle - reach, middle + reach
        squares = columns[:, 0]
        slack = self.gamma * (4 * squares + 2 * self.squares[chosen] + 2 * (np.abs(terms[:, 1]) + np.abs(terms[:, 2])))
        middle = dots + squares + self.squares[chosen]
        spread = columns[:, 2] + 2 * self.shift[chosen]
        lower = np.sqrt(np.maximum(middle - slack - 2 * self.floor, 0.0)) - spread
        return lower, np.sqrt(np.maximum(middle, 0.0) + slack + 2 * self.floor) + spread

    def centroid_ranks(self) -> Floats32:
        """The rank of each list's centroid for each query, in an order that only compares lists; shape (m, lists)."""
        ranks: Any = -self._centred_points().astype(np.float32) @ self.model.centred.T
        if not self.is_dot:
            ranks *= 2
            ranks += self.model.centred_squares
        return np.asarray(ranks, np.float32)

    def list_bounds(self, ranks: Floats32, radius: Floats32) -> Floats64:
        """The least rank that a row of each list can have.

        Args:
            ranks: From `centroid_ranks`.
            radius: The largest distance of a row of each list to its centroid, shape (lists,).

        Returns:
            Shape (m, lists).
        """
        squares = self.model.centred_squares.astype(np.float64)
        reach = radius.astype(np.float64)
        if self.is_dot:
            lost = self._lost(self.model.base_length)
            slack = 2 * self.gamma * np.sqrt(squares) + reach * (1 + 1e-6) + lost
            ahead = self.points @ self.model.origin + self.floor
            bounds = ranks - self.norms[:, None] * slack - ahead[:, None]
        else:
            seen = self._centred_points()
            own = np.einsum("ij,ij->i", seen, seen)
            low = ranks.astype(np.float64) + own[:, None] - 3 * self.gamma * (squares + own[:, None]) - self.floor
            # Centroids seen from the origin are rounded to float32.
            rounded = np.sqrt(squares) * 2 * _UNIT + reach * (1 + 1e-6)
            bounds = np.sqrt(np.maximum(low, 0.0)) - rounded - self._lost(self.norms)[:, None]
        return np.asarray(bounds, np.float64)

    def _lost(self, length: Any) -> Any:
        """What float64 may lose of sums with vectors of this length and with the origin."""
        return 8 * (self.model.dimension + 8) * _EPS * (length + self.model.origin_length)

    def _centred_points(self) -> Floats64:
        return self.points if self.is_dot else self.points - self.model.origin
