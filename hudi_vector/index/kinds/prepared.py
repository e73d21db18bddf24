"""Queries prepared for an index: the weights that multiply codes, and error bounds of the results.

For l2 and cosine a *rank* is a distance between vectors in the model's space (for cosine on the unit sphere, where it
has the order of the cosine distance); for dot_product it is −x·q. Let y be a row's decoded code and p the query, both
relative to the model's `low`, q the query itself, and e the row's `error`. They bound the rank r of the row:

    l2, cosine     √(|y|² − 2 y·p + |p|²) − e  ≤  r  ≤  √(|y|² − 2 y·p + |p|²) + e
    dot_product    −y·q − low·q − |q|e         ≤  r  ≤  −y·q − low·q + |q|e

Both ends are widened by the possible float32 rounding error of the product: γ(|y|² + |p|²) and γ|y||q|, with γ a little
more than d·2⁻²⁴. To let one matrix product decide whether a row may be within the limit U, rows have three more
columns, |y|², e² and e, and queries three more weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.model import Floats32, Floats64, IndexModel
from hudi_vector.kernels.blocks import products_of
from hudi_vector.kernels.metrics import METRICS

__all__ = ["EXTRA", "Asked", "ListReach", "extra_columns", "rounding"]

EXTRA = 3
"""The number of columns that rows have in addition to their codes."""

_UNIT = float(np.finfo(np.float32).eps) / 2
_EPS = float(np.finfo(np.float64).eps)


def rounding(dimension: int) -> float:
    """Return γ: the largest error of a float32 product of rows and queries, relative to the sum of its terms' sizes."""
    return 1.25 * (dimension + EXTRA + 8) * _UNIT


def extra_columns(model: IndexModel, square: Floats32, error: Floats32) -> Floats32:
    """Return the columns of rows in addition to their codes, shape (n, 3): |y|², e² and e, with e widened for rounding.

    `square` is |y|² and `error` is e, both of shape (n,). For dot_product the last column is the whole error of −y·q
    for |q| = 1.
    """
    gamma = rounding(model.dimension)
    wide = error * np.float32(1 + 4 * gamma)
    if model.by_products:
        wide = wide + np.sqrt(square) * np.float32(3 * gamma)
    columns: Floats32 = np.stack([square, wide * wide * np.float32(1 + 4 * gamma), wide], axis=1)
    return columns


@dataclass(frozen=True)
class ListReach:
    """The reach of lists: how far rows are from their list's centroid at the most, and how inexact its rank is.

    Attributes:
        lengths: The largest distance of a row from the centroid, widened for rounding, shape (lists,).
        slack: The largest error of a squared rank that grows with the centroid's length, shape (lists,).
    """

    lengths: Floats64
    slack: Floats64

    @classmethod
    def of(cls, model: IndexModel, radius: Floats32) -> ListReach:
        """Return the reach of lists from the largest distance of a row from its list's centroid, shape (lists,)."""
        squares = model.centred_squares.astype(np.float64)
        gamma, wide = rounding(model.dimension), radius.astype(np.float64) * (1 + 1e-6)
        # `centred` holds the centroids rounded to float32.
        lost = np.sqrt(squares) * 2 * (gamma if model.by_products else _UNIT)
        return cls(lost + wide, 3 * gamma * squares)


