"""Some rows of a large column: the pages that hold them, as a Parquet file in memory that pyarrow decodes.

pyarrow has no way to read one page of a row group. A file that holds copies of some pages of one column, with a footer
that says so, it reads as any other, whatever the column's type, encoding and codec are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.chunks import Chunk, Places, column_chunks, page_places
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.thrift import STRUCT, Written, binary, i32, i64, listed, read_struct, struct_of
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.storage import scheme_of

__all__ = ["ColumnPages", "column_pages"]

Ints = npt.NDArray[np.int64]

_MAGIC = b"PAR1"
_HEADER_AHEAD = 16 << 10
# So many times the pages' bytes must lie in a column up to the last of them: pyarrow runs through plain values.
_PACKED, _PLAIN = 2, 6
# Names of the format's fields, in its order (parquet.thrift).
_NAME, _CHILDREN = 4, 5
_TYPE, _ENCODINGS, _PATH, _CODEC, _INDEX_OFFSET, _META = 1, 2, 3, 4, 4, 3


@dataclass(frozen=True)
class ColumnPages:
    """A column in one row group: where its pages are, and what footers say of the column.

    `element` is the column's entry in the schema, as the file has it, `meta` what the footer says of its values.
    """

    chunk: Chunk
    places: Places
    element: bytes
    meta: dict[int, Any]

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return 24 * len(self.places.begin) + len(self.element) + 1024

    def pages_of(self, rows: Ints) -> Ints:
        """The numbers of the pages that hold rows of the row group, ascending, each once."""
        numbers: Ints = np.unique(np.searchsorted(self.places.first_row, rows, side="right") - 1)
        return numbers

    def are_sooner_read(self, rows: Ints) -> bool:
        """Whether the pages of some rows are read sooner than all pages up to the last of them."""
        pages = self.pages_of(rows)
        through = int(self.places.end[pages[-1]]) - self.chunk.begin
        return self.bytes_of(pages) * (_PLAIN if self.chunk.codec is None else _PACKED) <= through

    def bytes_of(self, pages: Ints) -> int:
        """How many bytes have to be read for some pages, the dictionary among them."""
        return int((self.places.end[pages] - self.places.begin[pages]).sum()) + self._dictionary_bytes

    @property
    def _dictionary_bytes(self) -> int:
        return int(self.places.begin[0]) - self.chunk.begin

    def rows(self, file: DataFile, rows: Ints, reads: RangeReads) -> pa.Table:
        """The values of some rows.

        Args:
            file: The file.
            rows: Rows of the row group, from its first, ascending.
            reads: How ranges of the file are read.

        Returns:
            The column, in the file's own type.

        Raises:
            DataFileError: The file is damaged.
        """
        pages = self.pages_of(rows)
        first = self.places.first_row
        counts = np.append(first[1:], self.chunk.rows)[pages] - first[pages]
        before = np.cumsum(counts) - counts
        place = np.searchsorted(first[pages], rows, side="right") - 1
        with reading(file.file.uri):
            made = self._file(self._read(file, pages, reads.at(file.file.uri)), int(counts.sum()))
            file_of_pages = pq.ParquetFile(
                made, coerce_int96_timestamp_unit="us", pre_buffer=False, page_checksum_verification=True
            )
            held = file_of_pages.read(use_threads=False)
            return held.take(pa.array(rows - first[pages][place] + before[place]))

    def _read(self, file: DataFile, pages: Ints, reads: RangeReads) -> list[bytes]:
        """The dictionary's bytes, if there is one, and those of the pages, neighbours by one read."""
        begin, end = self.places.begin[pages], self.places.end[pages]
        apart = begin[1:] != end[:-1]
        begins, ends = begin[np.append(True, apart)].tolist(), end[np.append(apart, True)].tolist()
        if self._dictionary_bytes:
            begins, ends = [self.chunk.begin, *begins], [int(self.places.begin[0]), *ends]
        source = file.source()
        pieces = list(reads.each(lambda i: source.read_at(ends[i] - begins[i], begins[i]), range(len(begins))))
        if sum(map(len, pieces)) < self.bytes_of(pages):
            raise EOFError
        return pieces

    def _file(self, pieces: Sequence[bytes], rows: int) -> pa.BufferReader:
        """A Parquet file of one column that has these pages."""
        size = sum(map(len, pieces))
        dictionary = {11: i64(len(_MAGIC))} if self._dictionary_bytes else {}
        meta = struct_of(
            {
                _TYPE: i32(self.meta[_TYPE]),
                _ENCODINGS: listed([i32(encoding) for encoding in self.meta[_ENCODINGS]]),
                _PATH: listed([binary(part) for part in self.meta[_PATH]]),
                _CODEC: i32(self.meta[_CODEC]),
                5: i64(rows),
                6: i64(size),
                7: i64(size),
                9: i64(len(_MAGIC) + self._dictionary_bytes),
            }
            | dictionary
        )
        group = struct_of({1: listed([struct_of({2: i64(0), 3: meta})]), 2: i64(size), 3: i64(rows)})
        root = struct_of({_NAME: binary(b"schema"), _CHILDREN: i32(1)})
        schema = listed([root, Written(STRUCT, self.element)])
        footer = struct_of({1: i32(2), 2: schema, 3: i64(rows), 4: listed([group])}).data
        return pa.BufferReader(b"".join([_MAGIC, *pieces, footer, struct.pack("<I", len(footer)), _MAGIC]))


def column_pages(file: DataFile, name: str, group: int) -> ColumnPages | None:
    """Where the pages of a column lie, kept in the process's cache.

    Args:
        file: The file.
        name: The column.
        group: The row group.

    Returns:
        The pages, or None where the column is nested, or the file lies far away and has no index of pages.

    Raises:
        DataFileError: The file is damaged.
    """
    key = (file.file, "column pages", name, group)
    found: tuple[ColumnPages | None] | None = process_cache().get(key)
    if found is None:
        with reading(file.file.uri):
            found = (_column_pages(file, name, group),)
        process_cache().put(key, found, found[0].nbytes if found[0] else 64)
    return found[0]


def _column_pages(file: DataFile, name: str, group: int) -> ColumnPages | None:
    schema = file.metadata.schema
    number = next((i for i in range(len(schema)) if schema.column(i).path == name), None)
    if number is None or schema.column(number).max_repetition_level:
        return None
    column = file.groups[group][1][number]
    # Without an index the headers of all pages are read for a few of them: not one after the other from far away.
    known = column.get(_INDEX_OFFSET) or scheme_of(file.file.uri) == "file"
    element = _element(file.schema_elements, name.encode()) if known else None
    if element is None:
        return None
    chunk = column_chunks(file.metadata, number)[group]
    places = page_places(file.source(), file.groups, group, number, chunk, _HEADER_AHEAD)
    return ColumnPages(chunk, places, element, column[_META]) if chunk.rows else None


def _element(elements: Sequence[bytes], name: bytes) -> bytes | None:
    """The schema's entry of a column that stands at the top and has no children."""
    below = 0
    for element in elements[1:]:
        fields = read_struct(element)[0]
        children = fields.get(_CHILDREN) or 0
        if not below and not children and fields[_NAME] == name:
            return element
        below = max(0, below - 1) + children
    return None
