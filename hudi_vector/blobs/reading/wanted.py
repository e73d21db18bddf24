"""The byte ranges that the rows of a BLOB column ask for, checked for contradictions before any file is looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.struct import (
    INLINE,
    OUT_OF_LINE,
    TAKEN_BY_READERS,
    BlobColumns,
    Contradiction,
    Flags,
    as_flags,
    contradictions,
)
from hudi_vector.errors import InvalidArgumentError, InvalidBlobError

__all__ = ["Part", "Wanted", "wanted_of"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """The requested part of each blob: `count` bytes from byte `start` (None: to the blob's end).

    Both are numbers for all rows, or int64 arrays with one value for each row. Raises InvalidArgumentError for negative
    values.
    """

    start: int | Ints = 0
    count: int | Ints | None = None

    def __post_init__(self) -> None:
        for name, value in (("offset", self.start), ("length", self.count)):
            if value is not None and np.min(value, initial=0) < 0:
                raise InvalidArgumentError(f"the {name} of a part of a blob is {np.min(value)}; give 0 or more bytes")

    def rows(self, count: int) -> tuple[Ints, Ints]:
        """Return start and count for each of `count` rows, int64; without a count, the largest int64."""
        most = np.iinfo(np.int64).max if self.count is None else self.count
        return (
            np.broadcast_to(np.asarray(self.start, np.int64), (count,)),
            np.broadcast_to(np.asarray(most, np.int64), (count,)),
        )

    @property
    def whole(self) -> bool:
        """Return True if all bytes of every blob are requested."""
        return self.count is None and isinstance(self.start, int) and self.start == 0


@dataclass(frozen=True)
class Wanted:
    """The bytes that n rows ask for; a row that is neither inline nor refers to a file is NULL.

    `file` is an index into `paths`, -1 for rows without a reference; `length` is -1 for references to the end of the
    file.
    """

    columns: BlobColumns
    inline: Flags
    file: npt.NDArray[np.int32]
    paths: tuple[str, ...]
    offset: Ints
    length: Ints

    def __len__(self) -> int:
        return len(self.inline)

    @property
    def refers(self) -> Flags:
        """Return which rows refer to a file, shape (n,)."""
        found: Flags = self.file >= 0
        return found

    def inline_bytes(self) -> tuple[Ints, npt.NDArray[np.uint8]]:
        """Return the position at which each row's data begins, shape (n + 1,), and the bytes of all rows."""
        data = self.columns.data
        _, offsets, values = data.buffers()
        if not len(data):
            return np.zeros(1, np.int64), np.empty(0, np.uint8)
        begins = np.frombuffer(offsets, np.int32)[data.offset : data.offset + len(data) + 1].astype(np.int64)
        return begins, np.empty(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)

    def described(self, row: int) -> str:
        """Return the name of a row's blob for messages."""
        if not self.refers[row]:
            return f"the INLINE blob in row {row}"
        offset, length = self.columns.offset[row].as_py(), self.columns.length[row].as_py()
        start = "no offset" if offset is None else f"offset {offset}"
        size = "no length" if length is None else f"length {length}"
        return f"the blob at '{self.paths[self.file[row]]}' ({start}, {size})"


def wanted_of(columns: BlobColumns) -> Wanted:
    """Return the bytes that blobs ask for.

    A reference without offset starts at byte 0, one without length goes to the end of its file; with neither it is the
    whole file. A struct whose fields are all NULL is a NULL blob. Raises InvalidBlobError if the fields of a blob
    contradict each other.
    """
    inline, outside = as_flags(pc.equal(columns.kind, INLINE)), as_flags(pc.equal(columns.kind, OUT_OF_LINE))
    _check(columns, outside)
    paths = pc.if_else(pa.array(outside), columns.path, pa.scalar(None, pa.string())).dictionary_encode()
    return Wanted(
        columns=columns,
        inline=inline,
        file=_numbers(paths.indices, -1).astype(np.int32),
        paths=tuple(paths.dictionary.to_pylist()),
        offset=_numbers(columns.offset, 0),
        length=_numbers(columns.length, -1),
    )


def _check(columns: BlobColumns, outside: Flags) -> None:
    def described(row: int) -> str:
        path = columns.path[row].as_py()
        if path is None:
            return ""
        return _OF_LANCE if path.endswith(".lance") else _DESCRIPTOR

    words: dict[Contradiction, Callable[[int], str]] = {
        Contradiction.UNKNOWN_TYPE: lambda row: f"has the type {columns.kind[row].as_py()!r}; {_TYPES}",
        Contradiction.NO_TYPE: lambda _: f"has no type, but data or a reference; {_TYPES}",
        Contradiction.NO_DATA: lambda row: "is INLINE and has no data" + described(row),
        Contradiction.NO_PATH: lambda _: "is OUT_OF_LINE and has no reference that names a path",
        Contradiction.NEGATIVE_OFFSET: partial(_negative, "offset", columns.offset, columns.path),
        Contradiction.NEGATIVE_LENGTH: partial(_negative, "length", columns.length, columns.path),
    }
    has_data, has_path = as_flags(columns.data.is_valid()), as_flags(columns.path.is_valid())
    for what, wrong in contradictions(columns.kind, has_data, has_path, columns.offset, columns.length):
        if what not in TAKEN_BY_READERS:
            numbers = what in (Contradiction.NEGATIVE_OFFSET, Contradiction.NEGATIVE_LENGTH)
            _refuse(wrong & outside if numbers else wrong, words[what])


def _negative(what: str, field: pa.Int64Array, path: pa.StringArray, row: int) -> str:
    return f"refers to '{path[row].as_py()}' with the negative {what} {field[row].as_py()}"


_TYPES = "a blob is INLINE or OUT_OF_LINE"
_DESCRIPTOR = (
    ", only a reference into its base file: the table was read with hoodie.read.blob.inline.mode=DESCRIPTOR; "
    "read it with CONTENT"
)
_OF_LANCE = (
    ", only a reference into its Lance base file: Hudi 1.2 leaves the bytes there by default; "
    "read the table with hoodie.read.blob.inline.mode=CONTENT"
)


def _refuse(wrong: Flags, reason: Callable[[int], str]) -> None:
    """Raise InvalidBlobError for the first row that is wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidBlobError(f"the blob in row {row} {reason(row)}")


def _numbers(array: pa.Array, missing: int) -> Ints:
    return np.asarray(pc.fill_null(array, missing))
