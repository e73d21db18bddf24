"""Page tables: the places of the pages of a column of vectors in a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.chunks import Chunk, Places, column_chunks, page_places
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.pages import read_header
from hudi_vector.read.parquet.snappy_literals import Literals, page_literals
from hudi_vector.read.parquet.values import Window

__all__ = ["PageTable", "PagedChunk", "page_table", "paged_chunks"]

Ints = npt.NDArray[np.int64]

_HEADER_AHEAD = 16 << 10
_CODECS = (None, "snappy", "gzip", "zstd", "brotli")
_UNKNOWN = -1
_PEEK = 256


@dataclass(frozen=True)
class PagedChunk:
    """A column of vectors in one row group whose pages are read here instead of by pyarrow.

    `depth` is the column's largest definition level, `width` the bytes of a vector. `literals` has the Snappy literals
    of each page, None for a page that has other elements; it is empty where they are not known.
    """

    chunk: Chunk
    places: Places
    depth: int
    width: int
    literals: tuple[Literals | None, ...] = ()

    @property
    def is_full(self) -> bool:
        """Return True if every row has a vector; then the values of a page are its last bytes."""
        return self.depth == 0 or self.chunk.nulls == 0


@dataclass(frozen=True)
class PageTable:
    """The page table of a file as an array of integers, which can be stored apart from the file.

    Attributes:
        width: The bytes of a vector.
        rows: The number of rows of the file.
        size: The size of the file in bytes.
        numbers: int64. First the number of row groups. Then five numbers for each row group: rows; data pages, 0 if
            they are left to pyarrow; the codec, 0 to 4 for none, Snappy, Gzip, Zstandard and Brotli; the largest
            definition level; NULL vectors, -1 if the footer does not have their number. Then three numbers for each
            data page: begin and end in the file, and the first row, counted from the first row of the row group.
        literals: int64, or None if unknown. For each of these data pages the number of its Snappy literals, 0 if it
            has other elements too, and then begin in the file and bytes of each literal.
    """

    width: int
    rows: int
    size: int
    numbers: Ints
    literals: Ints | None = None

    @classmethod
    def of(cls, width: int, size: int, groups: Sequence[tuple[int, PagedChunk | None]]) -> PageTable:
        """Make the page table of a file of `size` bytes from the rows and the pages of each row group."""
        numbers, pages = [len(groups)], []
        for rows, paged in groups:
            places = (0, 0, 0, _UNKNOWN)
            if paged is not None:
                chunk, found = paged.chunk, paged.places
                nulls = _UNKNOWN if chunk.nulls is None else chunk.nulls
                places = (len(found.begin), _CODECS.index(chunk.codec), paged.depth, nulls)
                pages.append(np.stack([found.begin, found.end, found.first_row], axis=1).ravel())
            numbers += [rows, *places]
        return cls(width, sum(rows for rows, _ in groups), size, np.concatenate([np.array(numbers, np.int64), *pages]))

    @cached_property
    def groups(self) -> Sequence[tuple[int, PagedChunk | None]] | None:
        """Return the rows and the pages of each row group; None if the numbers are not a valid page table."""
        count = int(self.numbers[0]) if len(self.numbers) else -1
        if not 0 <= 5 * count < len(self.numbers):
            return None
        pages, found, at, first_row = self.numbers[1 + 5 * count :], [], 0, 0
        literals = self._literals(pages)
        for group in self.numbers[1 : 1 + 5 * count].reshape(-1, 5).tolist():
            own = pages[at : at + 3 * group[1]]
            if not _fit(group, own, self.size):
                return None
            known = literals[at // 3 : (at + len(own)) // 3]
            found.append((group[0], self._paged(group, own, first_row, known) if len(own) else None))
            at, first_row = at + len(own), first_row + group[0]
        return tuple(found) if (at, first_row) == (len(pages), self.rows) else None

    def _literals(self, pages: Ints) -> tuple[Literals | None, ...]:
        """Return the literals of each page; none where they are not known, or no literals of these pages."""
        found: list[Literals | None] = []
        numbers, at = np.empty(0, np.int64) if self.literals is None else self.literals, 0
        for begin, end, _ in pages[: len(pages) // 3 * 3].reshape(-1, 3).tolist():
            count = int(numbers[at]) if at < len(numbers) else -1
            own, at = numbers[at + 1 : at + 1 + 2 * count], at + 1 + 2 * count
            if count < 0 or at > len(numbers) or (count and not _lie_within(own.reshape(-1, 2), begin, end)):
                return ()
            found.append(Literals.at(*np.ascontiguousarray(own.reshape(-1, 2).T)) if count else None)
        return tuple(found)

    def _paged(
        self, group: Sequence[int], pages: Ints, first_row: int, literals: tuple[Literals | None, ...]
    ) -> PagedChunk:
        rows, _, codec, depth, nulls = group
        places = Places(*np.ascontiguousarray(pages.reshape(-1, 3).T))
        begin, end = int(places.begin[0]), int(places.end[-1])
        known = None if nulls == _UNKNOWN else nulls
        chunk = Chunk(begin, end, rows, first_row, _CODECS[codec], True, True, known)
        fit = literals if _hold_rows(literals, places, rows, self.width) else ()
        return PagedChunk(chunk, places, depth, self.width, fit)

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory in bytes, including the decoded `groups`."""
        literals = 0 if self.literals is None else self.literals.nbytes
        return 2 * self.numbers.nbytes + 4 * literals + 512


