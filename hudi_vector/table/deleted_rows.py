"""The deleted rows of a data file that still holds them, from deletion vectors and position deletes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError, number_of

__all__ = ["DeletedRows"]


@dataclass(frozen=True)
class DeletedRows:
    """The deleted rows of one file, by their positions from 0, in a form that is small enough to send to executors.

    Attributes:
        bits: One bit per row up to the last deleted one, compressed with zlib.
        count: The number of deleted rows.
        beyond: The position of the last deleted row plus one.
        rows: The number of rows that the file must have, or None if unknown.
    """

    bits: bytes = field(repr=False)
    count: int
    beyond: int
    rows: int | None = None

    @classmethod
    def of_mask(cls, deleted: npt.NDArray[np.bool_], whole: bool = True) -> DeletedRows:
        """Return the rows where a mask is True.

        With `whole` the mask has an entry for every row of the file; otherwise later rows are not deleted.
        """
        places = np.flatnonzero(deleted)
        beyond = int(places[-1]) + 1 if len(places) else 0
        bits = zlib.compress(np.packbits(deleted[:beyond]).tobytes(), 1)
        return cls(bits, len(places), beyond, len(deleted) if whole else None)

    @classmethod
    def of_numbers(cls, numbers: Iterable[int] | npt.NDArray[Any]) -> DeletedRows:
        """Return the rows at the given positions, which may be in any order and repeat."""
        listed = numbers if isinstance(numbers, np.ndarray) else np.fromiter(numbers, np.int64)
        mask = np.zeros(int(listed.max()) + 1 if len(listed) else 0, np.bool_)
        mask[listed] = True
        return cls.of_mask(mask, whole=False)

    def mask(self, rows: int, uri: str) -> npt.NDArray[np.bool_]:
        """Return a mask of shape (rows,), bool, True where a row of the file is deleted.

        Raises InvalidArgumentError, naming `uri`, if the deleted rows belong to a file with another number of rows.
        """
        if self.rows is not None and self.rows != rows:
            raise InvalidArgumentError(
                f"deleted rows of '{uri}' are given for {number_of(self.rows, 'row')}, and the file has {rows}"
            )
        if self.beyond > rows:
            raise InvalidArgumentError(
                f"row {self.beyond - 1} of '{uri}' is said to be deleted; the file has {number_of(rows, 'row')}"
            )
        return self._padded(rows)

    def __or__(self, other: DeletedRows) -> DeletedRows:
        """Return the rows deleted by either; raise InvalidArgumentError if they are for files of different length."""
        longer = max(self.beyond, other.beyond)
        rows = self.rows if other.rows is None else other.rows
        if None not in (self.rows, other.rows) and self.rows != other.rows:
            raise InvalidArgumentError(f"deleted rows are given for {self.rows} and for {other.rows} rows of one file")
        made = DeletedRows.of_mask(self._padded(longer) | other._padded(longer), whole=False)
        return DeletedRows(made.bits, made.count, made.beyond, rows)

    def _padded(self, rows: int) -> npt.NDArray[np.bool_]:
        deleted = np.zeros(rows, np.bool_)
        packed = np.frombuffer(zlib.decompress(self.bits), np.uint8)
        deleted[: self.beyond] = np.unpackbits(packed, count=self.beyond)
        return deleted
