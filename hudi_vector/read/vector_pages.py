"""Vectors of chosen rows of a Parquet file, read with the pages that hold them and nothing else.

A VECTOR is a fixed number of bytes (RFC-99). Where pages are not compressed and no row is NULL, a row lies at a place
that the page index tells; elsewhere its page is read, and kept decompressed in the process's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector import options
from hudi_vector.read.cache import ByteCache, process_cache
from hudi_vector.read.data_file import DataFile, reading
from hudi_vector.read.parquet_chunks import Chunk, Places, column_chunks, footer_groups, page_places
from hudi_vector.read.parquet_pages import PLAIN, open_page, read_header
from hudi_vector.read.parquet_values import Window
from hudi_vector.storage import scheme_of
from hudi_vector.storage.ranges import MAX_READ, OBJECT_STORE_MAX_GAP, Reads, plan_reads

__all__ = ["ChosenRows", "PagedChunk", "RangeReads", "VectorPages", "paged_chunks"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_LOCAL_MAX_GAP = 4 << 10
_OBJECT_STORE_THREADS = 16
_HEADER_AHEAD = 16 << 10


@dataclass(frozen=True)
class RangeReads:
    """How ranges of a file are read: what lies between two that become one read, and by how many threads.

    0 stands for what suits where the file lies.
    """

    max_gap: int = 0
    threads: int = 0

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> RangeReads:
        """What settings say.

        Args:
            conf: Settings, as text.
        """
        return cls(options.INDEX_READ_MAX_GAP.read(conf), options.INDEX_READ_THREADS.read(conf))

    def at(self, uri: str) -> RangeReads:
        """The same with numbers for a file at this place."""
        local = scheme_of(uri) == "file"
        gap = self.max_gap or (_LOCAL_MAX_GAP if local else OBJECT_STORE_MAX_GAP)
        return RangeReads(gap, self.threads or (1 if local else _OBJECT_STORE_THREADS))


@dataclass(frozen=True)
class PagedChunk:
    """A column of vectors in one row group whose pages are read here. `width` is the bytes of a vector."""

    chunk: Chunk
    places: Places
    depth: int
    width: int

    @property
    def is_direct(self) -> bool:
        """Whether the bytes of every row lie at a place in the file that is known without its page."""
        return self.chunk.codec is None and (self.depth == 0 or self.chunk.nulls == 0)


@dataclass(frozen=True)
class ChosenRows:
    """What was read: the bytes of those rows that are not NULL, shape (v, width), and which rows those are, (n,)."""

    values: Bytes
    valid: npt.NDArray[np.bool_]
    bytes_read: int


@dataclass(frozen=True)
class _OpenedPage:
    """A page's values, shape (v, width), and which of its rows have one; None for all."""

    values: Bytes
    valid: npt.NDArray[np.bool_] | None

    def take(self, rows: Ints) -> tuple[Bytes, npt.NDArray[np.bool_]]:
        """The values of some rows, and which of the rows have one."""
        if self.valid is None:
            return self.values[rows], np.ones(len(rows), np.bool_)
        valid = self.valid[rows]
        return self.values[(np.cumsum(self.valid) - 1)[rows[valid]]], valid

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes) + 256


def paged_chunks(file: DataFile, column: str, width: int) -> tuple[PagedChunk | None, ...]:
    """The page table of a column of vectors, kept in the process's cache.

    Args:
        file: The file.
        column: The column.
        width: The bytes of a vector.

    Returns:
        An entry for each row group: None where there is no such column, where vectors are lists, or stored in another
        width, by a dictionary, or by a codec or an encoding that is left to pyarrow.

    Raises:
        DataFileError: The file is damaged.
    """
    key = (file.file, "pages", column, width)
    found: tuple[PagedChunk | None, ...] | None = process_cache().get(key)
    if found is None:
        with reading(file.file.uri):
            found = _paged_chunks(file, column, width)
        pages = sum(len(entry.places.begin) for entry in found if entry is not None)
        process_cache().put(key, found, 24 * pages + 512 * len(found))
    return found


def _paged_chunks(file: DataFile, column: str, width: int) -> tuple[PagedChunk | None, ...]:
    metadata = file.metadata
    schema = metadata.schema
    by_pyarrow: tuple[None, ...] = (None,) * int(metadata.num_row_groups)
    number = next((i for i in range(len(schema)) if schema.column(i).path == column), None)
    if number is None:
        return by_pyarrow
    leaf = schema.column(number)
    if leaf.physical_type != "FIXED_LEN_BYTE_ARRAY" or leaf.length != width or leaf.max_repetition_level:
        return by_pyarrow
    chunks = column_chunks(metadata, number)
    groups = footer_groups(metadata) if any(chunk.plain and chunk.understood for chunk in chunks) else []
    return tuple(
        PagedChunk(
            chunk,
            page_places(file.source(), groups, group, number, chunk, _HEADER_AHEAD),
            leaf.max_definition_level,
            width,
        )
        if chunk.plain and chunk.understood and chunk.rows
        else None
        for group, chunk in enumerate(chunks)
    )