@dataclass(frozen=True)
class Asked:
    """Queries prepared for a model, in arrays by query, m of them; `beyond` marks queries for which no bound holds."""

    model: IndexModel
    points: Floats64
    beyond: npt.NDArray[np.bool_]
    norms: Floats64
    squares: Floats64
    constant: Floats64
    gamma: float
    floor: float
    shift: Floats64

    @classmethod
    def of(cls, queries: npt.NDArray[Any], model: IndexModel) -> Asked:
        """Prepare queries of shape (m, d) for a model."""
        points, fit = model.placed(queries)
        points[~fit] = 0.0
        is_dot = model.by_products
        shifted = points if is_dot else points - model.base
        norms = np.sqrt(np.einsum("ij,ij->i", points, points))
        slop = (model.dimension + 8) * _EPS
        return cls(
            model,
            points,
            ~fit,
            norms,
            np.einsum("ij,ij->i", shifted, shifted),
            points @ model.base if is_dot else np.zeros(len(points)),
            rounding(model.dimension),
            # The possible loss by underflow; for cosine, exact distances are 1 − similarity, off by about 1e-16.
            (model.dimension + 8) * 1e-32 + (64 * slop if METRICS[model.metric].on_sphere else 0.0),
            4 * slop * (norms + model.base_length),
        )

    def __len__(self) -> int:
        return len(self.points)

    @property
    def is_dot(self) -> bool:
        """Return True if ranks are −x·q."""
        return self.model.by_products

    @property
    def lowest(self) -> float:
        """Return the largest rank that every row reaches, whatever its vector."""
        return -np.inf if self.is_dot else 0.0

    @cached_property
    def weights(self) -> Floats32:
        """Return what rows and their extra columns are multiplied with, shape (d + 3, m); faiss needs none of it."""
        rows = self.points * -1.0 if self.is_dot else (self.points - self.model.base) * -2.0
        if self.model.codes == "ranges":
            rows *= self.model.scale
        return np.concatenate([rows.T, np.zeros((EXTRA, len(rows)))]).astype(np.float32)

    def estimating(self) -> Floats32:
        """Return weights, shape (d + 3, m), whose product orders rows by the ranks of their codes."""
        weights: Floats32 = self.weights.copy()
        if not self.is_dot:
            weights[-3] = 1.0
            if self.model.codes == "bits":
                # What such a code lacks of its vector is at right angles to the vector: |x|² is |y|² − e².
                weights[-2] = -1.0
        return weights

    def limiting(self, chosen: npt.NDArray[Any], within: Floats64) -> tuple[Floats32, Floats32]:
        """Return weights and limits: a row whose product is above the limit certainly has a rank above `within`.

        `chosen` are the queries and `within` a finite rank for each, both of shape (h,). The weights have shape (d + 3,
        h), the limits shape (h,).
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
        """Return lower and upper bounds, shape (h,), of the ranks of rows, from their products.

        Args:
            chosen: The query of each row, shape (h,).
            products: The products of the rows with the weights, shape (h,).
            weights: The last three weights of each query, shape (3, h).
            extra: The extra columns of the rows, shape (h, 3).
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

    def code_ranks(self, chosen: npt.NDArray[Any], products: npt.NDArray[Any]) -> Floats64:
        """Return what `least` takes, from products of the rows with the weights of `estimating`, all of shape (h,)."""
        ranks: Floats64 = products.astype(np.float64)
        ranks += -self.constant[chosen] if self.is_dot else self.squares[chosen]
        return ranks

    def least(self, chosen: npt.NDArray[Any], ranks: Floats64, largest: Floats32) -> Floats64:
        """Return the least rank that rows can have whose codes are no nearer than a code, shape (h,).

        `chosen` are the queries, and `ranks` the squared distance of that code for l2 and cosine, −(y + low)·q for
        dot_product, as computed in float32 in any order of the sums; both have shape (h,). `largest` are the largest
        extra columns of the rows, shape (h, 3).
        """
        square, _, error = largest.astype(np.float64).T
        lengths = self.norms[chosen] + np.sqrt(square) + self.model.apart_length
        if self.is_dot:
            reach = self.norms[chosen] * (error + 4 * self.gamma * lengths) + self.floor + np.abs(ranks) * 1e-14
            nearest: Floats64 = ranks - reach
            return nearest
        slack = 4 * self.gamma * lengths**2 + 2 * self.floor
        squares = np.maximum(ranks - slack, 0.0)
        if self.model.codes == "bits":
            squares += error**2  # which `estimating` takes off, and no row has more
        return np.asarray(np.sqrt(squares) - error - 2 * self.shift[chosen], np.float64)

    def distances(self, ranks: Floats64) -> Floats64:
        """Return distances that rows of these ranks or larger ones are certainly not below."""
        if self.is_dot:
            products: Floats64 = np.minimum(ranks * (1 - 1e-12), ranks * (1 + 1e-12))
            return products
        lengths: Floats64 = np.maximum(ranks, 0.0) * (1 - 1e-12)
        return lengths**2 / 2 - self.floor if METRICS[self.model.metric].on_sphere else lengths

    def centroid_ranks(self) -> Floats32:
        """Return centroid ranks, shape (m, lists), which are comparable only among the lists of one query."""
        points = -self._centred_points.astype(np.float32)
        centred = self.model.centred
        ranks = products_of(centred, points.T).T if len(points) == 1 else points @ centred.T
        if not self.is_dot:
            ranks *= 2
            ranks += self.model.centred_squares
        return np.asarray(ranks, np.float32)

    def list_bounds(self, ranks: Floats32, reach: ListReach) -> Floats64:
        """Return the least rank that a row of each list can have, shape (m, lists); `ranks` are of `centroid_ranks`."""
        if self.is_dot:
            ahead = self.points @ self.model.origin + self.floor
            lengths = reach.lengths + self._lost(self.model.base_length)
            bounds = ranks - self.norms[:, None] * lengths - ahead[:, None]
            return np.asarray(bounds, np.float64)
        own = np.einsum("ij,ij->i", self._centred_points, self._centred_points)
        least: Floats64 = ranks + (own * (1 - 3 * self.gamma) - self.floor)[:, None]
        least -= reach.slack
        np.maximum(least, 0.0, out=least)
        np.sqrt(least, out=least)
        least -= reach.lengths
        least -= self._lost(self.norms)[:, None]
        return least

    def _lost(self, length: Any) -> Any:
        """Return the largest float64 rounding error of sums with the origin and vectors of this length."""
        return 8 * (self.model.dimension + 8) * _EPS * (length + self.model.origin_length)

    @cached_property
    def _centred_points(self) -> Floats64:
        return self.points if self.is_dot else self.points - self.model.origin
