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
"""The bytes that one value of a Spark column, or one array of values, can have."""

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
    """The fields of n blobs; NULL blobs are NULL in `kind`, fields that a blob does not have are NULL too."""

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
        """Take blob structs apart, whatever physical types a file or Spark gave them.

        Args:
            array: A struct array or chunked array; enums come as dictionaries or bytes, NULLs at every level.
            label: How messages name it.

        Returns:
            The fields.

        Raises:
            InvalidBlobError: The type is not that of a blob.
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
        """The blobs from start to stop, as views."""
        fields = (self.kind, self.data, self.path, self.offset, self.length, self.managed)
        return BlobColumns(*(field.slice(start, stop - start) for field in fields))

    def array(self) -> pa.StructArray:
        """The blobs as one struct array of `BLOB_TYPE`."""
        reference = pa.StructArray.from_arrays(
            [self.path, self.offset, self.length, self.managed],
            fields=list(REFERENCE_TYPE),
            mask=self.path.is_null(),
        )
        return pa.StructArray.from_arrays(
            [self.kind, self.data, reference], fields=list(BLOB_TYPE), mask=self.kind.is_null()
        )


class Contradiction(enum.Enum):
    """How the fields of a blob can contradict each other."""

    UNKNOWN_TYPE = enum.auto()
    NO_TYPE = enum.auto()
    NO_DATA = enum.auto()
    INLINE_WITH_PATH = enum.auto()
    NO_PATH = enum.auto()
    OUT_OF_LINE_WITH_DATA = enum.auto()
    NEGATIVE_OFFSET = enum.auto()
    NEGATIVE_LENGTH = enum.auto()


TAKEN_BY_READERS = frozenset({Contradiction.INLINE_WITH_PATH, Contradiction.OUT_OF_LINE_WITH_DATA})
"""What is refused in a write, and harmless to read."""


def contradictions(
    kind: pa.StringArray, has_data: Flags, has_path: Flags, offset: pa.Int64Array, length: pa.Int64Array
) -> Iterator[tuple[Contradiction, Flags]]:
    """The rows of each contradiction, in the order in which they are told.

    Args:
        kind: The types of n blobs.
        has_data: Whether each has bytes of its own.
        has_path: Whether each has a reference that names a path.
        offset: The first bytes of references.
        length: Their lengths.

    Yields:
        A contradiction, and whether each row has it, shape (n,).
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
    """Booleans as numpy has them; NULL is False."""
    return np.asarray(pc.fill_null(array, False))


def blob_array(kind: Any, data: Any, path: Any, offset: Any, length: Any, managed: Any) -> pa.StructArray:
    """Blob structs from their fields.

    Args:
        kind: INLINE, OUT_OF_LINE or None (a NULL blob) for each row.
        data: The bytes of INLINE rows, None elsewhere.
        path: The path of OUT_OF_LINE rows, None elsewhere.
        offset: The first byte, None for a whole file.
        length: The number of bytes, None for a whole file.
        managed: Whether the table owns the bytes, None where there is no path.

    Returns:
        An array of `BLOB_TYPE`.

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
    """Whether an Arrow type is that of a blob: the three fields, the four below, in any nullability."""
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
    """The array with NULL where a parent is NULL."""
    return array if valid.all() else pc.if_else(pa.array(valid), array, pa.scalar(None, array.type))
