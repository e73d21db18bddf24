"""Column chunks of a Parquet file, and the places of their pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.read.parquet.pages import PageHeader, read_header
from hudi_vector.read.parquet.thrift import read_struct
from hudi_vector.read.parquet.values import ByteSource, Window

__all__ = ["Chunk", "Places", "column_chunks", "footer_bytes", "footer_groups", "page_headers", "page_places"]

Ints = npt.NDArray[np.int64]

_CODECS = frozenset({"SNAPPY", "GZIP", "ZSTD", "BROTLI"})
_PLAIN_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED"})  # PLAIN for values, the others for levels
_ENCODINGS = _PLAIN_ENCODINGS | {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}


@dataclass(frozen=True)
class Chunk:
    """A column in one row group.

    Attributes:
        begin: Where the pages begin in the file.
        end: Where the pages end in the file.
        rows: The number of rows.
        first_row: The first row, counted from the first row of the file.
        codec: The codec in lower case; None if nothing is compressed.
        understood: Whether this package can read the pages; pyarrow reads other chunks.
        plain: Whether all values have the encoding PLAIN, without a dictionary.
        nulls: The number of NULL rows; None if the footer does not have it.
    """

    begin: int
    end: int
    rows: int
    first_row: int
    codec: str | None
    understood: bool
    plain: bool
    nulls: int | None


@dataclass(frozen=True)
class Places:
    """The begins and ends of a chunk's data pages in the file, and their first rows, from the chunk's first row."""

    begin: Ints
    end: Ints
    first_row: Ints

    def of(self, number: int) -> tuple[int, int, int]:
        """Return begin, end and first row of a page."""
        return int(self.begin[number]), int(self.end[number]), int(self.first_row[number])


def column_chunks(metadata: pq.FileMetaData, number: int) -> list[Chunk]:
    """Return the chunks, one for each row group, of the leaf column with this number."""
    chunks, first = [], 0
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(number)
        begin = column.dictionary_page_offset or column.data_page_offset
        codec = None if column.compression == "UNCOMPRESSED" else column.compression
        chunks.append(
            Chunk(
                begin=begin,
                end=begin + column.total_compressed_size,
                rows=column.num_values,
                first_row=first,
                codec=None if codec is None else codec.lower(),
                understood=set(column.encodings) <= _ENCODINGS and (codec is None or codec in _CODECS),
                plain=set(column.encodings) <= _PLAIN_ENCODINGS and not column.has_dictionary_page,
                nulls=_nulls(column.statistics),
            )
        )
        first += column.num_values
    return chunks


def footer_groups(footer: bytes) -> list[Any]:
    """Return each ``RowGroup`` of a footer from `footer_bytes` as a dictionary by field number.

    pyarrow does not expose where page indexes are.
    """
    groups: list[Any] = read_struct(footer)[0].get(4, [])
    return groups


def footer_bytes(metadata: pq.FileMetaData) -> bytes:
    """Return the footer as a Parquet ``FileMetaData`` in Thrift's compact protocol; more bytes may follow it."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer: bytes = sink.getvalue().to_pybytes()[4:]
    return footer


def page_places(source: ByteSource, groups: Sequence[Any], group: int, number: int, chunk: Chunk, ahead: int) -> Places:
    """Find the data pages of a chunk by the page index of the file or, without an index, by the page headers.

    `groups` is the result of `footer_groups`, `number` the number of the leaf column, and `ahead` the smallest read, in
    bytes, when headers are read in sequence. Raises EOFError if the chunk ends before its last page does, and
    ValueError if pages are not where they should be.
    """
    return _indexed_places(source, groups[group][1][number]) or _walked_places(chunk, Window(source, chunk.end, ahead))


def page_headers(chunk: Chunk, window: Window) -> Iterator[PageHeader]:
    """Yield the headers of a chunk's pages, including the dictionary, up to the page with the last row."""
    at, row = chunk.begin, 0
    while row < chunk.rows:
        header = read_header(window, at)
        row += header.values if header.is_data else 0
        yield header
        at = header.end


def _indexed_places(source: ByteSource, column: dict[int, Any]) -> Places | None:
    """Return the pages in the page index, read by one request; None if the file has no index."""
    offset, size = column.get(4), column.get(5)
    if not offset or not size:
        return None
    pages = read_struct(source.read_at(size, offset))[0].get(1, [])
    return _places([(page[1], page[1] + page[2], page[3]) for page in pages]) if pages else None


def _walked_places(chunk: Chunk, window: Window) -> Places:
    places, row, begin = [], 0, chunk.begin
    for header in page_headers(chunk, window):
        if header.is_data:
            places.append((begin, header.end, row))
            row += header.values
        begin = header.end
    return _places(places)


def _nulls(statistics: pq.Statistics | None) -> int | None:
    return statistics.null_count if statistics is not None and statistics.has_null_count else None


def _places(pages: Sequence[tuple[int, int, int]]) -> Places:
    return Places(*np.array(pages, np.int64).reshape(-1, 3).T)
