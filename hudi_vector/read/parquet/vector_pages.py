"""Vectors of selected rows of a Parquet file, read from the pages that hold them and nothing else.

A VECTOR has a fixed number of bytes (RFC-99). If no row is NULL, the place of a row in an uncompressed page follows
from the page index; the same holds for a page in which Snappy found nothing to compress. Other pages are read whole,
and kept decompressed in the process cache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector import options
from hudi_vector.read.cache import ByteCache
from hudi_vector.read.parquet.chunks import Places
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.page_table import PagedChunk
from hudi_vector.read.parquet.pages import PLAIN, PageHeader, open_page, read_header
from hudi_vector.read.parquet.snappy_literals import Literals, page_literals, ranges_of
from hudi_vector.read.parquet.values import Window
from hudi_vector.storage import parallel, scheme_of
from hudi_vector.storage.ranges import MAX_READ, OBJECT_STORE_MAX_GAP, Reads, plan_reads, usual_gap

__all__ = ["ChosenRows", "RangeReads", "VectorPages"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_LOCAL_MAX_GAP = 4 << 10
_SNAPPY = "snappy"
_PEEK = 256
_FEW_RANGES = 16
_MANY_RANGES = 64  # from this many ranges on, mapping a local file and copying in one call is faster than reading


@dataclass(frozen=True)
class RangeReads:
    """Settings for reading ranges of a file.

    Attributes:
        max_gap: The largest gap in bytes between two ranges that are joined to one read; 0 for the default.
        threads: The number of threads; 0 for the default: those of `parallel.each` on an object store, else one.
    """

    max_gap: int = 0
    threads: int = 0

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> RangeReads:
        """Read the values from settings in text form."""
        return cls(options.INDEX_READ_MAX_GAP.read(conf), options.INDEX_READ_THREADS.read(conf))

    def at(self, uri: str) -> RangeReads:
        """Return a copy with the defaults for local files or for object stores."""
        local = scheme_of(uri) == "file"
        gap = self.max_gap or (_LOCAL_MAX_GAP if local else OBJECT_STORE_MAX_GAP)
        return RangeReads(gap, self.threads or int(local))

    def each(self, work: Callable[[int], Any], items: Iterable[int]) -> Iterable[Any]:
        """Map a function over numbers with these threads; results keep the order of the numbers."""
        if not self.threads:
            return parallel.each(work, items)
        # Separate threads: those that search file slices wait for these.
        threads = parallel.threads_named("hudi-vector-read", self.threads) if self.threads > 1 else None
        return threads.map(work, items) if threads else map(work, items)


@dataclass(frozen=True)
class ChosenRows:
    """The result of a read: the bytes of the rows that are not NULL, shape (v, width), and their mask, shape (n,)."""

    values: Bytes
    valid: npt.NDArray[np.bool_]
    bytes_read: int


@dataclass(frozen=True)
class _OpenedPage:
    """The values of a page, shape (v, width), and a mask of its rows that have one; None if all rows do."""

    values: Bytes
    valid: npt.NDArray[np.bool_] | None

    def take(self, rows: Ints) -> tuple[Bytes, npt.NDArray[np.bool_]]:
        """Return the values of rows of the page, and a mask of the rows that have one."""
        if self.valid is None:
            return self.values[rows], np.ones(len(rows), np.bool_)
        valid = self.valid[rows]
        return self.values[(np.cumsum(self.valid) - 1)[rows[valid]]], valid

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory in bytes."""
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes) + 256


