"""A column of byte arrays in a Parquet file: the place of each row's bytes, and the bytes of single rows.

pyarrow decodes whole row groups; this module reads only the pages with the requested rows. Rare encodings and codecs
(delta encodings, old codecs) are left to pyarrow, one row group at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_vector.read.cache import ByteCache
from hudi_vector.read.parquet.chunks import (
    Chunk,
    Places,
    column_chunks,
    footer_bytes,
    footer_groups,
    page_headers,
    page_places,
)
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.read.parquet.pages import DICTIONARY_INDICES, PLAIN, Page, PageHeader, open_page, read_header
from hudi_vector.read.parquet.values import ByteSource, Window, plain_values, run_lengths
from hudi_vector.read.row_groups import read_group_batches

__all__ = ["ByteColumn", "Located", "PageRows"]

Ints = npt.NDArray[np.int64]

_FALLBACK_BATCH_ROWS = 64
_PAGE_BUFFER_BYTES = 1 << 20
_ABSENT = -1


@dataclass(frozen=True)
class Located:
    """The lengths and file offsets of the byte arrays of a row group, one entry for each row.

    Attributes:
        length: The number of bytes; −1 for NULL.
        offset: Where the bytes begin in the file; −1 if the file does not hold them as they are, because the value is
            NULL, in a compressed page or in a dictionary, or pyarrow reads the row group.
    """

    length: Ints
    offset: Ints


@dataclass(frozen=True)
class PageRows:
    """A page and some of its rows.

    Attributes:
        group: The number of the row group.
        begin: Where the page begins in the file.
        end: Where the page ends in the file; None means the whole row group, which pyarrow reads.
        first_row: The first row of the page, counted from the first row of the row group.
        rows: The rows, ascending, counted from the first row of the page.
    """

    group: int
    begin: int
    end: int | None
    first_row: int
    rows: Ints


@dataclass(frozen=True)
class _OpenedPage:
    """The values of a page as views, and for each row the number of its value, −1 for NULL."""

    place: Ints
    values: list[memoryview]
    plain_size: int

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory in bytes."""
        return self.plain_size + self.place.nbytes + 200 * len(self.values)

    def value(self, row: int) -> bytes | None:
        """Return the bytes of a row, or None for NULL."""
        place = self.place[row]
        return None if place == _ABSENT else bytes(self.values[place])


