"""The reader of file slices with log files: the merged view, by hudi-rs.

hudi-rs does not promise an order of merged rows, so rows are identified by record key and commit sequence number. A
position is only the place of a row in one scan of the slice.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import DataFileError, HudiVectorError, UnmergeableError
from hudi_vector.kernels.topk import VectorBlock
from hudi_vector.read.cache import ByteCache, process_cache
from hudi_vector.read.conform import conform
from hudi_vector.read.logs.merged_rows import Asked, KeptColumns, is_small, select_rows
from hudi_vector.read.logs.partial_rows import whole_rows_follow_partial_ones
from hudi_vector.read.old_calendar import has_times
from hudi_vector.read.parquet.data_file import DataFile
from hudi_vector.read.several import SearchColumn, Together, blocks_of
from hudi_vector.read.spec import TIE_COLUMNS, ScanCounts, ScanSpec
from hudi_vector.storage import hudi_rs_options, open_storage, scheme_of
from hudi_vector.table.model import FileSlice

__all__ = ["MergedSlice", "SlicePlace", "unmergeable"]

_BATCH_ROWS = 8192
_OF_A_TYPE = re.compile(r"column '([^']+)' type ")
# The keys of rows that are no longer candidates are dropped once this many are held.
_HELD_ROWS = 1 << 16
# The columns of a slice take at most 1 / _KEPT_SHARE of the cache.
_KEPT_SHARE = 8


@dataclass(frozen=True)
class SlicePlace:
    """The place of a file slice for hudi-rs: paths relative to `uri`, which is opened with `options`.

    `base` is empty if the slice has no base file.
    """

    uri: str
    options: Mapping[str, str]
    base: str
    logs: tuple[str, ...]


class MergedSlice:
    """A reader of one file slice with log files, with or without a base file, for one search.

    With `keep`, the merged vectors are cached in the process.
    """

    kind = "merged"

    def __init__(self, file_slice: FileSlice, spec: ScanSpec, keep: bool) -> None:
        self._slice = file_slice
        self._spec = spec
        self._cache: ByteCache | None = process_cache() if keep and process_cache().budget else None
        self._ties = _Ties()

    def blocks(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        """Yield the rows that pass the predicate and have a vector, and add to `counts`."""
        for (block,) in self.several((self._spec.column,), counts):
            assert isinstance(block, VectorBlock)
            yield block

    def several(self, columns: tuple[SearchColumn, ...], counts: ScanCounts) -> Iterator[Together]:
        """Yield blocks of several columns over the rows that pass the predicate and have a vector in each column.

        `columns` replace the column of the specification. Rows are added to `counts`.
        """
        key = (self._slice.files, self.kind, columns, self._spec.predicate, self._spec.zone, self._spec.carried)
        if self._cache is not None:
            kept = self._cache.get(key)
            if kept is not None:
                blocks, self._ties, own = kept
                counts.add(own)
                counts.cached_slices += 1
                yield from blocks
                return
        own, blocks, size = ScanCounts(), [], 0
        for found in self._scan(columns, own):
            if self._cache is None:
                yield found
            else:
                blocks.append(found)
                size += sum(block.nbytes for block in found)
        own.bytes_read += self.size
        counts.add(own)
        if self._cache is not None:
            own.bytes_read = 0
            self._cache.put(key, (blocks, self._ties, own), size + self._ties.nbytes)
            yield from blocks

    @property
    def _carried(self) -> tuple[str, ...]:
        """Return the columns that rows bring along while they are scanned: their keys, and those of their groups."""
        return tuple(dict.fromkeys((*TIE_COLUMNS, *self._spec.carried)))

    @property
    def size(self) -> int:
        """Return the bytes of the files that one scan reads."""
        return self._slice.size

    def retain(self, candidates: Callable[[], Sequence[npt.NDArray[np.int64]]]) -> None:
        """Drop the keys of all rows scanned so far except the candidates, unless the scan is cached.

        `candidates` returns the positions to keep; it is called only when many keys are held.
        """
        if self._cache is None and self._ties.are_many:
            self._ties.retain(candidates())

    def rows(self, positions: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Return columns of the rows at these positions of the last scan, in the table's types and in this order."""
        wanted = self._ties.at(positions)
        if wanted is None:
            return conform(pa.table({}), self._spec.fields(names))
        if set(names) <= set(self._carried):
            return wanted.select(list(names))
        return self.rows_of(wanted, names)

    def rows_of(self, keys: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return columns of the rows with these record keys and commit sequence numbers, in this order.

        `keys` is a table with the columns of `TIE_COLUMNS`. Raises DataFileError if a row is no longer in the slice.
        """
        asked = Asked(keys)
        found = self._kept_rows(asked, names) if self._cache is not None and self._all_small(names) else None
        if found is None:
            needed = list(dict.fromkeys([*names, *TIE_COLUMNS]))
            fields = self._spec.fields(names)
            found = select_rows(asked, self._stream(needed), lambda batch: conform(batch, fields))
        if found is None:
            raise DataFileError(f"rows of file group '{self._slice.file_id}' are no longer in its slice")
        return found

    def tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 - hudi-rs cuts the rows
        """Yield columns of all merged rows that pass the predicate, in no order, some thousand rows at a time."""
        spec = self._spec
        for batch in self._stream([*names, *spec.filter_columns]):
            part = conform(batch, spec.fields(names))
            yield part if spec.predicate is None else part.filter(pa.array(self._spec.passing(batch)))

    def require_mergeable(self, names: Sequence[str]) -> None:
        """Merge the slice once, with the columns of the search and `names`, and discard the result.

        Raises UnmergeableError if hudi-rs cannot merge the slice and only Spark can.
        """
        spec = self._spec
        for _ in self._stream([spec.column.name, *TIE_COLUMNS, *spec.filter_columns, *names]):
            pass

    def _all_small(self, names: Sequence[str]) -> bool:
        return all(is_small(field.type) for field in self._spec.fields(names))

    def _kept_rows(self, asked: Asked, names: Sequence[str]) -> pa.Table | None:
        """Return the rows from whole cached columns, which are read if needed; None if they are too large for that.

        None also means that a row is not in the slice.
        """
        assert self._cache is not None
        key = (self._slice.files, self.kind, "columns")
        too_large = (*key, tuple(names))
        if self._cache.get(too_large):
            return None
        kept: KeptColumns | None = self._cache.get(key)
        if kept is None or not kept.has(self._spec.fields(names)):
            before = kept.rows.column_names if kept is not None else TIE_COLUMNS
            again = [name for name in before if name in self._spec.schema.names]
            kept = self._whole_columns(list(dict.fromkeys([*again, *names])), self._cache.budget // _KEPT_SHARE)
            if kept is None:
                self._cache.put(too_large, True, 1024)
                return None
            self._cache.put(key, kept, kept.nbytes)
        return kept.select(asked, names)

    def _whole_columns(self, names: Sequence[str], limit: int) -> KeptColumns | None:
        fields, parts, size = self._spec.fields(names), [], 0
        for batch in self._stream(names):
            parts.append(conform(batch, fields))
            size += parts[-1].nbytes
            if size > limit:
                return None
        return KeptColumns(pa.concat_tables(parts).combine_chunks()) if parts else None

    def _scan(self, columns: tuple[SearchColumn, ...], counts: ScanCounts) -> Iterator[Together]:
        spec = self._spec
        self._ties = _Ties()
        done = 0
        for batch in self._stream([*(column.name for column in columns), *self._carried, *spec.filter_columns]):
            positions = np.arange(done, done + batch.num_rows, dtype=np.int64)
            done += batch.num_rows
            counts.rows += batch.num_rows
            self._ties.add(conform(batch, spec.fields(self._carried)))
            mask = None
            if spec.predicate is not None:
                mask = self._spec.passing(batch)
                counts.filtered += int((~mask).sum())
            found = blocks_of(batch, columns, positions, mask, counts)
            if found is not None:
                yield found

    def _stream(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from hudi import HudiFileGroupReader, HudiReadOptions

        present = [name for name in dict.fromkeys(names) if self._spec.schema.get_field_index(name) >= 0]
        self._require_new_calendar(present)
        self._require_whole_rows()
        try:
            with self._opened(present) as place:
                reader = HudiFileGroupReader(place.uri, dict(place.options))
                wanted = HudiReadOptions(projection=present).with_batch_size(_BATCH_ROWS)
                for batch in reader.read_file_slice_from_paths_stream(place.base, list(place.logs), wanted):
                    # hudi-rs may return a whole slice in one batch.
                    whole = pa.record_batch(batch)
                    for start in range(0, whole.num_rows, _BATCH_ROWS):
                        yield whole.slice(start, _BATCH_ROWS)
        except Exception as problem:
            raise self._failure(problem) from problem

    def _require_new_calendar(self, names: Sequence[str]) -> None:
        """Raise UnmergeableError if the base file has values of an older calendar, which hudi-rs does not know."""
        base = self._slice.base_file
        times = [field.name for field in self._spec.fields(names) if has_times(field.type)]
        if times and base is not None and base.name.endswith(".parquet"):
            with contextlib.closing(DataFile(base, self._spec.options, mapped=False)) as data:
                data.require_new_calendar(times)

    def _require_whole_rows(self) -> None:
        """Raise UnmergeableError where rows of some columns are to be filled from late ones by event time."""
        logs = self._slice.log_files
        if self._spec.by_event_time and whole_rows_follow_partial_ones(logs, self._spec.options):
            raise UnmergeableError(
                f"the log files of file group '{self._slice.file_id}' hold some columns of rows, and later the same "
                "rows whole, which only Spark merges as Hudi does; search in a session of Spark, or let Hudi "
                "compact the table"
            )

    @contextlib.contextmanager
    def _opened(self, names: Sequence[str]) -> Iterator[SlicePlace]:  # noqa: ARG002 - a subclass may provide only `names`
        """Provide the place of the slice for a read of these columns; valid inside the context only."""
        yield self._place()

    def _place(self) -> SlicePlace:
        uri = self._spec.table_uri
        start = len(uri) + 1
        return SlicePlace(
            uri,
            hudi_rs_options(scheme_of(uri), self._spec.options.at(uri)),
            self._slice.base_file.uri[start:] if self._slice.base_file else "",
            tuple(log.uri[start:] for log in self._slice.log_files),
        )

    def _failure(self, problem: Exception) -> HudiVectorError:
        """Convert a problem of hudi-rs to DataFileError if a file is missing, else to UnmergeableError.

        hudi-rs distinguishes the two cases only in the text of its message, so the files are looked up. Errors of this
        package are returned as they are.
        """
        if isinstance(problem, HudiVectorError):
            return problem
        storage = open_storage(self._spec.table_uri, self._spec.options)
        for file in self._slice.files:
            if storage.info(file.uri) is None:
                return DataFileError(f"the data file '{file.uri}' cannot be opened: it is gone")
        return unmergeable(self._slice.file_id, problem)


def unmergeable(file_id: str, problem: Exception) -> UnmergeableError:
    """Return the error for log files of a file group that hudi-rs did not merge, with what it said, in short."""
    said = str(problem).strip().partition("\n")[0]
    column = _OF_A_TYPE.search(said)
    why = f"hudi-rs does not read the type of column '{column[1]}' from them" if column else said[:200]
    return UnmergeableError(
        f"the log files of file group '{file_id}' cannot be merged here: {why}; search in a session of Spark, or let "
        "Hudi compact the table"
    )


class _Ties:
    """The key columns of the rows of one scan, by position; rows that are no longer candidates can be dropped."""

    def __init__(self) -> None:
        self._done = 0
        self._parts: list[pa.Table] = []
        self._positions: list[npt.NDArray[np.int64]] = []
        self._held = 0
        self._limit = _HELD_ROWS

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns."""
        return sum(part.nbytes for part in self._parts)

    @property
    def are_many(self) -> bool:
        """Return True if more rows are held than the limit, so that some should be dropped."""
        return self._held > self._limit

    def add(self, part: pa.Table) -> None:
        """Add the keys of the next rows of the scan."""
        self._parts.append(part)
        self._positions.append(np.arange(self._done, self._done + part.num_rows, dtype=np.int64))
        self._done += part.num_rows
        self._held += part.num_rows

    def at(self, positions: npt.NDArray[np.int64]) -> pa.Table | None:
        """Return the keys at these positions, which must not have been dropped; None if nothing was read."""
        if not self._parts:
            return None
        rows = pa.concat_tables(self._parts)
        if self._held == self._done:  # nothing was dropped, so a position is a row of the table
            return rows.take(pa.array(positions))
        return rows.take(pa.array(np.searchsorted(np.concatenate(self._positions), positions)))

    def retain(self, positions: Sequence[npt.NDArray[np.int64]]) -> None:
        """Drop all keys except those at these positions."""
        kept = np.unique(np.concatenate(positions))
        part = self.at(kept)
        assert part is not None
        self._parts, self._positions, self._held = [part], [kept], len(kept)
        self._limit = max(_HELD_ROWS, 2 * len(kept))
