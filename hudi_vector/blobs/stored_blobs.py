"""Blobs without their bytes: what tells where each is stored, and whether it says so without contradiction."""

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
"""The length of a reference that has none."""


@dataclass(frozen=True)
class StoredBlobs:
    """The fields of n blobs. `size` has the bytes of INLINE data; `file` is the path in its one spelling.

    `file` is NULL where a blob is not OUT_OF_LINE, and where its path stands for no file.
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
        """Take blobs apart.

        Args:
            array: Structs of kind, size, path, offset, length and managed, as the fields are called here.
            area: Where the table keeps its blobs, for relative paths.

        Returns:
            The fields.

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
        """Whether each blob lies in its row."""
        return as_flags(pc.equal(self.kind, INLINE)) & ~self.contradicts

    @property
    def outside(self) -> Flags:
        """Whether each blob is a reference to a file."""
        return as_flags(pc.equal(self.kind, OUT_OF_LINE)) & ~self.contradicts

    @property
    def contradicts(self) -> Flags:
        """Whether each is no blob a reader would take."""
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
        """The first byte of each reference."""
        return np.asarray(pc.fill_null(self.offset, 0))

    @property
    def count(self) -> Ints:
        """The bytes of each reference, `TO_THE_END` for the rest of its file."""
        return np.asarray(pc.fill_null(self.length, TO_THE_END))


def _file(path: str, area: BlobArea) -> str | None:
    try:
        return area.file(path)
    except InvalidBlobError:
        return None
