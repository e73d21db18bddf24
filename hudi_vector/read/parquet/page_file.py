"""Some rows of a large column: their pages as a Parquet file in memory that pyarrow decodes.

pyarrow cannot read single pages of a row group. But it reads a file with copies of some pages of one column and a
matching footer like any other file, whatever the column's type, encoding and codec are.
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
from hudi_vector.read.parquet.fetched import Range
from hudi_vector.read.parquet.kept_footer import footer_kept_of
from hudi_vector.read.parquet.thrift import STRUCT, Written, binary, i32, i64, listed, read_struct, struct_of
from hudi_vector.storage import scheme_of

__all__ = ["ColumnPages", "column_pages", "leaf_pages", "unread_index"]

Ints = npt.NDArray[np.int64]

_MAGIC = b"PAR1"
_HEADER_AHEAD = 16 << 10
# Single pages are read if the column up to the last of them has at least this many times their bytes: the first number
# for compressed pages, the second for uncompressed ones, which pyarrow reads in sequence quickly.
_PACKED, _PLAIN = 2, 6
# Field numbers of parquet.thrift: of SchemaElement, then of ColumnMetaData and ColumnChunk.
_REPETITION, _NAME, _CHILDREN = 3, 4, 5
_TYPE, _ENCODINGS, _PATH, _CODEC, _INDEX_OFFSET, _INDEX_LENGTH, _META = 1, 2, 3, 4, 4, 5, 3


@dataclass(frozen=True)
class ColumnPages:
    """A leaf column in one row group, with the places of its pages.

    `elements` are the encoded schema elements of the leaf, last, and of the structs around it, each with one child.
    `meta` is the leaf's column metadata by Thrift field number.
    """

    chunk: Chunk
    places: Places
    elements: tuple[bytes, ...]
    meta: dict[int, Any]

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory in bytes."""
        return 24 * len(self.places.begin) + sum(map(len, self.elements)) + 1024

    def pages_of(self, rows: Ints) -> Ints:
        """Return the distinct numbers, ascending, of the pages that hold the given rows of the row group."""
        numbers: Ints = np.unique(np.searchsorted(self.places.first_row, rows, side="right") - 1)
        return numbers

    def are_faster_read(self, rows: Ints) -> bool:
        """Return True if reading only the pages of the rows is faster than reading all pages up to the last of them."""
        pages = self.pages_of(rows)
        through = int(self.places.end[pages[-1]]) - self.chunk.begin
        return self.bytes_of(pages) * (_PLAIN if self.chunk.codec is None else _PACKED) <= through

    def bytes_of(self, pages: Ints) -> int:
        """Return the number of bytes to read for the pages, including the dictionary."""
        return int((self.places.end[pages] - self.places.begin[pages]).sum()) + self._dictionary_bytes

    @property
    def _dictionary_bytes(self) -> int:
        return int(self.places.begin[0]) - self.chunk.begin

    def rows(self, file: DataFile, rows: Ints) -> pa.Table:
        """Return the values of ascending rows of the row group as a table of one column, in the type of the file.

        A leaf within structs is returned within these structs, which have no other field. Raises DataFileError if the
        file is damaged.
        """
        pages = self.pages_of(rows)
        first = self.places.first_row
        counts = np.append(first[1:], self.chunk.rows)[pages] - first[pages]
        before = np.cumsum(counts) - counts
        place = np.searchsorted(first[pages], rows, side="right") - 1
        with reading(file.file.uri):
            made = self._file(self._read(file, pages), int(counts.sum()))
            file_of_pages = pq.ParquetFile(
                made, coerce_int96_timestamp_unit="us", pre_buffer=False, page_checksum_verification=True
            )
            held = file_of_pages.read(use_threads=False)
            return held.take(pa.array(rows - first[pages][place] + before[place]))

    def ranges(self, pages: Ints) -> list[Range]:
        """Return where the dictionary, if there is one, and the pages lie in the file; adjacent pages are one range."""
        begin, end = self.places.begin[pages], self.places.end[pages]
        apart = begin[1:] != end[:-1]
        begins, ends = begin[np.append(True, apart)].tolist(), end[np.append(apart, True)].tolist()
        dictionary = [(self.chunk.begin, int(self.places.begin[0]))] if self._dictionary_bytes else []
        return [*dictionary, *zip(begins, ends, strict=True)]

    def _read(self, file: DataFile, pages: Ints) -> list[bytes]:
        """Return the bytes of the dictionary, if there is one, and of the pages.

        Raises EOFError if the file is too short.
        """
        ranges = self.ranges(pages)
        with file.ahead(ranges):
            pieces = [file.source().read_at(end - begin, begin) for begin, end in ranges]
        if sum(map(len, pieces)) < self.bytes_of(pages):
            raise EOFError
        return pieces

    def _file(self, pieces: Sequence[bytes], rows: int) -> pa.BufferReader:
        """Return a Parquet file with one column and `rows` rows that consists of these pages."""
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
        schema = listed([root, *(Written(STRUCT, element) for element in self.elements)])
        footer = struct_of({1: i32(2), 2: schema, 3: i64(rows), 4: listed([group])}).data
        return pa.BufferReader(b"".join([_MAGIC, *pieces, footer, struct.pack("<I", len(footer)), _MAGIC]))


