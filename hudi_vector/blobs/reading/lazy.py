"""References to blobs wherever they are, INLINE ones in their base file too: ``{path, offset, length, row, inline}``.

INLINE bytes have an offset where their page is stored plainly and uncompressed. Elsewhere the row's number leads to
them, through the one page that holds the row. Such a reference is good for as long as Hudi keeps the base file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.reading.base_files import BaseFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.struct import INLINE, OUT_OF_LINE, BlobColumns, as_flags
from hudi_vector.errors import BlobReadError, DataFileError, InvalidBlobError

__all__ = ["LAZY_TYPE", "LazyColumns", "lazy_pieces"]

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

LAZY_TYPE = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("row", pa.int64()),
        pa.field("inline", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class LazyColumns:
    """The fields of n references; NULL ones are NULL in `path`."""

    path: pa.StringArray
    offset: pa.Int64Array
    length: pa.Int64Array
    row: pa.Int64Array
    inline: pa.BooleanArray

    def __len__(self) -> int:
        return len(self.path)

    @classmethod
    def of(cls, array: pa.StructArray) -> LazyColumns:
        """Take references apart."""
        return cls(*array.cast(LAZY_TYPE).flatten())

    def slice(self, start: int, stop: int) -> LazyColumns:
        """The references from start to stop, as views."""
        fields = (self.path, self.offset, self.length, self.row, self.inline)
        return LazyColumns(*(field.slice(start, stop - start) for field in fields))

    @property
    def in_pages(self) -> Flags:
        """Whether each one's bytes are taken out of a page of a base file; empty values need no page."""
        found: Flags = as_flags(self.inline) & as_flags(self.offset.is_null()) & as_flags(self.path.is_valid())
        return found & (self.sizes > 0)

    @property
    def sizes(self) -> Ints:
        """Bytes of each, 0 where the reference does not say."""
        return np.asarray(pc.fill_null(self.length, 0))

    def blobs(self) -> BlobColumns:
        """As blobs out of line, NULL in the place of those that are taken out of pages."""
        count = len(self)
        path = pc.if_else(pa.array(self.in_pages), pa.scalar(None, pa.string()), self.path)
        kind = pc.if_else(path.is_valid(), pa.scalar(OUT_OF_LINE), pa.scalar(None, pa.string()))
        return BlobColumns(
            kind, pa.nulls(count, pa.binary()), path, self.offset, self.length, pa.nulls(count, pa.bool_())
        )

    def check(self) -> None:
        """Refuse references to INLINE bytes that say too little to find them.

        Raises:
            InvalidBlobError: One has neither offset nor row, or no length.
        """
        inline = as_flags(self.inline) & as_flags(self.path.is_valid())
        nowhere = as_flags(self.offset.is_null()) & as_flags(self.row.is_null())
        wrong = inline & (nowhere | as_flags(self.length.is_null()))
        if wrong.any():
            path = self.path[int(np.argmax(wrong))].as_py()
            raise InvalidBlobError(
                f"a reference to an INLINE blob in '{path}' lacks its length, or both offset and row; "
                "leave references as blob_references gives them"
            )


def lazy_pieces(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles, budget: int) -> Iterator[pa.BinaryArray]:
    """The bytes references lead to, in arrays of bounded size.

    Args:
        fetcher: How bytes out of line are had, and what becomes of bytes that cannot be had.
        columns: The references.
        bases: The base files that are open.
        budget: The most bytes of a piece; a value that has more is a piece of its own. A page of a base file is read
            once for each piece.

    Yields:
        Values of type ``binary``, all together as many as there are references, in their order.

    Raises:
        BlobReadError: Bytes cannot be had, and the fetcher raises errors.
        InvalidBlobError: A reference contradicts itself.
    """
    columns.check()
    files = fetcher.files()
    ends = np.cumsum(np.where(columns.in_pages, columns.sizes, _sizes(fetcher, columns, bases, files)))
    start, done = 0, 0
    while start < len(columns):
        stop = max(start + 1, int(np.searchsorted(ends, done + budget, side="right")))
        yield _fetched(fetcher, columns.slice(start, stop), bases, files)
        start, done = stop, int(ends[stop - 1])


def _sizes(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles, files: BlobFiles) -> Ints:
    try:
        return fetcher.sizes(columns.blobs(), files=files)
    except BlobReadError:
        bases.require(_base_paths(columns))
        raise


def _fetched(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles, files: BlobFiles) -> pa.BinaryArray:
    blobs = columns.blobs()
    if columns.in_pages.any():
        data = pa.array(_from_pages(fetcher, columns, bases), pa.binary())
        blobs = replace(blobs, data=data, kind=pc.if_else(data.is_valid(), pa.scalar(INLINE), blobs.kind))
    try:
        return fetcher.fetch(blobs, files=files)
    except BlobReadError:
        # A base file is missing for a reason of its own, which is said instead.
        bases.require(_base_paths(columns))
        raise


def _base_paths(columns: LazyColumns) -> list[str]:
    paths: list[str] = columns.path.filter(columns.inline).drop_null().unique().to_pylist()
    return paths


def _from_pages(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles) -> list[bytes | None]:
    """The bytes of the rows that are in pages, None in the place of others and of what cannot be had."""
    at = np.flatnonzero(columns.in_pages)
    paths = columns.path.take(pa.array(at)).dictionary_encode()
    which, rows = np.asarray(paths.indices), np.asarray(columns.row.take(pa.array(at)))
    asked = [(path, rows[which == number]) for number, path in enumerate(paths.dictionary.to_pylist())]
    values: list[bytes | None] = [None] * len(columns)
    for number, found in enumerate(bases.read(asked, fetcher.threads)):
        if isinstance(found, DataFileError):
            if fetcher.on_error == "raise":
                raise found
            continue
        for place, value in zip(at[which == number].tolist(), found, strict=True):
            if value is not None and len(value) == columns.sizes[place]:
                values[place] = value
            elif fetcher.on_error == "raise":
                raise BlobReadError(
                    f"row {columns.row[place]} of the base file '{columns.path[place]}' has no value of "
                    f"{columns.sizes[place]} bytes, as its reference says; take new references of the table"
                )
    return values
