"""Blob structs without their bytes: where each blob is stored, and whether its fields are consistent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.struct import (
    INLINE,
    OUT_OF_LINE,
    TAKEN_BY_READERS,
    Contradiction,
    Flags,
    as_flags,
    contradictions,
)
from hudi_vector.errors import InvalidBlobError

__all__ = ["TO_THE_END", "StoredBlobs"]

Ints = npt.NDArray[np.int64]

TO_THE_END = -1
"""The count of a reference without length: the rest of its file."""


@dataclass(frozen=True)
class StoredBlobs:
    """The fields of n blobs.

    `size` is the number of bytes of INLINE data. `file` is the URI of the path; it is NULL if a blob is not OUT_OF_LINE
    or if its path is invalid.
    """

    kind: pa.StringArray
    size: pa.Int64Array
    path: pa.StringArray
    offset: pa.Int64Array
    length: pa.Int64Array
    managed: pa.BooleanArray
    file: pa.StringArray

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(cls, array: pa.StructArray, area: BlobArea) -> StoredBlobs:
        """Return the fields of an array of structs with kind, size, path, offset, length and managed.

        `area` resolves relative paths.

        Example:
            >>> fields = dict.fromkeys(("size", "offset", "length", "managed"), pa.nulls(1, pa.int64()))
            >>> blobs = pa.table({"kind": ["OUT_OF_LINE"], "path": ["/a//b"], **fields}).to_struct_array()
            >>> StoredBlobs.of(blobs.combine_chunks(), BlobArea.of("/t")).file.to_pylist()
            ['file:///a/b']
        """
        kind, size, path, offset, length, managed = (
            array.field(name) for name in ("kind", "size", "path", "offset", "length", "managed")
        )
        named = pc.if_else(pc.fill_null(pc.equal(kind, OUT_OF_LINE), False), path, pa.scalar(None, pa.string()))
        encoded = named.dictionary_encode()
        files = pa.array([_file(text, area) for text in encoded.dictionary.to_pylist()], pa.string())
        return cls(kind, size, path, offset, length, managed, files.take(encoded.indices))

    @property
    def inline(self) -> Flags:
        """Return which blobs are consistent and stored in their row, shape (n,)."""
        return as_flags(pc.equal(self.kind, INLINE)) & ~self.contradicts

    @property
    def outside(self) -> Flags:
        """Return which blobs are consistent references to a file, shape (n,)."""
        return as_flags(pc.equal(self.kind, OUT_OF_LINE)) & ~self.contradicts

    @property
    def contradicts(self) -> Flags:
        """Return which blobs a reader would refuse because their fields contradict each other, shape (n,)."""
        has_size, has_path, has_file = (as_flags(array.is_valid()) for array in (self.size, self.path, self.file))
        outside = as_flags(pc.equal(self.kind, OUT_OF_LINE))
        wrong: Flags = outside & ~has_file
        for what, rows in contradictions(self.kind, has_size, has_path, self.offset, self.length):
            if what in (Contradiction.NEGATIVE_OFFSET, Contradiction.NEGATIVE_LENGTH):
                wrong |= rows & outside
            elif what not in TAKEN_BY_READERS:
                wrong |= rows
        return wrong

    @property
    def begin(self) -> Ints:
        """Return the first byte of each reference, shape (n,); 0 without an offset."""
        return np.asarray(pc.fill_null(self.offset, 0))

    @property
    def count(self) -> Ints:
        """Return the number of bytes of each reference, shape (n,); `TO_THE_END` without a length."""
        return np.asarray(pc.fill_null(self.length, TO_THE_END))


def _file(path: str, area: BlobArea) -> str | None:
    try:
        return area.file(path)
    except InvalidBlobError:
        return None
