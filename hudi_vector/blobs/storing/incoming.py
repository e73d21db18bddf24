"""Parsing of the values that a caller gives for a BLOB column: bytes, paths of files, or blob structs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.struct import (
    MAX_VALUE_BYTES,
    BlobColumns,
    Contradiction,
    Flags,
    as_flags,
    contradictions,
    is_blob_type,
)
from hudi_vector.errors import InvalidBlobError

__all__ = ["BatchPlace", "Incoming", "take_apart"]

_DESCRIPTOR = ", only with a reference into its data file; read the source with hoodie.read.blob.inline.mode=CONTENT"


@dataclass(frozen=True)
class BatchPlace:
    """The position of a batch, for messages: the column, and the number of rows of the task before the batch."""

    column: str
    first_row: int

    def refuse(self, wrong: Flags | pa.BooleanArray, reason: Callable[[int], str]) -> None:
        """Raise InvalidBlobError for the first row whose flag is set; NULL flags count as not set.

        `reason` returns what is wrong with the blob of a row.
        """
        flags = wrong if isinstance(wrong, np.ndarray) else as_flags(wrong)
        if flags.any():
            row = int(np.argmax(flags))
            raise InvalidBlobError(f"column '{self.column}', row {self.first_row + row} of its task: {reason(row)}")


@dataclass(frozen=True)
class Incoming:
    """A column of n rows; each row has bytes in `values`, or a `path` with the fields of its reference, or is NULL.

    `values` is binary or large binary. `whole_files` is True if all references were given as bare paths.
    """

    values: pa.Array
    path: pa.StringArray
    offset: pa.Int64Array
    length: pa.Int64Array
    managed: pa.BooleanArray
    whole_files: bool = False


def take_apart(array: pa.Array, spot: BatchPlace) -> Incoming:
    """Return the bytes and references of a column of bytes, paths of files (text) or blob structs, with NULL anywhere.

    Raises InvalidBlobError if the column has another type, or if the fields of a blob contradict each other.

    Example:
        >>> take_apart(pa.array(["/a/cat.png", None]), BatchPlace("img", 0)).path.to_pylist()
        ['/a/cat.png', None]
    """
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes(array, spot)
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return _bytes(array.cast(pa.large_binary()), spot)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _paths(array.cast(pa.string()))
    if pa.types.is_null(kind):
        return _bytes(array.cast(pa.binary()), spot)
    if not is_blob_type(kind):
        raise InvalidBlobError(
            f"column '{spot.column}' is {kind}, which is no blob; give bytes, paths of files as text, or "
            "struct<type, data, reference: struct<external_path, offset, length, managed>>"
        )
    return _structs(BlobColumns.of(array, f"column '{spot.column}'"), spot)


def _bytes(array: pa.Array, spot: BatchPlace) -> Incoming:
    sizes = pc.binary_length(array)
    spot.refuse(
        pc.greater(sizes, MAX_VALUE_BYTES),
        lambda row: f"its {sizes[row]} bytes are more than a value can have, {MAX_VALUE_BYTES}; give a path instead",
    )
    text, number, flag = (pa.nulls(len(array), kind) for kind in (pa.string(), pa.int64(), pa.bool_()))
    return Incoming(array, path=text, offset=number, length=number, managed=flag)


def _paths(paths: pa.StringArray) -> Incoming:
    number = pa.nulls(len(paths), pa.int64())
    return Incoming(
        values=pa.nulls(len(paths), pa.binary()),
        path=paths,
        offset=number,
        length=number,
        managed=pc.if_else(paths.is_valid(), False, pa.scalar(None, pa.bool_())),
        whole_files=True,
    )


def _structs(blobs: BlobColumns, spot: BatchPlace) -> Incoming:
    has_data, has_path = as_flags(pc.is_valid(blobs.data)), as_flags(pc.is_valid(blobs.path))
    one_of = "a blob is INLINE or OUT_OF_LINE"
    words: dict[Contradiction, Callable[[int], str]] = {
        Contradiction.UNKNOWN_TYPE: lambda row: f"its type is {blobs.kind[row].as_py()!r}; {one_of}",
        Contradiction.NO_TYPE: lambda _: f"it has no type, but data or a reference; {one_of}",
        Contradiction.NO_DATA: lambda row: "it is INLINE without data" + (_DESCRIPTOR if has_path[row] else ""),
        Contradiction.INLINE_WITH_PATH: lambda _: "it is INLINE and has a reference too; leave one out",
        Contradiction.NO_PATH: lambda _: "it is OUT_OF_LINE without a reference that names a path",
        Contradiction.OUT_OF_LINE_WITH_DATA: lambda _: "it is OUT_OF_LINE and has data too; leave one out",
        Contradiction.NEGATIVE_OFFSET: lambda row: f"its offset is {blobs.offset[row]}; give 0 or more",
        Contradiction.NEGATIVE_LENGTH: lambda row: f"its length is {blobs.length[row]}; give 0 or more",
    }
    for what, wrong in contradictions(blobs.kind, has_data, has_path, blobs.offset, blobs.length):
        spot.refuse(wrong, words[what])
    managed = pc.if_else(pa.array(has_path), pc.fill_null(blobs.managed, False), pa.scalar(None, pa.bool_()))
    return Incoming(blobs.data, blobs.path, blobs.offset, blobs.length, managed)
