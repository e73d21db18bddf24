"""References to blobs in any place, also to INLINE ones in their base file: ``{path, offset, length, row, inline}``.

INLINE bytes have an offset if their page is PLAIN and uncompressed. Otherwise they are found by their row number, in
the one page that holds the row. Such a reference is valid as long as Hudi keeps the base file.
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
from hudi_vector.blobs.reading.fetch import BlobFetcher, Part
from hudi_vector.blobs.reading.pieces import cut
from hudi_vector.blobs.reading.places import places_of
from hudi_vector.blobs.struct import INLINE, OUT_OF_LINE, BlobColumns, as_flags
from hudi_vector.errors import BlobReadError, DataFileError, InvalidBlobError

__all__ = ["LAZY_TYPE", "LazyColumns", "fetch_lazy", "lazy_pieces", "lazy_sizes"]

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
    """The fields of n references; NULL references are NULL in `path`."""

    path: pa.StringArray
    offset: pa.Int64Array
    length: pa.Int64Array
    row: pa.Int64Array
    inline: pa.BooleanArray

    def __len__(self) -> int:
        return len(self.path)

    @classmethod
    def of(cls, array: pa.StructArray) -> LazyColumns:
        """Return the fields of an array of references."""
        return cls(*array.cast(LAZY_TYPE).flatten())

    def slice(self, start: int, stop: int) -> LazyColumns:
        """Return the references from `start` to `stop` (exclusive) without copying."""
        fields = (self.path, self.offset, self.length, self.row, self.inline)
        return LazyColumns(*(field.slice(start, stop - start) for field in fields))

    @property
    def in_pages(self) -> Flags:
        """Return which references need a page of a base file to be decoded; empty values need no page."""
        found: Flags = as_flags(self.inline) & as_flags(self.offset.is_null()) & as_flags(self.path.is_valid())
        return found & (self.sizes > 0)

    @property
    def sizes(self) -> Ints:
        """Return the bytes of each reference, 0 if the reference does not say."""
        return np.asarray(pc.fill_null(self.length, 0))

    def blobs(self) -> BlobColumns:
        """Return the references as OUT_OF_LINE blobs; those that need a page are NULL."""
        count = len(self)
        path = pc.if_else(pa.array(self.in_pages), pa.scalar(None, pa.string()), self.path)
        kind = pc.if_else(path.is_valid(), pa.scalar(OUT_OF_LINE), pa.scalar(None, pa.string()))
        return BlobColumns(
            kind, pa.nulls(count, pa.binary()), path, self.offset, self.length, pa.nulls(count, pa.bool_())
        )

    def check(self) -> None:
        """Check that references to INLINE bytes are complete.

        Raises InvalidBlobError if one has no length, or neither offset nor row.
        """
        inline = as_flags(self.inline) & as_flags(self.path.is_valid())
        nowhere = as_flags(self.offset.is_null()) & as_flags(self.row.is_null())
        wrong = inline & (nowhere | as_flags(self.length.is_null()))
        if wrong.any():
            path = self.path[int(np.argmax(wrong))].as_py()
            raise InvalidBlobError(
                f"a reference to an INLINE blob in '{path}' lacks its length, or both offset and row; "
                "use references as blob_references returns them"
            )


def lazy_pieces(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles, budget: int) -> Iterator[pa.StructArray]:
    """Yield the values of all references in order, as arrays of `PIECE_TYPE` with at most `budget` bytes.

    A value above the budget is a separate piece. A page of a base file is read once for each piece. `bases` holds the
    open base files. Raises BlobReadError if bytes cannot be read and the fetcher's `on_error` is ``"raise"``,
    InvalidBlobError if the fields of a reference contradict each other.
    """
    columns.check()
    files = fetcher.files()
    places = places_of(fetcher, columns.blobs(), Part(), files)
    columns = replace(columns, path=places.others(columns.path))
    for start, stop in cut(lazy_sizes(fetcher, columns, bases, files), budget):
        values = fetch_lazy(fetcher, columns.slice(start, stop), bases, files)
        yield places.slice(start, stop).piece(values)


def lazy_sizes(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles, files: BlobFiles) -> Ints:
    """Return how many bytes each reference will need, shape (n,); only references without length are looked up.

    Raises errors as `lazy_pieces` does.
    """
    open_end = as_flags(columns.path.is_valid()) & as_flags(columns.length.is_null())
    if not open_end.any() and columns.sizes.min(initial=0) >= 0:
        return columns.sizes  # no reference has to be resolved to know how many bytes it is
    try:
        sizes = fetcher.sizes(columns.blobs(), files=files)
    except BlobReadError:
        bases.require(_base_paths(columns))
        raise
    return np.where(columns.in_pages, columns.sizes, sizes)


def fetch_lazy(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles, files: BlobFiles) -> pa.BinaryArray:
    """Return the bytes of all references, planned together; raise errors as `lazy_pieces` does."""
    blobs = columns.blobs()
    if columns.in_pages.any():
        data = pa.array(_from_pages(fetcher, columns, bases), pa.binary())
        blobs = replace(blobs, data=data, kind=pc.if_else(data.is_valid(), pa.scalar(INLINE), blobs.kind))
    try:
        return fetcher.fetch(blobs, files=files)
    except BlobReadError:
        # If a base file is missing, its more specific error is raised instead.
        bases.require(_base_paths(columns))
        raise


def _base_paths(columns: LazyColumns) -> list[str]:
    paths: list[str] = columns.path.filter(columns.inline).drop_null().unique().to_pylist()
    return paths


def _from_pages(fetcher: BlobFetcher, columns: LazyColumns, bases: BaseFiles) -> list[bytes | None]:
    """Return the bytes of the rows that are in pages, None for other rows and for bytes that cannot be read.

    If the fetcher's `on_error` is ``"raise"``, raises BlobReadError or DataFileError for bytes that cannot be read.
    """
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