class VectorPages:
    """The pages of one column of vectors in one row group; decompressed pages are kept in `cache` if given."""

    def __init__(self, file: DataFile, paged: PagedChunk, reads: RangeReads, cache: ByteCache | None) -> None:
        self._file = file
        self._paged = paged
        self._suited = reads
        self._cache = cache
        # On local disk reading a few bytes takes microseconds: enough to see how a page is stored without reading it.
        self._peeks = not file.is_remote
        # On local disk, planning a few reads takes longer than it saves.
        self._unplanned = _FEW_RANGES if self._peeks and not reads.max_gap else -1

    @cached_property
    def _reads(self) -> RangeReads:
        return self._suited.at(self._file.file.uri)

    def rows(self, rows: Ints) -> ChosenRows:
        """Return the vectors of distinct ascending rows, counted from the first row of the row group.

        Raises DataFileError if the file is damaged.
        """
        with reading(self._file.file.uri):
            found = None if self._is_plain else self._one_by_one(rows)
            if found is None:
                self._file.source()  # opened here, before several threads do it at once
                return self._direct(rows) if self._is_plain else self._by_page(rows)
            values = np.frombuffer(found, np.uint8).reshape(-1, self._paged.width)
            return ChosenRows(values, np.ones(len(rows), np.bool_), len(found))

    def cost_of(self, rows: Ints) -> int:
        """Return about what it costs to read these rows, as a number of bytes that are read in sequence.

        Each read counts as its bytes and as many more as are better read than left out between two reads. Raises
        DataFileError if the file is damaged.
        """
        places, gap = self._paged.places, usual_gap(is_local=self._peeks)
        page = _page_of(places, rows)
        with reading(self._file.file.uri):
            if self._is_plain:
                begin, size = self._begin_of(rows, page), np.full(len(rows), self._paged.width)
            elif self._is_as_is(int(page[0])):  # so are the others, of the same column
                return len(rows) * (self._paged.width + gap)
            else:
                page = np.unique(page)
                begin, size = places.begin[page], places.end[page] - places.begin[page]
            plan = self._plan(begin, size, size, MAX_READ)
        return int(plan.length.sum()) + len(plan) * gap

    def _is_as_is(self, page: int) -> bool:
        """Return True if it is known, or a local file shows, that Snappy stored the values of a page as they are."""
        if self._paged.literals:
            return self._paged.literals[page] is not None
        if not self._peeks or self._paged.chunk.codec != _SNAPPY:
            return False
        ((found,), _) = self._pages(np.array([page]))
        return isinstance(found, Literals)

    def stored(self, rows: Ints) -> bytes | None:
        """Return the vectors of a few distinct ascending rows, one after another, or None if they are to be planned.

        `rows` are counted from the first row of the row group. Raises DataFileError if the file is damaged.
        """
        with reading(self._file.file.uri):
            return self._one_by_one(rows)

    @property
    def _is_plain(self) -> bool:
        """Return True if the place of each vector in the file follows from those of the pages."""
        return self._paged.is_full and self._paged.chunk.codec is None

    def _begin_of(self, rows: Ints, page: Ints) -> Ints:
        """Return where in the file the vectors of rows begin, given the page of each, if the pages are plain."""
        places = self._paged.places
        begin: Ints = places.end[page] - (self._row_after(page) - rows) * self._paged.width
        if (begin < places.begin[page]).any():
            raise ValueError("a page is shorter than its rows")
        return begin

    def _direct(self, rows: Ints) -> ChosenRows:
        values, read = self._whole(self._begin_of(rows, _page_of(self._paged.places, rows)))
        return ChosenRows(values, np.ones(len(rows), np.bool_), read)

    def _one_by_one(self, rows: Ints) -> bytes | None:
        """Read a few rows of a local file one by one, which is faster than with arrays.

        Return None if they are many, or unless each lies in a page without a codec, or whose Snappy literals are known.
        """
        if len(rows) > self._unplanned or not self._paged.is_full:
            return None
        places: list[tuple[int, int]] = []
        for row in rows.tolist():
            parts = self._parts_of(row)
            if parts is None:
                return None
            places += parts
        read = self._file.short_reads(places)
        if len(read) != len(rows) * self._paged.width:
            raise EOFError
        return read

    def _parts_of(self, row: int) -> Sequence[tuple[int, int]] | None:
        """Return where in the file the parts of a row's vector lie, and their bytes; None if its page must be read."""
        places, width = self._paged.places, self._paged.width
        page = bisect_right(places.first_row, row) - 1
        is_last = page == len(places.first_row) - 1
        left = (self._paged.chunk.rows if is_last else int(places.first_row[page + 1])) - row
        if self._paged.chunk.codec is None:
            begin = int(places.end[page]) - left * width
            if begin < places.begin[page]:
                raise ValueError("a page is shorter than its rows")
            return [(begin, width)]
        found = self._kept(page)
        return found.parts_of(found.size - left * width, width) if isinstance(found, Literals) else None

    def _by_page(self, rows: Ints) -> ChosenRows:
        places, width = self._paged.places, self._paged.width
        page = _page_of(places, rows)
        numbers = np.unique(page)
        pages, read = self._pages(numbers)
        values, valid = np.empty((len(rows), width), np.uint8), np.ones(len(rows), np.bool_)
        numbered = np.searchsorted(numbers, page)
        as_is = np.array([isinstance(found, Literals) for found in pages], np.bool_)
        for number in np.flatnonzero(~as_is).tolist():
            here = np.flatnonzero(numbered == number)
            taken, valid[here] = pages[number].take(rows[here] - places.first_row[numbers[number]])
            values[here[valid[here]]] = taken
        if as_is.any():
            here = np.flatnonzero(as_is[numbered])
            blocks = [found for found in pages if isinstance(found, Literals)]
            block = (np.cumsum(as_is) - 1)[numbered[here]]
            sizes = np.array([found.size for found in blocks])
            begin = sizes[block] - (self._row_after(page[here]) - rows[here]) * width
            which, inside, place, size = ranges_of(blocks, block, begin, width)
            if len(place) == len(rows) and (size == width).all():
                values, copied = self._whole(place)
            else:
                copied = self._copy(place, size, here[which] * width + inside, values)
            read += copied
        return ChosenRows(values if valid.all() else values[valid], valid, read)

    def _whole(self, begin: Ints) -> tuple[Bytes, int]:
        """Return the vectors that begin at places of the file, shape (n, width), and the number of bytes read."""
        width = self._paged.width
        if self._is_mapped(begin):
            mapped = self._mapped(self._file.content(), begin)
            return mapped, mapped.nbytes
        values = np.empty((len(begin), width), np.uint8)
        return values, self._copy(begin, np.full(len(begin), width), np.arange(len(begin)) * width, values)

    def _copy(self, begin: Ints, size: Ints, target: Ints, values: Bytes) -> int:
        """Copy ranges of the file to byte offsets `target` of `values`; return the number of bytes read."""
        flat = values.reshape(-1)
        if len(begin) <= self._unplanned:
            for at, length, goes in zip(begin.tolist(), size.tolist(), target.tolist(), strict=True):
                flat[goes : goes + length] = np.frombuffer(self._window(at, length).take(at, length), np.uint8)
            return int(size.sum())
        if self._is_mapped(begin):
            return self._copy_mapped(begin, size, target, values)
        plan = self._plan(begin, size, target, MAX_READ)

        def copy(read: int) -> None:
            at, length = int(plan.offset[read]), int(plan.length[read])
            held = np.frombuffer(self._window(at, length).take(at, length), np.uint8)
            for run in range(int(plan.first_run[read]), int(plan.first_run[read + 1])):
                source, goes, count = plan.run_source[run] - at, plan.run_target[run], plan.run_size[run]
                flat[goes : goes + count] = held[source : source + count]

        for _ in self._reads.each(copy, range(len(plan))):
            pass
        return int(plan.length.sum())

    def _is_mapped(self, begin: Ints) -> bool:
        """Return True if a local file is mapped to read these ranges, without a call for each."""
        return self._unplanned > 0 and len(begin) >= _MANY_RANGES

    def _copy_mapped(self, begin: Ints, size: Ints, target: Ints, values: Bytes) -> int:
        """Do the work of `_copy` for a local file through a memory map."""
        content, flat = self._file.content(), values.reshape(-1)
        if begin.min() < 0 or (begin + size).max() > len(content):
            raise EOFError
        whole = size == self._paged.width
        values[target[whole] // self._paged.width] = self._mapped(content, begin[whole])
        for at, length, goes in zip(*(part[~whole].tolist() for part in (begin, size, target)), strict=True):
            flat[goes : goes + length] = content[at : at + length]
        return int(size.sum())

    def _mapped(self, content: Bytes, begin: Ints) -> Bytes:
        """Return the vectors that begin at places of a file that is mapped into memory, shape (n, width)."""
        width = self._paged.width
        if len(begin) and (begin.min() < 0 or begin.max() + width > len(content)):
            raise EOFError
        # A strided view with one element for each byte of the file: the vector that begins there.
        vector, count = np.dtype((np.void, width)), max(0, len(content) - width + 1)
        every: npt.NDArray[Any] = np.ndarray((count,), vector, content, strides=(1,))
        return every[begin].view(np.uint8).reshape(len(begin), width)

    def _pages(self, numbers: Ints) -> tuple[list[_OpenedPage | Literals], int]:
        """Return pages from the cache or the file, and the number of bytes read."""
        places = self._paged.places
        pages = {number: found for number in numbers.tolist() if (found := self._kept(number)) is not None}
        absent = np.array([number for number in numbers.tolist() if number not in pages], np.int64)
        count = 0
        if len(absent):
            begins, sizes = places.begin[absent], places.end[absent] - places.begin[absent]
            # The limit is the end of the last page, so that no page is split into several reads.
            plan = self._plan(begins, sizes, np.cumsum(sizes) - sizes, int(places.end[-1]))

            def read(index: int) -> list[tuple[int, _OpenedPage | Literals]]:
                window = self._window(int(plan.offset[index]), int(plan.length[index]))
                return [(int(absent[row]), self._opened(window, int(absent[row]))) for row in plan.rows(index)]

            for found in self._reads.each(read, range(len(plan))):
                pages.update(found)
            peeked = [self._peeks and isinstance(pages[number], Literals) for number in absent.tolist()]
            count = int(sizes[~np.array(peeked)].sum()) if self._peeks else int(plan.length.sum())
        return [pages[number] for number in numbers.tolist()], count

    def _row_after(self, page: Any) -> Any:
        """Return the row after the last row of each page, counted from the first row of the row group."""
        return np.append(self._paged.places.first_row[1:], self._paged.chunk.rows)[page]

    def _opened(self, window: Window, number: int) -> _OpenedPage | Literals:
        paged = self._paged
        header = read_header(window, int(paged.places.begin[number]))
        if header.encoding != PLAIN:
            raise ValueError(f"a page has the encoding {header.encoding}, which the footer does not list")
        literals = self._literals(window, header, number)
        if literals is not None:
            self._keep(number, literals)
            if self._peeks:
                return literals
        # A separate codec for each page, because threads must not share one.
        codec = None if paged.chunk.codec is None else pa.Codec(paged.chunk.codec)
        page = open_page(window, header, codec, paged.depth)
        count = int(page.valid.sum())
        raw = np.frombuffer(page.values.take(page.begin, count * paged.width), np.uint8)
        opened = _OpenedPage(raw.reshape(count, paged.width), None if page.valid.all() else page.valid)
        # Uncompressed values are not cached: reading them again costs no decompression.
        if literals is None and not page.in_file:
            self._keep(number, opened)
        return opened

    def _literals(self, window: Window, header: PageHeader, number: int) -> Literals | None:
        paged = self._paged
        if paged.chunk.codec != _SNAPPY or not paged.is_full:
            return None
        rows = int(self._row_after(number) - paged.places.first_row[number])
        return page_literals(window, header, rows, paged.width)

    def _keep(self, number: int, page: _OpenedPage | Literals) -> None:
        if self._cache is not None:
            self._cache.put(self._key(number), page, page.nbytes)

    def _kept(self, number: int) -> _OpenedPage | Literals | None:
        known = self._paged.literals[number] if self._paged.literals else None
        if known is not None or self._cache is None:
            return known
        found: _OpenedPage | Literals | None = self._cache.get(self._key(number))
        return found

    def _key(self, number: int) -> tuple[object, ...]:
        return (self._file.file, "page", self._paged.width, int(self._paged.places.begin[number]))

    def _plan(self, begin: Ints, size: Ints, target: Ints, largest: int) -> Reads:
        file = np.zeros(len(begin), np.int64)
        return plan_reads(file, begin, size, target, max_gap=self._reads.max_gap, max_read=largest)

    def _window(self, begin: int, size: int) -> Window:
        return Window(self._file.source(), begin + size, _PEEK if self._peeks else size)


def _page_of(places: Places, rows: Ints) -> Ints:
    found: Ints = np.searchsorted(places.first_row, rows, side="right") - 1
    return found