def column_pages(file: DataFile, name: str, group: int) -> ColumnPages | None:
    """Return the pages of a column in a row group, through the process cache.

    Return None if the column is missing, nested or repeated, if the row group is empty, or if the file is not local and
    has no page index. Raises DataFileError if the file is damaged.
    """
    schema = file.metadata.schema
    number = next((i for i in range(len(schema)) if schema.column(i).path == name), None)
    found = None if number is None else leaf_pages(file, number, group)
    return found if found is not None and len(found.elements) == 1 else None


def unread_index(file: DataFile, name: str, group: int) -> list[Range] | None:
    """Return where the page index lies that `column_pages` would read; nothing where it is in memory.

    Return None if there are no pages to find: the column is missing, nested or repeated, or the file has no index.
    """
    schema = file.metadata.schema
    number = next((i for i in range(len(schema)) if schema.column(i).path == name), None)
    if number is None or schema.column(number).max_repetition_level:
        return None
    column = file.groups[group][1][number]
    offset, size = column.get(_INDEX_OFFSET), column.get(_INDEX_LENGTH)
    if not offset or not size:
        return None
    at_hand = footer_kept_of(file.file) or process_cache().get((file.file, "leaf pages", number, group))
    return [] if at_hand else [(offset, offset + size)]


def leaf_pages(file: DataFile, number: int, group: int) -> ColumnPages | None:
    """Return the pages of the leaf column with this number in a row group, through the process cache.

    Return None if the leaf is within a list or map, if the row group is empty, or if the file is not local and has no
    page index. Raises DataFileError if the file is damaged.
    """
    key = (file.file, "leaf pages", number, group)
    found: tuple[ColumnPages | None] | None = process_cache().get(key)
    if found is None:
        with reading(file.file.uri):
            found = (_leaf_pages(file, number, group),)
        process_cache().put(key, found, found[0].nbytes if found[0] else 64)
    return found[0]


def _leaf_pages(file: DataFile, number: int, group: int) -> ColumnPages | None:
    if file.metadata.schema.column(number).max_repetition_level:
        return None
    column = file.groups[group][1][number]
    # Without a page index, finding a few pages takes reading all page headers in turn: too slow for remote files.
    if not column.get(_INDEX_OFFSET) and scheme_of(file.file.uri) != "file":
        return None
    elements = _elements(file.schema_elements, number)
    chunk = column_chunks(file.metadata, number)[group]
    places = page_places(file.page_index(), file.groups, group, number, chunk, _HEADER_AHEAD)
    return ColumnPages(chunk, places, elements, column[_META]) if chunk.rows else None


def _elements(elements: Sequence[bytes], number: int) -> tuple[bytes, ...]:
    """Return the encoded schema elements of the leaf with this number and of the structs around it, outermost first.

    The structs have one child. Raises LookupError if there is no such leaf.
    """
    around: list[tuple[dict[int, Any], int]] = []  # the structs that are open, and how many children are left of each
    leaf = -1
    for element in elements[1:]:
        while around and not around[-1][1]:
            around.pop()
        if around:
            around[-1] = (around[-1][0], around[-1][1] - 1)
        fields = read_struct(element)[0]
        if fields.get(_CHILDREN):
            around.append((fields, fields[_CHILDREN]))
            continue
        leaf += 1
        if leaf == number:
            return (*(_of_one_child(struct) for struct, _ in around), element)
    raise LookupError(f"the footer has no leaf column {number}")


def _of_one_child(fields: dict[int, Any]) -> bytes:
    kept = {_REPETITION: i32(fields[_REPETITION]), _NAME: binary(fields[_NAME]), _CHILDREN: i32(1)}
    return struct_of(kept).data
