"""Rows that a data file still holds though they are deleted: what deletion vectors and position deletes say."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError

__all__ = ["DeletedRows"]


@dataclass(frozen=True)
class DeletedRows:
    """The deleted rows of one file, by their numbers in it, from 0.

    They travel to executors: a compressed bit for each row up to the last deleted one. `count` is how many they are,
    `beyond` one more than the last of them, `rows` how many the file has to have, None where nobody said.
    """

    bits: bytes = field(repr=False)
    count: int
    beyond: int
    rows: int | None = None

    @classmethod
    def of_mask(cls, deleted: npt.NDArray[np.bool_], whole: bool = True) -> DeletedRows:
        """Those a bool for each row tells.

        Args:
            deleted: True where a row is deleted.
            whole: Whether it has an entry for every row of the file; otherwise later rows are there.
        """
        places = np.flatnonzero(deleted)
        beyond = int(places[-1]) + 1 if len(places) else 0
        bits = zlib.compress(np.packbits(deleted[:beyond]).tobytes(), 1)
        return cls(bits, len(places), beyond, len(deleted) if whole else None)

    @classmethod
    def of_numbers(cls, numbers: Iterable[int] | npt.NDArray[Any]) -> DeletedRows:
        """Those of some numbers, in any order, repeated or not."""
        listed = numbers if isinstance(numbers, np.ndarray) else np.fromiter(numbers, np.int64)
        mask = np.zeros(int(listed.max()) + 1 if len(listed) else 0, np.bool_)
        mask[listed] = True
        return cls.of_mask(mask, whole=False)

    def mask(self, rows: int, uri: str) -> npt.NDArray[np.bool_]:
        """A bool for each row of the file, True where it is deleted.

        Args:
            rows: How many rows the file has.
            uri: The file, for the message.

        Returns:
            The bools.

        Raises:
            InvalidArgumentError: They are rows of a file of another length.
        """
        if self.rows is not None and self.rows != rows:
            raise InvalidArgumentError(
                f"deleted rows of '{uri}' are told for {self.rows} rows, and the file has {rows}"
            )
        if self.beyond > rows:
            raise InvalidArgumentError(
                f"row {self.beyond - 1} of '{uri}' is said to be deleted; the file has {rows} rows"
            )
        return self._padded(rows)

    def __or__(self, other: DeletedRows) -> DeletedRows:
        """Those that are deleted by one or the other."""
        longer = max(self.beyond, other.beyond)
        rows = self.rows if other.rows is None else other.rows
        if None not in (self.rows, other.rows) and self.rows != other.rows:
            raise InvalidArgumentError(f"deleted rows are told for {self.rows} and for {other.rows} rows of one file")
        made = DeletedRows.of_mask(self._padded(longer) | other._padded(longer), whole=False)
        return DeletedRows(made.bits, made.count, made.beyond, rows)

    def _padded(self, rows: int) -> npt.NDArray[np.bool_]:
        deleted = np.zeros(rows, np.bool_)
        packed = np.frombuffer(zlib.decompress(self.bits), np.uint8)
        deleted[: self.beyond] = np.unpackbits(packed, count=self.beyond)
        return deleted
