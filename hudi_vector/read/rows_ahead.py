"""Columns of the rows that are likely to win, read from an object store while the vectors of candidates are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.storage import parallel
from hudi_vector.storage.ranges import OBJECT_STORE_MAX_GAP

__all__ = ["MOST_ROWS", "RowsAhead"]

T = TypeVar("T")

MOST_ROWS = 256
"""Rows of more candidates than this are not read before it is known which of them win."""

_MOST_BYTES = 4 << 10
"""Stored bytes of a row up to which rows are read that may not win: more would cost more than they spare."""


class RowsAhead:
    """The columns that the winners of one search are wanted with, of candidates whose reads have begun."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._found: dict[int, tuple[Ints, Callable[[], pa.Table | None]]] = {}

    def begin(self, index: int, reader: ParquetSlice, positions: Ints) -> None:
        """Begin to read rows of the plan's slice of this number, at ascending positions, if that spares time.

        A small file is read once, for vectors and columns: by `read_with`.
        """
        if self._wants(reader) and reader.size > OBJECT_STORE_MAX_GAP:
            self._found[index] = positions, parallel.begun(partial(self._read, reader, positions))

    def read_with(self, index: int, reader: ParquetSlice, positions: Ints, work: Callable[[], T]) -> T:
        """Do work with a reader, and read rows of its slice if the file is so small that one request has all of it."""
        if not self._wants(reader) or reader.size > OBJECT_STORE_MAX_GAP:
            return work()
        with reader.held_in_memory():
            done = work()
            rows = self._read(reader, positions)
        self._found[index] = positions, lambda: rows
        return done

    def wait(self) -> None:
        """Wait until all reads have ended."""
        for _, result in self._found.values():
            result()

    def rows(self, index: int, positions: Ints) -> pa.Table | None:
        """Return rows of a slice, in the order of `positions`, or None unless all of them were read."""
        known, result = self._found.get(index, (None, None))
        if known is None or result is None or not np.isin(positions, known).all():
            return None
        found = result()
        return None if found is None else found.take(pa.array(np.searchsorted(known, positions)))

    def _wants(self, reader: ParquetSlice) -> bool:
        """Return True if rows that may not win are read: none of a local file, of one in memory, or of long values."""
        if reader.is_local or not reader.holds_footer() or reader.holds(self._names):
            return False
        return reader.stored_bytes(self._names) <= _MOST_BYTES * reader.row_count()

    def _read(self, reader: ParquetSlice, positions: Ints) -> pa.Table | None:
        try:
            return reader.rows(positions, self._names)
        except (DataFileError, parallel.NotSentError):  # whoever needs the rows reads them, and says why not
            return None
