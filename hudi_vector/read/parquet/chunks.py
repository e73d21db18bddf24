"""A column in the row groups of a Parquet file, and where its pages lie."""

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
_PLAIN_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED"})  # values plain, levels in runs
_ENCODINGS = _PLAIN_ENCODINGS | {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}


@dataclass(frozen=True)
class Chunk:
    """A column in one row group: where its pages begin and end in the file, and which rows it has.

    `codec` is None where nothing is compressed. `understood` says whether its pages are read here; pyarrow reads the
    others. `plain` says that no value is in a dictionary, `nulls` how many rows are NULL, None where the footer is
    silent.
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
                plain=set(column.encodings) <= _PLAIN_ENCODINGS and not column.has_dictionary_page,
                nulls=_nulls(column.statistics),
            )
        )
        first += column.num_values
    return chunks


def footer_groups(footer: bytes) -> list[Any]:
    """The row groups as a footer has them, by field number: pyarrow does not show where page indexes are.

    Args:
        footer: What `footer_bytes` gives.

    Returns:
        A ``RowGroup`` of the Parquet format for each.
    """
    groups: list[Any] = read_struct(footer)[0].get(4, [])
    return groups


def footer_bytes(metadata: pq.FileMetaData) -> bytes:
    """The footer as Thrift's compact protocol has it.

    Args:
        metadata: The footer.

    Returns:
        A ``FileMetaData`` of the Parquet format; bytes may follow it.
    """
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer: bytes = sink.getvalue().to_pybytes()[4:]
    return footer


def page_places(source: ByteSource, groups: Sequence[Any], group: int, number: int, chunk: Chunk, ahead: int) -> Places:
    """Where the data pages of a chunk are: by the file's page index, or else by the headers before the pages.

    Args:
        source: The file.
        groups: What `footer_groups` gives.
        group: The row group.
        number: The column's place in it.
        chunk: The column in this row group.
        ahead: The fewest bytes of one read where headers are gone through.

    Returns:
        The places.

    Raises:
        EOFError: The chunk ends before its last page does.
        ValueError: There are no pages where they should be.
    """
    return _indexed_places(source, groups[group][1][number]) or _walked_places(chunk, Window(source, chunk.end, ahead))


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


def _indexed_places(source: ByteSource, column: dict[int, Any]) -> Places | None:
    """By the page index, read by one request; None where the file has none."""
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
