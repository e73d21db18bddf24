"""The BLOB struct of RFC-100 in Arrow: ``{type, data, reference{external_path, offset, length, managed}}``.

``type`` is INLINE (the bytes are in ``data``) or OUT_OF_LINE (``reference`` says where they are). A reference with
neither offset nor length is a whole file.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import InvalidBlobError

__all__ = [
    "BLOB_TYPE",
    "INLINE",
    "MAX_VALUE_BYTES",
    "OUT_OF_LINE",
    "REFERENCE_TYPE",
    "TAKEN_BY_READERS",
    "BlobColumns",
    "Contradiction",
    "as_flags",
    "blob_array",
    "contradictions",
    "is_blob_type",
]

Flags = npt.NDArray[np.bool_]

INLINE, OUT_OF_LINE = "INLINE", "OUT_OF_LINE"

MAX_VALUE_BYTES = 2**31 - 1
"""The largest number of bytes in one value of a Spark column, and in one array of values."""

REFERENCE_TYPE = pa.struct(
    [
        pa.field("external_path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("managed", pa.bool_()),
    ]
)
BLOB_TYPE = pa.struct(
    [pa.field("type", pa.string()), pa.field("data", pa.binary()), pa.field("reference", REFERENCE_TYPE)]
)


@dataclass(frozen=True)
class BlobColumns:
    """The fields of n blobs; `kind` is NULL for a NULL blob, and fields that a blob does not have are NULL."""

    kind: pa.StringArray
    data: pa.BinaryArray
    path: pa.StringArray
    offset: pa.Int64Array
    length: pa.Int64Array
    managed: pa.BooleanArray

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(cls, array: Any, label: str = "the column") -> BlobColumns:
        """Return the fields of blob structs, cast to the types of `BLOB_TYPE`.

        `array` is a struct array or chunked array in any physical types: enums may be dictionaries or bytes, and NULLs
        may be at every level. `label` names it in messages. Raises InvalidBlobError if its type is not that of a blob.
        """
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        _require_blob_type(array.type, label)
        kind, data, reference = (array.field(name) for name in ("type", "data", "reference"))
        whole = _valid(array)
        named = whole & _valid(reference)
        fields = {
            name: _masked(reference.field(name), named) for name in ("external_path", "offset", "length", "managed")
        }
        return cls(
            kind=_masked(kind.cast(pa.string()) if kind.type != pa.string() else kind, whole),
            data=_masked(data.cast(pa.binary()) if data.type != pa.binary() else data, whole),
            path=fields["external_path"].cast(pa.string()),
            offset=fields["offset"].cast(pa.int64()),
            length=fields["length"].cast(pa.int64()),
            managed=fields["managed"].cast(pa.bool_()),
        )

    def slice(self, start: int, stop: int) -> BlobColumns:
        """Return the blobs from `start` to `stop` (exclusive) without copying."""
        fields = (self.kind, self.data, self.path, self.offset, self.length, self.managed)
        return BlobColumns(*(field.slice(start, stop - start) for field in fields))

    def array(self) -> pa.StructArray:
        """Return the blobs as one struct array of `BLOB_TYPE`."""
        reference = pa.StructArray.from_arrays(
            [self.path, self.offset, self.length, self.managed],
            fields=list(REFERENCE_TYPE),
            mask=self.path.is_null(),
        )
        return pa.StructArray.from_arrays(
            [self.kind, self.data, reference], fields=list(BLOB_TYPE), mask=self.kind.is_null()
        )


class Contradiction(enum.Enum):
    """The kinds of contradiction between the fields of a blob."""

    UNKNOWN_TYPE = enum.auto()
    NO_TYPE = enum.auto()
    NO_DATA = enum.auto()
    INLINE_WITH_PATH = enum.auto()
    NO_PATH = enum.auto()
    OUT_OF_LINE_WITH_DATA = enum.auto()
    NEGATIVE_OFFSET = enum.auto()
    NEGATIVE_LENGTH = enum.auto()


TAKEN_BY_READERS = frozenset({Contradiction.INLINE_WITH_PATH, Contradiction.OUT_OF_LINE_WITH_DATA})
"""Contradictions that a write refuses and a reader accepts."""


def contradictions(
    kind: pa.StringArray, has_data: Flags, has_path: Flags, offset: pa.Int64Array, length: pa.Int64Array
) -> Iterator[tuple[Contradiction, Flags]]:
    """Yield each kind of contradiction with the rows that have it, shape (n,), in the order of the enum.

    Args:
        kind: The types of n blobs.
        has_data: Whether each has inline bytes.
        has_path: Whether each has a reference with a path.
        offset: The first byte of each reference.
        length: The number of bytes of each reference.
    """
    typed = as_flags(kind.is_valid())
    inline, outside = as_flags(pc.equal(kind, INLINE)), as_flags(pc.equal(kind, OUT_OF_LINE))
    yield Contradiction.UNKNOWN_TYPE, typed & ~inline & ~outside
    yield Contradiction.NO_TYPE, ~typed & (has_data | has_path)
    yield Contradiction.NO_DATA, inline & ~has_data
    yield Contradiction.INLINE_WITH_PATH, inline & has_path
    yield Contradiction.NO_PATH, outside & ~has_path
    yield Contradiction.OUT_OF_LINE_WITH_DATA, outside & has_data
    yield Contradiction.NEGATIVE_OFFSET, as_flags(pc.less(offset, 0))
    yield Contradiction.NEGATIVE_LENGTH, as_flags(pc.less(length, 0))


def as_flags(array: pa.BooleanArray) -> Flags:
    """Return booleans as a numpy array; NULL becomes False."""
    return np.asarray(pc.fill_null(array, False))


def blob_array(kind: Any, data: Any, path: Any, offset: Any, length: Any, managed: Any) -> pa.StructArray:
    """Return an array of `BLOB_TYPE` made from its fields.

    Args:
        kind: INLINE, OUT_OF_LINE or None (a NULL blob) for each row.
        data: The bytes of INLINE rows, None elsewhere.
        path: The path of OUT_OF_LINE rows, None elsewhere.
        offset: The first byte, None for a whole file.
        length: The number of bytes, None for a whole file.
        managed: Whether the table owns the bytes, None if there is no path.

    Example:
        >>> blob_array(["INLINE"], [b"x"], [None], [None], [None], [None])[0]["data"].as_py()
        b'x'
    """
    return BlobColumns(
        pa.array(kind, pa.string()),
        pa.array(data, pa.binary()),
        pa.array(path, pa.string()),
        pa.array(offset, pa.int64()),
        pa.array(length, pa.int64()),
        pa.array(managed, pa.bool_()),
    ).array()


def is_blob_type(kind: pa.DataType) -> bool:
    """Return True if the field names of an Arrow type, and of its reference, are those of `BLOB_TYPE`."""
    if not pa.types.is_struct(kind) or [field.name for field in kind] != [field.name for field in BLOB_TYPE]:
        return False
    inner = kind.field("reference").type
    return pa.types.is_struct(inner) and [field.name for field in inner] == [field.name for field in REFERENCE_TYPE]


def _require_blob_type(kind: pa.DataType, label: str) -> None:
    if not is_blob_type(kind):
        raise InvalidBlobError(
            f"{label} is {kind}, which is no blob; a blob is struct<type, data, "
            "reference: struct<external_path, offset, length, managed>>"
        )


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_valid())


def _masked(array: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the array with NULL where its parent is NULL."""
    return array if valid.all() else pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))