def _fit(group: Sequence[int], pages: Ints, size: int) -> bool:
    """Return True if the numbers are valid for a row group: pages in order within the file, rows ascending from 0."""
    rows, count, codec, depth, nulls = group
    if not (0 <= codec < len(_CODECS) and 0 <= depth < 2 and _UNKNOWN <= nulls <= rows and len(pages) == 3 * count):
        return False
    if not count:
        return rows >= 0
    places, first = pages.reshape(-1, 3)[:, :2].ravel(), pages[2::3]
    is_within = places[0] >= 0 and places[-1] <= size and (np.diff(places) >= 0).all()
    return bool(is_within and first[0] == 0 and first[-1] < rows and (np.diff(first) >= 0).all())


def _lie_within(literals: Ints, begin: int, end: int) -> bool:
    """Return True if literals, each as its begin in the file and its bytes, follow one another within a page."""
    first, last = literals[:, 0], literals.sum(axis=1)
    follow = (literals[:, 1] > 0).all() and (first[1:] >= last[:-1]).all()
    return bool(follow and first[0] >= begin and last[-1] <= end)


def _hold_rows(literals: Sequence[Literals | None], places: Places, rows: int, width: int) -> bool:
    """Return True if the literals of each page hold the vectors of its rows."""
    counts = np.diff(places.first_row, append=rows).tolist()
    return all(page is None or page.size >= count * width for page, count in zip(literals, counts, strict=False))


def page_table(file: DataFile, column: str, width: int, *, is_full: bool = False) -> PageTable | None:
    """Return the page table of a column of vectors of `width` bytes; None if all pages are left to pyarrow.

    `is_full` says that no row of the file lacks a vector, which footers do not say of vectors above 2 KiB: writers
    leave out statistics whose least and largest value are too long. Raises DataFileError if the file is damaged.
    """
    chunks = paged_chunks(file, column, width)
    if not any(chunks):
        return None
    if is_full:
        chunks = tuple(None if one is None else replace(one, chunk=replace(one.chunk, nulls=0)) for one in chunks)
    rows = [file.metadata.row_group(group).num_rows for group in range(len(chunks))]
    table = PageTable.of(width, file.file.size, list(zip(rows, chunks, strict=True)))
    with reading(file.file.uri):
        pages = [literals for chunk in chunks if chunk is not None for literals in _literals_of_pages(file, chunk)]
    return replace(table, literals=np.concatenate(pages)) if any(len(page) > 1 for page in pages) else table


def _literals_of_pages(file: DataFile, paged: PagedChunk) -> Iterator[Ints]:
    """Yield for each page the number of its Snappy literals, and begin and bytes of each; 0 alone for another page."""
    rows_of = np.diff(paged.places.first_row, append=paged.chunk.rows).tolist()
    for number, rows in enumerate(rows_of):
        begin, end, _ = paged.places.of(number)
        found = None
        if paged.chunk.codec == "snappy" and paged.is_full:
            # On a local disk a few bytes are read at each literal; elsewhere the page.
            window = Window(file.source(), end, end - begin if file.is_remote else _PEEK)
            found = page_literals(window, read_header(window, begin), rows, paged.width)
        pairs = () if found is None else np.stack([found.place, found.length], axis=1).ravel()
        yield np.concatenate(([0 if found is None else len(found.place)], pairs)).astype(np.int64)


def paged_chunks(file: DataFile, column: str, width: int) -> tuple[PagedChunk | None, ...]:
    """Return the pages of a column of vectors of `width` bytes in each row group, through the process cache.

    An entry is None if pyarrow must read the row group: the column is missing or has another width, its vectors are
    lists, or they are stored with a dictionary or with a codec or encoding that `column_chunks` does not understand;
    also if the row group is empty. Raises DataFileError if the file is damaged.
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
    return tuple(
        PagedChunk(
            chunk,
            page_places(file.page_index(), file.groups, group, number, chunk, _HEADER_AHEAD),
            leaf.max_definition_level,
            width,
        )
        if chunk.plain and chunk.understood and chunk.rows
        else None
        for group, chunk in enumerate(chunks)
    )
