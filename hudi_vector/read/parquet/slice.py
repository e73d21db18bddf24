"""The reader of file slices that are one Parquet base file without log files.

Only the columns that are needed are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.kernels.topk import Ints, VectorBlock, make_block
from hudi_vector.read.cache import ByteCache, note, note_on_disk, process_cache
from hudi_vector.read.conform import conform
from hudi_vector.read.parquet.data_file import DataFile, held_in_memory
from hudi_vector.read.parquet.fetched import Range
from hudi_vector.read.parquet.kept_vectors import Decoded, KeptVectors
from hudi_vector.read.parquet.page_file import column_pages, unread_index
from hudi_vector.read.parquet.page_table import PagedChunk, PageTable, paged_chunks
from hudi_vector.read.parquet.vector_pages import RangeReads, VectorPages
from hudi_vector.read.predicate.form import evaluate
from hudi_vector.read.predicate.prune import ColumnStats, may_match, row_group_stats
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.read.vectors import block_of, chosen_of, joined, rows_within
from hudi_vector.storage import FileInfo
from hudi_vector.storage.ranges import MAX_READ, OBJECT_STORE_MAX_GAP
from hudi_vector.table.deleted_rows import DeletedRows

__all__ = ["ParquetSlice"]

_BLOCK_BYTES = 4 << 20
_FETCH_BATCH_ROWS = 4096
# Columns up to this size are decoded whole and cached, so that further result rows of the file cost nothing.
_KEPT_COLUMN_BYTES = 8 << 20
_SMALL_BYTES = 1 << 20
_FEW_BYTES = 64 << 10
# Vectors of rows that pass a filter are read singly if they are at most one in so many of all rows, until all that was
# read singly cost such a part of reading all.
_MANY_TO_ONE = 16
_PART_OF_ALL = 4
_SUITED = RangeReads()


class ParquetSlice:
    """A reader of one Parquet base file for one search.

    With `keep`, decoded columns are cached in the process; without it, vectors are read in blocks of a few megabytes
    and no more is held. With a cache on disk, the vectors of a row group are decoded whole, and kept there. `deleted`
    is the deleted rows or a function that finds them, called on first use; None means none. `constants` are columns
    with one value in all rows, regardless of what the file holds.
    """

    def __init__(
        self,
        file: FileInfo,
        spec: ScanSpec,
        keep: bool,
        deleted: DeletedRows | Callable[[], DeletedRows] | None = None,
        constants: Sequence[tuple[str, pa.Scalar]] = (),
    ) -> None:
        self._file = file
        self._spec = spec
        self._deleted = deleted
        self._constants = dict(constants)
        self._deleted_mask: npt.NDArray[np.bool_] | None = None
        self._cache: ByteCache | None = process_cache() if keep and process_cache().budget else None
        disk = spec.options.cache
        self._on_disk = None if disk is None else KeptVectors(disk, file, spec.options, spec.column)
        # Mapping a local file is no faster, and its pages count as memory of the process.
        self._data = DataFile(file, spec.options, mapped=False)

    def blocks(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        """Yield the rows that pass the predicate and have a vector, and add to `counts`."""
        # A small object is read at once: its footer, which is read first, would be most of it.
        small = self._file.size <= _SMALL_BYTES and not self._data.has_footer
        with held_in_memory(self._file, self._spec.options, columns_alone=True) if small else nullcontext():
            start = 0
            metadata = self._data.metadata
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
                yield from self._group_blocks(group, start, rows, counts)
                start += rows
            self.close()

    def row_count(self) -> int:
        """Return the number of rows of the file, including deleted ones."""
        return int(self._data.metadata.num_rows)

    def stored_bytes(self, names: Sequence[str]) -> int:
        """Return the stored bytes of columns in all row groups."""
        groups = range(self._data.metadata.num_row_groups)
        return sum(self._data.column_bytes(group, name) for group in groups for name in names)

    def holds_footer(self) -> bool:
        """Return True if the footer of the file need not be read."""
        return self._data.has_footer

    def holds_vectors(self) -> bool:
        """Return True if the process cache holds all vectors of the file decoded."""
        if self._cache is None or not self._data.has_footer:
            return False
        return all(map(self._holds_decoded, range(self._data.metadata.num_row_groups)))

    def holds(self, names: Sequence[str]) -> bool:
        """Return True if the process cache holds all of these columns decoded; constants need no cache entry."""
        cache = self._cache
        if cache is None or not self._data.has_footer:
            return False
        return all(
            cache.get(self._column_key(group, field)) is not None
            for group in range(self._data.metadata.num_row_groups)
            for field in self._spec.fields(names)
            if field.name not in self._constants
        )

    @property
    def uri(self) -> str:
        """Return the URI of the file."""
        return self._file.uri

    @property
    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._file.size

    @property
    def is_local(self) -> bool:
        """Return True if the file is on a local file system, where a read costs no more than its system call."""
        return not self._data.is_remote

    @property
    def chooses(self) -> bool:
        """Return True if rows may be left out, by the predicate or because they are deleted."""
        return self._spec.predicate is not None or self._deleted is not None

    def allowed(self, counts: ScanCounts) -> npt.NDArray[np.bool_]:
        """Return a mask over the rows of the file of the live rows that pass the predicate.

        Live, pruned and filtered rows are added to `counts`.
        """
        metadata = self._data.metadata
        parts, start = [], 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            parts.append(self._passing(group, start, rows, counts))
            start += rows
        return np.concatenate(parts) if parts else np.empty(0, np.bool_)

    def kept_filter_columns(self) -> list[pa.ChunkedArray] | None:
        """Return the columns that the predicate needs, or None unless the process cache holds all of them decoded."""
        if self._cache is None or not self._spec.filter_columns or not self._data.has_footer:
            return None
        metadata, found = self._data.metadata, []
        for field in self._spec.filter_schema:
            parts = list[pa.ChunkedArray]()
            for group in range(metadata.num_row_groups):
                key = self._column_key(group, field)
                if field.name in self._constants:
                    parts.append(self._constant(field.name, metadata.row_group(group).num_rows))
                elif (held := self._cache.get(key)) is not None:
                    note("columns", key, is_kept=True)
                    parts.append(held)
                else:
                    return None
            found.append(pa.chunked_array([chunk for part in parts for chunk in part.chunks], field.type))
        return found

    def there_of(self, passing: npt.NDArray[np.bool_], counts: ScanCounts) -> npt.NDArray[np.bool_]:
        """Return a mask, over all rows of the file, of those in `passing` that are not deleted.

        `passing` is a mask of the rows that pass the predicate; live and filtered rows are added to `counts`.
        """
        allowed = passing if self._deleted is None else passing & ~self._gone()
        live = len(passing) if self._deleted is None else len(passing) - np.count_nonzero(self._gone())
        counts.rows += live
        counts.filtered += live - np.count_nonzero(allowed)
        return allowed

    def held_rows(self, positions: Ints, names: Sequence[str]) -> pa.Table | None:
        """Return what `rows` returns for a file of one row group, or None unless the cache holds its columns decoded.

        Raises DataFileError if the file has no such row.
        """
        if not self._data.has_footer or self._data.metadata.num_row_groups != 1:
            return None
        whole = self._held_columns(names)
        if whole is None:
            return None
        rows_within(positions, len(whole), self._file.uri)
        return whole.take(pa.array(positions))

    def rows(self, positions: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Return columns of the rows at these positions, in the table's types and in the order of `positions`."""
        if (held := self.held_rows(positions, names)) is not None:
            return held
        metadata = self._data.metadata
        rows_within(positions, metadata.num_rows, self._file.uri)
        order = np.argsort(positions, kind="stable")
        ordered = positions[order]
        wanted, start = list[tuple[int, Ints]](), 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            inside = ordered[(ordered >= start) & (ordered < start + rows)] - start
            if len(inside):
                wanted.append((group, inside))
            start += rows
        with self._data.ahead([] if self.is_local else self._wanted_ranges(wanted, names)):
            parts = [self._group_rows(group, inside, names) for group, inside in wanted]
        self.close()
        fields = self._spec.fields(names)
        if not parts:
            return conform(pa.table({}), fields)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back))

    def tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield columns of all rows that pass the predicate, in the order of the file, at most so many at a time."""
        start, metadata = 0, self._data.metadata
        for group in range(metadata.num_row_groups):
            stop = start + metadata.row_group(group).num_rows
            mask = self._passing(group, start, stop - start, ScanCounts()) if self.chooses else None
            done, start = 0, stop
            if mask is not None and not mask.any():
                continue
            for batch in self._parts(group, names, rows):
                part = self._conformed(batch, names)
                if mask is not None:
                    part = part.filter(pa.array(mask[done : done + batch.num_rows]))
                done += batch.num_rows
                yield part
        self.close()

    def vectors_at(
        self, positions: Ints, counts: ScanCounts, reads: RangeReads = _SUITED, pages: PageTable | None = None
    ) -> VectorBlock:
        """Return the vectors at positions in any order, regardless of the predicate and of deletions.

        The block is ascending by position, without duplicates and rows that have no vector. NULL and invalid vectors
        and bytes read are added to `counts`, rows are not. Only the pages with these rows are read, unless the cache
        holds the vectors decoded; a column whose pages cannot be read singly is read whole. The footer is not read for
        row groups whose pages are listed in `pages`. Raises DataFileError if the file is damaged or has no such row.
        """
        found = [
            self._chosen(group, start, inside, counts, reads, known)
            for group, start, inside, known in self._by_group(positions, self._groups(pages))
        ]
        self.close()
        return joined(found or [_empty_block(self._spec)])

    def cost_of(self, positions: Ints, pages: PageTable | None) -> int | None:
        """Return what `vectors_at` costs, as a number of bytes that are read in sequence.

        `positions` are distinct and ascending. Returns None if `pages` does not list the pages of these rows.
        """
        cost, groups = 0, None if pages is None else pages.groups
        if groups is None:
            return None
        for _, start, inside, known in self._by_group(positions, groups):
            if known is None:
                return None
            cost += VectorPages(self._data, known, _SUITED, self._cache).cost_of(inside - start)
        return cost

    def cost_singly(self, positions: Ints) -> int | None:
        """Return what `blocks` costs, without its filter, if rows at these ascending positions are those that pass.

        Returns None if it reads all vectors of a row group.
        """
        cost = 0
        for group, start, inside, _ in self._by_group(positions, self._groups(None)):
            singly = self._singly(group, inside - start)
            if singly is None:
                return None
            cost += singly[1]
        return cost

    def stored_vectors(self, positions: Ints, pages: PageTable | None, reads: RangeReads = _SUITED) -> bytes | None:
        """Return the stored vectors of a few rows of a local file, one after another.

        `positions` are distinct and ascending. Returns None unless `pages` says where each of them lies, or if the
        cache holds them decoded: `vectors_at` serves these. Raises DataFileError if the file is damaged.
        """
        groups = None if pages is None or not self.is_local else pages.groups
        if groups is None:
            return None
        found = list[bytes]()
        for group, start, inside, known in self._by_group(positions, groups):
            if known is None or self._holds_decoded(group):
                return None
            part = VectorPages(self._data, known, reads, self._cache).stored(inside - start)
            if part is None:
                return None
            note("vectors", self._decoded_key(group), is_kept=False)
            found.append(part)
        self.close()
        return b"".join(found)

    def held_in_memory(self) -> AbstractContextManager[None]:
        """Return a context in which all reads of a file of an object store come from memory, after one of all of it."""
        return held_in_memory(self._file, self._spec.options)

    def close(self) -> None:
        """Close the file; the next access opens it again."""
        self._data.close()

    def _group_blocks(self, group: int, start: int, rows: int, counts: ScanCounts) -> Iterator[VectorBlock]:
        mask: npt.NDArray[np.bool_] | None = None
        if self.chooses:
            mask = self._passing(group, start, rows, counts)
            kept = np.count_nonzero(mask)
            if not kept:
                return
            mask = None if kept == rows else mask
        else:
            counts.rows += rows
        few = None if mask is None else np.flatnonzero(mask)
        singly = None if few is None else self._singly(group, few)
        if few is not None and singly is not None:
            pages, cost = singly
            self._spend(group, cost)
            yield self._chosen(group, start, few + start, counts, _SUITED, pages)
        elif self._keeps(rows):
            yield from self._whole(group, start, rows, mask, counts)
        else:
            yield from self._streamed(group, start, mask, counts)

    def _keeps(self, rows: int) -> bool:
        """Return True if the decoded vectors of so many rows can be kept, on disk or within the budget of memory."""
        column = self._spec.column
        nbytes = rows * column.dimension * column.dtype.itemsize
        return self._on_disk is not None or (self._cache is not None and nbytes <= self._cache.budget)

    def _singly(self, group: int, inside: Ints) -> tuple[PagedChunk, int] | None:
        """Return the pages of the vectors of a row group, and what it costs to read singly those of rows of the group.

        Returns None if it is better to read all: then they are in memory, and on disk where they are to be kept there.
        """
        column, rows = self._spec.column, self._data.metadata.row_group(group).num_rows
        if len(inside) * _MANY_TO_ONE > rows or self._on_disk is not None or not self._has(column.name):
            return None
        stored = self._data.column_bytes(group, column.name)
        if stored <= _SMALL_BYTES or self._holds_decoded(group):
            return None
        # Without a page index, the headers of pages are read one after another.
        if not self.is_local and unread_index(self._data, column.name, group) is None:
            return None
        pages = paged_chunks(self._data, column.name, column.dimension * column.dtype.itemsize)[group]
        if pages is None:
            return None
        cost = VectorPages(self._data, pages, _SUITED, self._cache).cost_of(inside)
        spent = None if self._cache is None else self._cache.get(self._spent_key(group))
        return (pages, cost) if (cost + (spent or 0)) * _PART_OF_ALL <= stored else None

    def _spend(self, group: int, cost: int) -> None:
        """Add to what it cost so far to read vectors of a row group singly, if all of them could be kept instead."""
        if self._cache is not None and self._keeps(self._data.metadata.row_group(group).num_rows):
            key = self._spent_key(group)
            self._cache.put(key, cost + (self._cache.get(key) or 0), 256)

    def _spent_key(self, group: int) -> tuple[object, ...]:
        return (*self._decoded_key(group), "singly")

    def _passing(self, group: int, start: int, rows: int, counts: ScanCounts) -> npt.NDArray[np.bool_]:
        """Return a mask of the live rows of a row group that pass the predicate, and add to `counts`."""
        there = np.ones(rows, np.bool_)
        if self._deleted is not None:
            there = ~self._gone()[start : start + rows]
        live = np.count_nonzero(there)
        counts.rows += live
        if self._spec.predicate is None:
            return there
        if not self._may_match(group, rows):
            counts.pruned += live
            return np.zeros(rows, np.bool_)
        there &= self._mask(group, rows)
        counts.filtered += live - np.count_nonzero(there)
        return there

    def _has(self, name: str) -> bool:
        """Return True if the file has a column; raise UnsupportedTableError if values of it would be lost or wrong.

        Spark would read a column whose name differs by case, and convert values of an older calendar, for which
        UnmergeableError is raised.
        """
        held = self._data.names
        if name in held:
            self._data.require_new_calendar([name])
            return True
        alike = (each for each in held if each.lower() == name.lower() and each not in self._spec.schema.names)
        other = next(alike, None)
        if other is not None:
            raise UnsupportedTableError(
                f"column '{name}' is called '{other}' in the file '{self._file.uri}'; all files must have one name for "
                "it, so write that file again"
            )
        return False

    def _gone(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the deleted rows of the file."""
        assert self._deleted is not None
        if self._deleted_mask is None:
            deleted = self._deleted if isinstance(self._deleted, DeletedRows) else self._deleted()
            self._deleted_mask = deleted.mask(self.row_count(), self._file.uri)
        return self._deleted_mask

    def _may_match(self, group: int, rows: int) -> bool:
        predicate = self._spec.predicate
        assert predicate is not None
        self._data.require_new_calendar(name for name in self._spec.filter_columns if name not in self._constants)
        stats = row_group_stats(self._data.metadata, group, self._spec.filter_schema)
        for name, value in self._constants.items():
            stats[name] = ColumnStats(value, value, 0) if value.is_valid else ColumnStats(null_count=rows)
        return may_match(predicate, stats, rows, self._spec.zone)

    def _mask(self, group: int, rows: int) -> npt.NDArray[np.bool_]:
        spec = self._spec
        assert spec.predicate is not None
        names = spec.filter_columns
        if self._cache is not None and names:
            absent = [] if self.is_local else self._absent(group, names, _KEPT_COLUMN_BYTES)
            with self._data.ahead(self._data.ranges(group, absent)):
                held = [self._kept_column(group, name) for name in names]
            if all(column is not None for column in held):
                return evaluate(spec.predicate, pa.Table.from_arrays(held, names=list(names)), spec.zone)
        mask = np.zeros(rows, np.bool_)
        done = 0
        for batch in self._batches(group, names, rows if not names else 1 << 16):
            table = self._conformed(batch, names) if names else pa.table({"": pa.nulls(rows)})
            mask[done : done + table.num_rows] = evaluate(spec.predicate, table, spec.zone)
            done += table.num_rows
        return mask

    def _whole(
        self, group: int, start: int, rows: int, mask: npt.NDArray[np.bool_] | None, counts: ScanCounts
    ) -> Iterator[VectorBlock]:
        decoded = self._decoded(group, start, rows, counts)
        if mask is None:
            counts.nulls += decoded.nulls
            counts.invalid += decoded.invalid
            yield decoded.block
            return
        block = decoded.block.select(mask[decoded.block.positions - start])
        # Cached vectors do not say which rows were NULL and which invalid, so all missing ones count as NULL here.
        counts.nulls += int(mask.sum()) - len(block)
        yield block

    def _decoded(self, group: int, start: int, rows: int, counts: ScanCounts) -> Decoded:
        """Return the vectors of a row group: those in memory, on disk, or read from the file."""
        key = self._decoded_key(group)
        found: Decoded | None = None if self._cache is None else self._cache.get(key)
        if found is not None:
            note("vectors", key, is_kept=True)
            counts.cached_slices += group == 0
            return found
        kept = None if self._on_disk is None else self._on_disk.get(group)
        if kept is not None:
            note_on_disk("vectors", key)
        else:
            note("vectors", key, is_kept=False)
            kept = self._read_whole(group, start, rows, counts)
            if self._on_disk is not None:
                self._on_disk.put(group, kept)
        if self._cache is not None:
            self._cache.put(key, kept, kept.block.nbytes + 1024)
        return kept

    def _read_whole(self, group: int, start: int, rows: int, counts: ScanCounts) -> Decoded:
        own = ScanCounts()
        column = self._spec.column.name
        positions = np.arange(start, start + rows, dtype=np.int64)
        if self._has(column):
            held = self._data.columns(group, [column]).column(column)
            counts.bytes_read += self._data.column_bytes(group, column)
            array = held.combine_chunks() if held.num_chunks != 1 else held.chunk(0)
            block = block_of(array, self._spec.column, positions, own, self._file.uri)
        else:
            own.nulls = rows
            block = _empty_block(self._spec)
        return Decoded(block, own.nulls, own.invalid)

    def _groups(self, pages: PageTable | None) -> Sequence[tuple[int, PagedChunk | None]]:
        """Return the number of rows of each row group, and its pages if a page table has them, else None."""
        if pages is not None and pages.groups is not None:
            return pages.groups
        metadata = self._data.metadata
        return [(metadata.row_group(group).num_rows, None) for group in range(metadata.num_row_groups)]

    def _by_group(
        self, positions: Ints, groups: Sequence[tuple[int, PagedChunk | None]]
    ) -> Iterator[tuple[int, int, Ints, PagedChunk | None]]:
        """Yield each row group with some of the positions: its number, its first row, those positions, and its pages.

        The positions are distinct and ascending. Raises DataFileError if the file has no such row.
        """
        wanted, start = rows_within(positions, sum(rows for rows, _ in groups), self._file.uri), 0
        for group, (rows, known) in enumerate(groups):
            inside = wanted if len(groups) == 1 else wanted[slice(*np.searchsorted(wanted, (start, start + rows)))]
            if len(inside):
                yield group, start, inside, known
            start += rows

    def _holds_decoded(self, group: int) -> bool:
        """Return True if the process cache holds the vectors of a row group decoded."""
        return self._cache is not None and self._cache.get(self._decoded_key(group)) is not None

    def _chosen(
        self,
        group: int,
        start: int,
        wanted: Ints,
        counts: ScanCounts,
        reads: RangeReads,
        known: PagedChunk | None,
    ) -> VectorBlock:
        """Return the vectors of rows of one row group, given ascending positions in the file."""
        column = self._spec.column
        width = column.dimension * column.dtype.itemsize
        paged = None if self._holds_decoded(group) else known or paged_chunks(self._data, column.name, width)[group]
        if paged is not None:
            chosen = VectorPages(self._data, paged, reads, self._cache).rows(wanted - start)
            note("vectors", self._decoded_key(group), is_kept=not chosen.bytes_read)
            counts.bytes_read += chosen.bytes_read
            counts.nulls += len(wanted) - len(chosen.values)
            block, invalid = make_block(chosen.values.view(column.dtype), wanted[chosen.valid])
            counts.invalid += invalid
            return block
        if not self._has(column.name):
            counts.nulls += len(wanted)
            return _empty_block(self._spec)
        own = ScanCounts()
        rows = self._data.metadata.row_group(group).num_rows
        if self._cache is not None:
            blocks = iter([self._decoded(group, start, rows, own).block])
        else:
            blocks = self._streamed(group, start, None, own)
        found = chosen_of(blocks, wanted, counts)
        counts.bytes_read += own.bytes_read
        return found

    def _decoded_key(self, group: int) -> tuple[object, ...]:
        return (self._file, group, "vectors", self._spec.column)

    def _streamed(
        self, group: int, start: int, mask: npt.NDArray[np.bool_] | None, counts: ScanCounts
    ) -> Iterator[VectorBlock]:
        column = self._spec.column
        if not self._has(column.name):
            counts.nulls += int(mask.sum()) if mask is not None else self._data.metadata.row_group(group).num_rows
            return
        note("vectors", self._decoded_key(group), is_kept=False)
        counts.bytes_read += self._data.column_bytes(group, column.name)
        batch_rows = max(64, _BLOCK_BYTES // (column.dimension * column.dtype.itemsize))
        done = 0
        for batch in self._batches(group, [column.name], batch_rows):
            positions = np.arange(start + done, start + done + batch.num_rows, dtype=np.int64)
            array = batch.column(0)
            if mask is not None:
                wanted = mask[done : done + batch.num_rows]
                positions, array = positions[wanted], array.filter(pa.array(wanted))
            done += batch.num_rows
            if len(array):
                yield block_of(array, column, positions, counts, self._file.uri)

    def _group_rows(self, group: int, inside: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Return columns of one row group at ascending positions in the row group."""
        chosen = pa.array(inside)

        columns = dict[str, pa.ChunkedArray]()
        for name in names:
            kept = self._kept_column(group, name, self._kept_bytes(group, name))
            column = self._paged_rows(group, inside, name) if kept is None else kept.take(chosen)
            if column is not None:
                columns[name] = column
        large = [name for name in names if name not in columns]
        if large:
            picked = self._picked(group, inside, large)
            columns |= {name: picked.column(name) for name in large}
        fields = self._spec.fields(names)
        return pa.table([columns[name] for name in names], schema=pa.schema([(f.name, f.type) for f in fields]))

    def _held_columns(self, names: Sequence[str]) -> pa.Table | None:
        """Return whole columns of the first row group if the process cache holds all of them decoded, else None."""
        if self._cache is None or not self._constants.keys().isdisjoint(names):
            return None
        fields, found = self._spec.fields(names), []
        for field in fields:
            column: pa.ChunkedArray | None = self._cache.get(self._column_key(0, field))
            if column is None:
                return None
            found.append(column)
        for field in fields:
            note("columns", self._column_key(0, field), is_kept=True)
        return pa.table(found, schema=pa.schema([(each.name, each.type) for each in fields])) if fields else None

    def _kept_bytes(self, group: int, name: str) -> int:
        """Return how many bytes a column may have that is read whole, and kept, although a few rows are wanted.

        Of an object it is read whole where its pages cannot be found, or where it is not worth to look for them.
        """
        if self.is_local:
            return _KEPT_COLUMN_BYTES
        index = unread_index(self._data, name, group)
        if index is None:
            return _KEPT_COLUMN_BYTES
        few = OBJECT_STORE_MAX_GAP if index else _FEW_BYTES
        return _KEPT_COLUMN_BYTES if self._data.column_bytes(group, name) <= few else -1

    def _wanted_ranges(self, rows: Sequence[tuple[int, Ints]], names: Sequence[str]) -> list[Range]:
        """Return where in an object the bytes lie that rows need: of whole columns, or of pages.

        The rows are given by row group.
        """
        found, paged = list[Range](), list[tuple[str, int, Ints]]()
        for group, inside in rows:
            for name in self._absent(group, names):
                if self._cache is None or self._kept_bytes(group, name) < 0:
                    paged.append((name, group, inside))
                else:
                    found += self._data.ranges(group, [name])
        indexes = [one for name, group, _ in paged for one in unread_index(self._data, name, group) or ()]
        with self._data.ahead(indexes):
            pages = [(column_pages(self._data, name, group), inside) for name, group, inside in paged]
        return found + [one for each, inside in pages if each is not None for one in each.ranges(each.pages_of(inside))]

    def _absent(self, group: int, names: Sequence[str], most: int | None = None) -> list[str]:
        """Return the columns of the file that are not in memory; with `most`, those of up to so many plain bytes."""
        return [
            field.name
            for field in self._spec.fields(names)
            if field.name not in self._constants
            and self._has(field.name)
            and (most is None or self._data.plain_bytes(group, field.name) <= most)
            and (self._cache is None or self._cache.get(self._column_key(group, field)) is None)
        ]

    def _paged_rows(self, group: int, inside: Ints, name: str) -> pa.ChunkedArray | None:
        """Return a large column of a few rows from their pages, or None if reading the column in sequence is faster."""
        pages = column_pages(self._data, name, group)
        if pages is None or not (self._data.is_remote or pages.are_faster_read(inside)):
            return None
        return conform(pages.rows(self._data, inside), self._spec.fields([name])).column(0)

    def _picked(self, group: int, inside: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        parts, done = [], 0
        last = int(inside[-1])
        for batch in self._batches(group, names, _FETCH_BATCH_ROWS):
            wanted = inside[(inside >= done) & (inside < done + batch.num_rows)] - done
            if len(wanted):
                parts.append(self._conformed(batch.take(pa.array(wanted)), names))
            done += batch.num_rows
            if done > last:
                break
        return pa.concat_tables(parts)

    def _batches(self, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        held = [name for name in names if name not in self._constants and self._has(name)]
        if not held:
            total = self._data.metadata.row_group(group).num_rows
            for start in range(0, total, rows):
                count = min(rows, total - start)
                yield pa.RecordBatch.from_arrays([pa.nulls(count)], names=["\0"])
            return
        stored = sum(self._data.column_bytes(group, name) for name in held)
        # Without a cache no more than a read is held.
        ranges = self._data.ranges(group, held) if self._cache is not None or stored <= MAX_READ else []
        with self._data.ahead(ranges):
            yield from self._data.batches(group, held, rows)

    def _parts(self, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch | pa.Table]:
        """Yield columns of a row group as stored, without a cache; between the parts no room of other reads is held."""
        held = [name for name in names if name not in self._constants and self._has(name)]
        stored = sum(self._data.column_bytes(group, name) for name in held)
        if self.is_local or not held or stored > MAX_READ:
            yield from self._batches(group, names, rows)
            return
        whole = self._data.columns(group, held)
        yield from (whole.slice(start, rows) for start in range(0, whole.num_rows, rows))

    def _kept_column(self, group: int, name: str, most: int = _KEPT_COLUMN_BYTES) -> pa.ChunkedArray | None:
        """Return a whole column of a row group in the table's type, through the cache.

        None means that there is no cache or that the column, of more than `most` bytes, is too large to be read whole.
        """
        if name in self._constants:
            return self._constant(name, self._data.metadata.row_group(group).num_rows)
        field = self._spec.fields([name])[0]
        key = self._column_key(group, field)
        found: pa.ChunkedArray | None = None if self._cache is None else self._cache.get(key)
        note("columns", key, is_kept=found is not None)
        if self._cache is None:
            return None
        if found is None and self._data.plain_bytes(group, name) <= most:
            rows = self._data.metadata.row_group(group).num_rows
            if self._has(name):
                found = conform(self._data.columns(group, [name]), [field]).column(0)
            else:
                found = pa.chunked_array([pa.nulls(rows, field.type)])
            self._cache.put(key, found, found.nbytes + 256)
        return found

    def _conformed(self, batch: pa.RecordBatch | pa.Table, names: Sequence[str]) -> pa.Table:
        """Return the columns of a batch in the table's types, including the constant ones."""
        table = conform(batch, self._spec.fields(names))
        for index, name in enumerate(names):
            if name in self._constants:
                table = table.set_column(index, name, self._constant(name, table.num_rows))
        return table

    def _constant(self, name: str, rows: int) -> pa.ChunkedArray:
        return pa.chunked_array([pa.repeat(self._constants[name], rows)])

    def _column_key(self, group: int, field: pa.Field) -> tuple[object, ...]:
        return (self._file, group, "column", field.name, str(field.type))


def _empty_block(spec: ScanSpec) -> VectorBlock:
    empty = np.empty((0, spec.column.dimension), spec.column.dtype)
    nothing = np.empty(0, np.int64)
    return VectorBlock(empty, nothing, np.empty(0, np.float32), nothing)
