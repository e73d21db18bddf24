"""Blocks of vectors: rows as read, with their positions and squared norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Ints", "Values", "VectorBlock", "make_block", "product_dtype", "products_of"]

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class VectorBlock:
    """Rows to search, with their positions and norms.

    Attributes:
        values: Vectors, shape (n, d), in the storage dtype.
        positions: Row positions in the file slice, shape (n,).
        squares: Squared norms, shape (n,), in the dtype of `product_dtype`.
        odd: Indices of the non-zero rows whose squared norm is outside the safe range of that dtype, ascending.
    """

    values: Values
    positions: Ints
    squares: Values
    odd: Ints

    def __len__(self) -> int:
        return len(self.values)

    def select(self, mask: npt.NDArray[np.bool_]) -> VectorBlock:
        """Return the rows where the mask, shape (n,), is True."""
        if mask.all():
            return self
        odd_mask = np.zeros(len(self), np.bool_)
        odd_mask[self.odd] = True
        return VectorBlock(self.values[mask], self.positions[mask], self.squares[mask], np.flatnonzero(odd_mask[mask]))

    def take(self, chosen: Ints) -> VectorBlock:
        """Return the rows at the given indices, in the order of the indices."""
        odd = np.flatnonzero(np.isin(chosen, self.odd)) if len(self.odd) else self.odd
        return VectorBlock(self.values[chosen], self.positions[chosen], self.squares[chosen], odd)

    def part(self, start: int, stop: int) -> VectorBlock:
        """Return the rows from `start` to `stop` (exclusive) as views."""
        odd = self.odd[(self.odd >= start) & (self.odd < stop)] - start if len(self.odd) else self.odd
        return VectorBlock(self.values[start:stop], self.positions[start:stop], self.squares[start:stop], odd)

    @property
    def nbytes(self) -> int:
        """Return the size of the arrays in bytes, without `odd`."""
        return int(self.values.nbytes + self.positions.nbytes + self.squares.nbytes)


def product_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the matrix product that finds candidates: float64 for float64 vectors, float32 otherwise."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)


def products_of(rows: Values, weights: Values) -> Values:
    """Return the products of rows, shape (n, d), with weights, shape (d, m), of the same dtype; shape (n, m).

    One query is no work for BLAS: reading the rows takes longer than the sums, and the threads that BLAS wakes for them
    spin on afterwards, longer than a search takes, on processors that search other slices.

    Example:
        >>> products_of(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
        array([[11.]])
    """
    made: Values
    if weights.shape[1] != 1:
        made = rows @ weights
    else:
        # The sums are fast along contiguous arrays only.
        made = np.einsum("ij,j->i", rows, np.ascontiguousarray(weights[:, 0]))[:, None]
    return made


def make_block(values: Values, positions: Ints) -> tuple[VectorBlock, int]:
    """Return a block without the rows that have NaN or infinite elements, and the number of rows left out.

    `values` has shape (n, d) and dtype float32, float64 or int8; `positions` in the file slice has shape (n,).
    """
    precision = product_dtype(values.dtype)
    squares = _squares(values, precision)
    safe = np.finfo(precision)
    low, high = float(safe.tiny) ** 0.8, float(safe.max) ** 0.8
    strange = np.flatnonzero(~((squares >= low) & (squares <= high)))
    if not len(strange):
        return VectorBlock(values, positions, squares, strange), 0
    rows = values[strange].astype(np.float64)
    finite = np.isfinite(rows).all(axis=1)
    odd = strange[finite & rows.any(axis=1)]
    invalid = strange[~finite]
    if not len(invalid):
        return VectorBlock(values, positions, squares, odd), 0
    kept = np.ones(len(values), np.bool_)
    kept[invalid] = False
    block = VectorBlock(values, positions, squares, odd).select(kept)
    return block, len(invalid)


def _squares(values: Values, precision: np.dtype[Any]) -> Values:
    out = np.empty(len(values), precision)
    step = max(1, (1 << 18) // max(1, values.shape[1]))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for start in range(0, len(values), step):
            part = values[start : start + step]
            if part.dtype != precision:
                part = part.astype(precision)
            np.einsum("ij,ij->i", part, part, out=out[start : start + step])
    return out
