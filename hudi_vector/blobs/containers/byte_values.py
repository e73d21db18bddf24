"""Binary values as views of Arrow's buffers, so that bytes go from a batch to a file without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ByteValues"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ByteValues:
    """Rows of a binary array, none of them NULL; `begins` and `lengths` are in bytes of `data`, int64."""

    array: pa.Array
    rows: Ints
    begins: Ints
    lengths: Ints
    data: memoryview

    @classmethod
    def of(cls, array: pa.Array, rows: Ints) -> ByteValues:
        """Return views of the values at `rows` (positions, int64) of a binary or large binary array.

        Example:
            >>> bytes(ByteValues.of(pa.array([b"a", None, b"bc"], pa.binary()), np.array([2])).view(0))
            b'bc'
        """
        width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
        begins = bounds[:-1][rows]
        # An array of empty values has no data buffer.
        view = memoryview(b"" if data is None else data)
        return cls(array, rows, begins, bounds[1:][rows] - begins, view)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, begin: int, end: int) -> ByteValues:
        """Return the values from `begin` to `end` (exclusive)."""
        return ByteValues(self.array, self.rows[begin:end], self.begins[begin:end], self.lengths[begin:end], self.data)

    def view(self, index: int) -> memoryview:
        """Return one value without copying."""
        begin = int(self.begins[index])
        return self.data[begin : begin + int(self.lengths[index])]

    def runs(self) -> Iterator[memoryview]:
        """Yield all values in order, joining values that are adjacent in the buffer."""
        ends = self.begins + self.lengths
        breaks = np.flatnonzero(self.begins[1:] != ends[:-1]) + 1
        for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(self)], strict=True):
            if last > first:
                yield self.data[int(self.begins[first]) : int(ends[last - 1])]

    def to_arrow(self) -> pa.LargeBinaryArray:
        """Return the values as an Arrow array; consecutive rows are not copied."""
        dense = len(self) and int(self.rows[-1] - self.rows[0]) == len(self) - 1
        chosen = self.array.slice(int(self.rows[0]), len(self)) if dense else self.array.take(pa.array(self.rows))
        return chosen.cast(pa.large_binary())
