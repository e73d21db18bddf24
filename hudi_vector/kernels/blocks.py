"""Blocks of vectors: rows as they were read, with their squared lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Ints", "Values", "VectorBlock", "make_block", "product_dtype"]

Ints = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class VectorBlock:
    """Rows to be searched: their values, their positions in the slice, their norms.

    `values` has shape (n, d) and the storage dtype; `positions` (n,) int64; `squares` (n,) the squared norms in
    the precision of the product; `odd` the indices of rows whose squares leave that precision's safe range.
    """

    values: Values
    positions: Ints
    squares: Values
    odd: Ints

    def __len__(self) -> int:
        return len(self.values)

    def select(self, mask: npt.NDArray[np.bool_]) -> VectorBlock:
        """The rows under a mask of shape (n,)."""
        if mask.all():
            return self
        odd_mask = np.zeros(len(self), np.bool_)
        odd_mask[self.odd] = True
        return VectorBlock(self.values[mask], self.positions[mask], self.squares[mask], np.flatnonzero(odd_mask[mask]))

    def take(self, chosen: Ints) -> VectorBlock:
        """The rows at these indices, in this order."""
        odd = np.flatnonzero(np.isin(chosen, self.odd)) if len(self.odd) else self.odd
        return VectorBlock(self.values[chosen], self.positions[chosen], self.squares[chosen], odd)

    def part(self, start: int, stop: int) -> VectorBlock:
        """The rows from start to stop, as views."""
        odd = self.odd[(self.odd >= start) & (self.odd < stop)] - start if len(self.odd) else self.odd
        return VectorBlock(self.values[start:stop], self.positions[start:stop], self.squares[start:stop], odd)

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return int(self.values.nbytes + self.positions.nbytes + self.squares.nbytes)


def product_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The precision candidates of a storage dtype are found in: float64 for doubles, float32 otherwise."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)


def make_block(values: Values, positions: Ints) -> tuple[VectorBlock, int]:
    """Norms for rows as they were read; rows with NaN or infinite elements are left out.

    Args:
        values: Vectors, shape (n, d), float32, float64 or int8.
        positions: Where each stands in its slice, shape (n,), int64.

    Returns:
        The block, and how many rows were left out as invalid.
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
