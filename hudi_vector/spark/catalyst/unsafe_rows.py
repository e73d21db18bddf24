"""Small tables as the bytes of Spark's ``UnsafeRow``, which the JVM takes as they are.

Arrow's way into the JVM takes five calls, a copy by generated code, and classes that a session may need for nothing
else. A row is a word of 64 bits for each 64 columns, whose bits mark NULL; a word for each column, which holds its
value, or where its bytes begin in the row, shifted by 32 bits, and how many they are; and these bytes, each value's up
to a whole word. Words are in the order of bytes of the machine, which the JVM of this process shares.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

__all__ = ["MOST_ROWS", "fits_unsafe", "no_columns", "unsafe_bytes"]

MOST_ROWS = 4096
_BYTES = 1 << 20
_WORD = 8

# The type of numbers that holds a value's bits.
_FIXED: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.uint8(),
    ByteType: pa.int8(),
    DateType: pa.int32(),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    ShortType: pa.int16(),
    TimestampNTZType: pa.int64(),
    TimestampType: pa.int64(),
}
_SIZED = (BinaryType, StringType)


def fits_unsafe(table: pa.Table, schema: StructType) -> bool:
    """Return True if a table is small, and its columns are of types that `unsafe_bytes` knows."""
    known = all(type(field.dataType) in (*_FIXED, *_SIZED) for field in schema.fields)
    return known and table.num_rows <= MOST_ROWS and table.nbytes <= _BYTES


def unsafe_bytes(table: pa.Table, schema: StructType) -> bytes:
    """Return the rows one after another, each after a word with its length in bytes.

    The table has the columns of the schema, in its order and in the Arrow types that Spark expects.
    """
    marks = -(-len(schema.fields) // 64)
    words = np.zeros((table.num_rows, marks + len(schema.fields)), np.uint64)
    sized: list[tuple[int, list[bytes | None]]] = []
    for place, (column, field) in enumerate(zip(table.columns, schema.fields, strict=True)):
        is_null = np.asarray(column.is_null())
        words[is_null, place // 64] |= np.uint64(1 << place % 64)
        if type(field.dataType) in _SIZED:
            sized.append((marks + place, column.cast(pa.binary()).to_pylist()))
        else:
            words[:, marks + place] = _bits(column, _FIXED[type(field.dataType)])
    return b"".join(_row(words[row], [(at, values[row]) for at, values in sized]) for row in range(table.num_rows))


def no_columns(rows: int) -> bytes:
    """Return rows without columns, of which each is only its length, 0."""
    return bytes(rows * _WORD)


def _bits(column: pa.ChunkedArray, kind: pa.DataType) -> npt.NDArray[np.uint64]:
    """Return values of one size as the low bits of words, 0 for NULL."""
    values = np.asarray(column.cast(kind).fill_null(0))
    return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)


def _row(words: npt.NDArray[np.uint64], sized: list[tuple[int, bytes | None]]) -> bytes:
    """Return a row after its length; `sized` are the values of many bytes, with the places of their words."""
    tail = bytearray()
    for at, value in sized:
        if value is not None:
            words[at] = (words.nbytes + len(tail)) << 32 | len(value)
            tail += value + bytes(-len(value) % _WORD)
    length = (words.nbytes + len(tail)).to_bytes(_WORD, sys.byteorder)
    return b"".join((length, words.tobytes(), tail))
