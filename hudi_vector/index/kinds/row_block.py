"""Blocks of codes: as float32, for one matrix product with all queries, or as bits, multiplied with few queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.kinds.model import Floats32, IndexModel
from hudi_vector.index.kinds.prepared import EXTRA
from hudi_vector.kernels import rabitq
from hudi_vector.kernels.blocks import products_of

__all__ = ["BitBlock", "RowBlock"]


class RowBlock:
    """A buffer for rows as float32: their codes and their extra columns.

    For several queries both are in one array, so that one product suffices. For one query they are in separate arrays,
    which are faster to fill.
    """

    def __init__(self, rows: int, dimension: int, queries: int) -> None:
        self.filled = 0
        self._joined = np.empty((rows, dimension + EXTRA), np.float32) if queries > 1 else None
        if self._joined is not None:
            self._codes, self._extra = self._joined[:, :dimension], self._joined[:, dimension:]
        else:
            self._codes, self._extra = np.empty((rows, dimension), np.float32), np.empty((rows, EXTRA), np.float32)

    def __len__(self) -> int:
        return self.filled

    @property
    def free(self) -> int:
        """Return the number of rows that still fit."""
        return len(self._codes) - self.filled

    def add(self, codes: npt.NDArray[Any], extra: Floats32) -> None:
        """Append rows, which must fit."""
        end = self.filled + len(codes)
        self._codes[self.filled : end] = codes
        self._extra[self.filled : end] = extra
        self.filled = end

    def products(self, weights: Floats32) -> Floats32:
        """Return the products of weights, shape (d + 3, m), with the n rows, shape (m, n)."""
        if self._joined is not None:
            made: Floats32 = weights.T @ self._joined[: self.filled].T
            return made
        own = products_of(self._codes[: self.filled], weights[:-EXTRA])
        own += products_of(self._extra[: self.filled], weights[-EXTRA:])
        turned: Floats32 = own.T
        return turned


@dataclass(frozen=True)
class BitBlock:
    """Rows as codes of bits, with their lists and their extra columns.

    A product with weights is looked up, eight elements at a time. For one query that takes a fraction of the time of
    decoding, for many queries more.
    """

    model: IndexModel
    codes: npt.NDArray[np.uint8]
    lists: npt.NDArray[Any]
    extra: Floats32

    def __len__(self) -> int:
        return len(self.codes)

    def products(self, weights: Floats32) -> Floats32:
        """Return the products of weights, shape (d + 3, m), with the n rows, shape (m, n)."""
        used = np.zeros(self.model.lists, np.bool_)
        used[self.lists] = True
        of_centroids = np.empty((weights.shape[1], self.model.lists), np.float32)
        of_centroids[:, used] = (self.model.centroids[used] @ weights[:-EXTRA]).T
        made: Floats32 = weights[-EXTRA:].T @ self.extra.T
        made += of_centroids[:, self.lists]
        for place, own in enumerate(weights[:-EXTRA].T):
            made[place] += rabitq.products(self.codes, rabitq.tables(own), self.model.dimension)
        return made