class ByteColumn:
    """One column of byte arrays of an open Parquet file.

    `leaf` is the column's path as in the footer; neither the column nor a parent may be repeated. `label` names the
    file in messages; `ahead` is the smallest read, in bytes, when a column is read in sequence. Methods raise
    DataFileError if the file contradicts its footer.
    """

    def __init__(self, source: Any, metadata: pq.FileMetaData, leaf: str, label: str, ahead: int) -> None:
        self._source: ByteSource = source
        self._file = source
        self._metadata = metadata
        self._leaf = leaf
        self._label = label
        self._ahead = ahead
        schema = metadata.schema
        self._number = next(i for i in range(len(schema)) if schema.column(i).path == leaf)
        self._depth: int = schema.column(self._number).max_definition_level
        self._pages: dict[int, Places] = {}
        self._dictionary: tuple[int, list[memoryview]] | None = None

    @property
    def groups(self) -> int:
        """Return the number of row groups of the file."""
        return len(self._chunks)

    @property
    def rows(self) -> int:
        """Return the number of rows of the file."""
        return int(self._metadata.num_rows)

    def locate(self, group: int) -> Located:
        """Find the lengths and file offsets of all rows of a row group.

        Long uncompressed values are skipped without reading them; compressed pages are read one at a time.
        """
        chunk = self._chunks[group]
        if not chunk.understood:
            return self._located_by_pyarrow(group)
        lengths, offsets = np.full(chunk.rows, _ABSENT, np.int64), np.full(chunk.rows, _ABSENT, np.int64)
        with reading(self._label):
            window = self._window(chunk)
            row = 0
            for header in page_headers(chunk, window):
                if not header.is_data:
                    continue
                page = open_page(window, header, self._codec(chunk), self._depth)
                begins, sizes = self._values(group, header, page)
                here = np.flatnonzero(page.valid) + row
                lengths[here] = sizes
                if page.in_file and header.encoding == PLAIN:
                    offsets[here] = begins
                row += header.values
        return Located(lengths, offsets)

    def pages(self, rows: Ints) -> list[PageRows]:
        """Find the pages that hold rows, given ascending row numbers in the file; each page comes with its rows."""
        found: list[PageRows] = []
        for group, chunk in enumerate(self._chunks):
            inside = rows[(rows >= chunk.first_row) & (rows < chunk.first_row + chunk.rows)] - chunk.first_row
            if not len(inside):
                continue
            if not chunk.understood:
                found.append(PageRows(group, chunk.begin, None, 0, inside))
                continue
            places = self._places(group)
            page = np.searchsorted(places.first_row, inside, side="right") - 1
            for number in np.unique(page).tolist():
                begin, end, first = places.of(number)
                found.append(PageRows(group, begin, end, first, inside[page == number] - first))
        return found

    def read(self, wanted: PageRows, cache: ByteCache | None = None) -> list[bytes | None]:
        """Return the bytes of rows of one page in the order of the rows, None for NULL.

        The page is read by one request, and kept in `cache` if given.
        """
        if wanted.end is None:
            return self._read_by_pyarrow(wanted)
        key = (self._label, self._leaf, wanted.begin)
        page: _OpenedPage | None = cache.get(key) if cache is not None else None
        with reading(self._label):
            if page is None:
                page = self._opened(wanted.group, wanted.begin, wanted.end)
                if cache is not None:
                    cache.put(key, page, page.nbytes)
            return [page.value(row) for row in wanted.rows.tolist()]

    def _opened(self, group: int, begin: int, end: int) -> _OpenedPage:
        window = Window(self._source, end, end - begin)
        header = read_header(window, begin)
        page = open_page(window, header, self._codec(self._chunks[group]), self._depth)
        place = np.where(page.valid, np.cumsum(page.valid) - 1, _ABSENT)
        if header.encoding in DICTIONARY_INDICES:
            held = self._held_in_dictionary(group)
            values = [held[number] for number in self._indices(header, page).tolist()]
        else:
            begins, sizes = self._values(group, header, page)
            values = [page.values.take(*where) for where in zip(begins.tolist(), sizes.tolist(), strict=True)]
        return _OpenedPage(place, values, header.plain_size)

    def _places(self, group: int) -> Places:
        """Return the places of the data pages of a row group, which are found once and kept."""
        found = self._pages.get(group)
        if found is None:
            with reading(self._label):
                found = page_places(self._source, self._footer, group, self._number, self._chunks[group], self._ahead)
            self._pages[group] = found
        return found

    @cached_property
    def _chunks(self) -> list[Chunk]:
        return column_chunks(self._metadata, self._number)

    @cached_property
    def _footer(self) -> list[Any]:
        return footer_groups(footer_bytes(self._metadata))

    def _values(self, group: int, header: PageHeader, page: Page) -> tuple[Ints, Ints]:
        """Return the begin (−1 if it is in a dictionary) and the length of each value of a page."""
        if header.encoding == PLAIN:
            return plain_values(page.values, page.begin, int(page.valid.sum()))
        if header.encoding not in DICTIONARY_INDICES:
            raise ValueError(f"a page has the encoding {header.encoding}, which the footer does not list")
        sizes = np.array([len(value) for value in self._held_in_dictionary(group)], np.int64)
        numbers = self._indices(header, page)
        return np.full(len(numbers), _ABSENT, np.int64), sizes[numbers]

    def _indices(self, header: PageHeader, page: Page) -> npt.NDArray[np.int32]:
        count = int(page.valid.sum())
        if not count:
            return np.empty(0, np.int32)
        end = header.end if page.in_file else page.values.end
        (width,) = page.values.take(page.begin, 1)
        return run_lengths(page.values.take(page.begin + 1, end - page.begin - 1), width, count)

    def _held_in_dictionary(self, group: int) -> list[memoryview]:
        """Return the values of a row group's dictionary; only the dictionary of the last group is kept."""
        kept = self._dictionary  # read once, because other threads may replace it
        if kept is None or kept[0] != group:
            chunk = self._chunks[group]
            window = self._window(chunk)
            header = read_header(window, chunk.begin)
            if not header.is_dictionary:
                raise ValueError("a page needs a dictionary, and there is none")
            # A dictionary page has no levels, so it is opened with depth 0, like a page of a required column.
            page = open_page(window, header, self._codec(chunk), 0)
            begins, sizes = plain_values(page.values, page.begin, header.values)
            held = [page.values.take(*place) for place in zip(begins.tolist(), sizes.tolist(), strict=True)]
            self._dictionary = kept = (group, held)
        return kept[1]

    def _window(self, chunk: Chunk) -> Window:
        return Window(self._source, chunk.end, self._ahead)

    def _codec(self, chunk: Chunk) -> pa.Codec | None:
        return None if chunk.codec is None else pa.Codec(chunk.codec)

    def _located_by_pyarrow(self, group: int) -> Located:
        with reading(self._label):
            parts = [np.asarray(pc.fill_null(pc.binary_length(values), _ABSENT)) for values in self._by_pyarrow(group)]
        lengths = np.concatenate(parts).astype(np.int64)
        return Located(lengths, np.full(len(lengths), _ABSENT, np.int64))

    def _read_by_pyarrow(self, wanted: PageRows) -> list[bytes | None]:
        found: list[bytes | None] = []
        done = 0
        with reading(self._label):
            for values in self._by_pyarrow(wanted.group):
                inside = wanted.rows[(wanted.rows >= done) & (wanted.rows < done + len(values))] - done
                found += values.take(pa.array(inside)).to_pylist()
                done += len(values)
        return found

    def _by_pyarrow(self, group: int) -> Iterator[pa.Array]:
        file = pq.ParquetFile(self._file, metadata=self._metadata, pre_buffer=False, buffer_size=_PAGE_BUFFER_BYTES)
        for batch in read_group_batches(file, group, [self._leaf], _FALLBACK_BATCH_ROWS):
            values = batch.column(0)
            while pa.types.is_struct(values.type):
                (values,) = values.flatten()
            yield values