class VectorPages:
    """The pages of one column of vectors in one row group.

    Args:
        file: The file.
        paged: Where its pages are.
        reads: How ranges are read.
        cache: Where decompressed pages are kept; without it they are not.
    """

    def __init__(self, file: DataFile, paged: PagedChunk, reads: RangeReads, cache: ByteCache | None) -> None:
        self._file = file
        self._paged = paged
        self._reads = reads.at(file.file.uri)
        self._cache = cache

    def rows(self, rows: Ints) -> ChosenRows:
        """The vectors of some rows.

        Args:
            rows: Rows of the row group, from its first, ascending; each once.

        Returns:
            Their vectors.

        Raises:
            DataFileError: The file is damaged.
        """
        with reading(self._file.file.uri):
            return self._direct(rows) if self._paged.is_direct else self._by_page(rows)

    def _direct(self, rows: Ints) -> ChosenRows:
        """Rows that lie at known places: the values of a page are its last bytes."""
        places, width = self._paged.places, self._paged.width
        page = _page_of(places, rows)
        last_row = np.append(places.first_row[1:], self._paged.chunk.rows)[page]
        begin = places.end[page] - (last_row - rows) * width
        if (begin < places.begin[page]).any():
            raise ValueError("a page is shorter than its rows")
        target = np.arange(len(rows), dtype=np.int64) * width
        plan = self._plan(begin, np.full(len(rows), width), target, MAX_READ)
        values = np.empty(len(rows) * width, np.uint8)

        def copy(read: int) -> None:
            at, length = int(plan.offset[read]), int(plan.length[read])
            held = np.frombuffer(self._window(at, length).take(at, length), np.uint8)
            for run in range(int(plan.first_run[read]), int(plan.first_run[read + 1])):
                source, goes, size = plan.run_source[run] - at, plan.run_target[run], plan.run_size[run]
                values[goes : goes + size] = held[source : source + size]

        for _ in self._each(copy, range(len(plan))):
            pass
        return ChosenRows(values.reshape(-1, width), np.ones(len(rows), np.bool_), int(plan.length.sum()))

    def _by_page(self, rows: Ints) -> ChosenRows:
        places = self._paged.places
        page = _page_of(places, rows)
        numbers = np.unique(page)
        opened = {number: found for number in numbers.tolist() if (found := self._kept(number)) is not None}
        absent = np.array([number for number in numbers.tolist() if number not in opened], np.int64)
        begins, sizes = places.begin[absent], places.end[absent] - places.begin[absent]
        # No page is cut into several reads, however large it is.
        plan = self._plan(begins, sizes, np.cumsum(sizes) - sizes, int(places.end[-1]))

        def read(index: int) -> list[tuple[int, _OpenedPage]]:
            window = self._window(int(plan.offset[index]), int(plan.length[index]))
            return [(int(absent[row]), self._opened(window, int(absent[row]))) for row in plan.rows(index)]

        for found in self._each(read, range(len(plan))):
            opened.update(found)
        taken = [opened[number].take(rows[page == number] - places.first_row[number]) for number in numbers.tolist()]
        return ChosenRows(
            np.concatenate([values for values, _ in taken]),
            np.concatenate([valid for _, valid in taken]),
            int(plan.length.sum()),
        )

    def _opened(self, window: Window, number: int) -> _OpenedPage:
        paged = self._paged
        header = read_header(window, int(paged.places.begin[number]))
        if header.encoding != PLAIN:
            raise ValueError(f"a page has the encoding {header.encoding}, and the footer does not say so")
        # One for each page: threads must not share it.
        codec = None if paged.chunk.codec is None else pa.Codec(paged.chunk.codec)
        page = open_page(window, header, codec, paged.depth)
        count = int(page.valid.sum())
        raw = np.frombuffer(page.values.take(page.begin, count * paged.width), np.uint8)
        opened = _OpenedPage(raw.reshape(count, paged.width), None if page.valid.all() else page.valid)
        # What lies in the file as it is costs nothing to read again.
        if self._cache is not None and not page.in_file:
            self._cache.put(self._key(number), opened, opened.nbytes)
        return opened

    def _kept(self, number: int) -> _OpenedPage | None:
        return None if self._cache is None else self._cache.get(self._key(number))

    def _key(self, number: int) -> tuple[object, ...]:
        return (self._file.file, "page", self._paged.width, int(self._paged.places.begin[number]))

    def _plan(self, begin: Ints, size: Ints, target: Ints, largest: int) -> Reads:
        file = np.zeros(len(begin), np.int64)
        return plan_reads(file, begin, size, target, max_gap=self._reads.max_gap, max_read=largest)

    def _window(self, begin: int, size: int) -> Window:
        mapped = self._file.mapped()
        return Window(self._file.source(), begin + size, size) if mapped is None else Window.over(mapped)

    def _each(self, work: Callable[[int], Any], items: Iterable[int]) -> Iterable[Any]:
        threads = self._reads.threads
        return map(work, items) if threads == 1 else _pool(threads).map(work, items)


def _page_of(places: Places, rows: Ints) -> Ints:
    found: Ints = np.searchsorted(places.first_row, rows, side="right") - 1
    return found


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    # Apart from the threads that search slices, which wait for these.
    return ThreadPoolExecutor(threads, thread_name_prefix="hudi-vector-read")
