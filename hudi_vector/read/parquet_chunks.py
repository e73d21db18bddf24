"""A column in the row groups of a Parquet file, and where its pages lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.read.parquet_pages import PageHeader, read_header
from hudi_vector.read.parquet_values import ByteSource, Window
from hudi_vector.read.thrift import read_struct

__all__ = ["Chunk", "Places", "column_chunks", "footer_groups", "indexed_places", "page_headers", "walked_places"]

Ints = npt.NDArray[np.int64]

_CODECS = frozenset({"SNAPPY", "GZIP", "ZSTD", "BROTLI"})
_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})


@dataclass(frozen=True)
class Chunk:
    """A column in one row group: where its pages begin and end in the file, and which rows it has.

    `codec` is None where nothing is compressed. `understood` says whether `hudi_vector.read.byte_column` reads its
    pages; pyarrow reads the others.
    """

    begin: int
    end: int
    rows: int
    first_row: int
    codec: str | None
    understood: bool


@dataclass(frozen=True)
class Places:
    """Where the data pages of a chunk begin and end in the file, and the first row of each, from the chunk's first."""

    begin: Ints
    end: Ints
    first_row: Ints

    def of(self, number: int) -> tuple[int, int, int]:
        """Begin, end and first row of a page."""
        return int(self.begin[number]), int(self.end[number]), int(self.first_row[number])


def column_chunks(metadata: pq.FileMetaData, number: int) -> list[Chunk]:
    """A column's chunks, one for each row group.

    Args:
        metadata: The file's footer.
        number: The column's place in it.

    Returns:
        The chunks.
    """
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
            )
        )
        first += column.num_values
    return chunks


def footer_groups(metadata: pq.FileMetaData) -> list[Any]:
    """The row groups as the footer has them, by field number: pyarrow does not show where page indexes are."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    groups: list[Any] = read_struct(sink.getvalue().to_pybytes(), 4)[0].get(4, [])
    return groups


def indexed_places(source: ByteSource, groups: Sequence[Any], group: int, number: int) -> Places | None:
    """Where the pages of a chunk are, by the file's page index.

    Args:
        source: The file.
        groups: What `footer_groups` gives.
        group: The row group.
        number: The column's place in it.

    Returns:
        The places, read by one request, or None where the file has no index.
    """
    column = groups[group][1][number]
    offset, size = column.get(4), column.get(5)
    if not offset or not size:
        return None
    pages = read_struct(source.read_at(size, offset))[0].get(1, [])
    return _places([(page[1], page[1] + page[2], page[3]) for page in pages]) if pages else None


def walked_places(chunk: Chunk, window: Window) -> Places:
    """Where the pages of a chunk are, by the headers before them.

    Args:
        chunk: The chunk.
        window: Its bytes.

    Returns:
        The places.
    """
    places, row, begin = [], 0, chunk.begin
    for header in page_headers(chunk, window):
        if header.is_data:
            places.append((begin, header.end, row))
            row += header.values
        begin = header.end
    return _places(places)


def page_headers(chunk: Chunk, window: Window) -> Iterator[PageHeader]:
    """The headers of a chunk's pages, up to the one with its last row.

    Args:
        chunk: The chunk.
        window: Its bytes.

    Yields:
        Headers, of a dictionary too.
    """
    at, row = chunk.begin, 0
    while row < chunk.rows:
        header = read_header(window, at)
        row += header.values if header.is_data else 0
        yield header
        at = header.end


def _places(pages: Sequence[tuple[int, int, int]]) -> Places:
    return Places(*np.array(pages, np.int64).reshape(-1, 3).T)
