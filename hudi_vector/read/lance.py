"""Readers of Lance base files without log files, and of fragments of Lance datasets, through pylance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.kernels.topk import Ints, VectorBlock
from hudi_vector.read.cache import ByteCache, process_cache
from hudi_vector.read.conform import conform
from hudi_vector.read.lance_fragment import FragmentRows, StoredRows, lance_path
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.read.parquet.vector_pages import RangeReads
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.read.vectors import block_of, chosen_of, rows_within
from hudi_vector.storage import FileInfo, StorageOptions, lance_options, scheme_of
from hudi_vector.table.model import FragmentInfo

__all__ = ["LanceSlice", "lance_reader"]

_BATCH_ROWS = 8192
_SUITED = RangeReads()


class LanceSlice:
    """A reader of one Lance base file, or one fragment of a Lance dataset, for one search.

    With `keep`, decoded vectors are cached in the process.
    """

    def __init__(self, file: FileInfo, spec: ScanSpec, keep: bool) -> None:
        self._file = file
        self._spec = spec
        self._cache: ByteCache | None = process_cache() if keep and process_cache().budget else None

    def blocks(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        """Yield the rows that pass the predicate and have a vector, and add to `counts`."""
        key = self._blocks_key(self._spec.predicate)
        kept = self._cache.get(key) if self._cache is not None else None
        if kept is not None:
            blocks, own = kept
            counts.add(own)
            counts.cached_slices += 1
            yield from blocks
            return
        own, blocks = ScanCounts(), []
        for block in self._scan(own):
            if self._cache is not None:
                blocks.append(block)
            yield block
        own.bytes_read = self._file.size
        counts.add(own)
        if self._cache is not None:
            own.bytes_read = 0
            self._cache.put(key, (blocks, own), sum(block.nbytes for block in blocks) + 1024)

    def rows(self, positions: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Return columns of the rows at these positions, in the table's types and in the order of `positions`."""
        stored = self._stored()
        held = [name for name in names if name in stored.names]
        wanted, back = np.unique(positions, return_inverse=True)
        wanted = rows_within(wanted, stored.rows, self._file.uri)
        if not held or not len(wanted):
            return conform(pa.table({"\0": pa.nulls(len(positions))}), self._spec.fields(names))
        with reading(self._file.uri):
            read = stored.take(wanted, held)
        return conform(read.take(pa.array(back.ravel())), self._spec.fields(names))

    def tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:  # noqa: ARG002 - Lance cuts the rows
        """Yield columns of all live rows that pass the predicate, in the order of the file, 8192 rows at a time."""
        spec, stored = self._spec, self._stored()
        held = [name for name in dict.fromkeys([*names, *spec.filter_columns]) if name in stored.names]
        with reading(self._file.uri):
            for _, batch in stored.batches(held or list(stored.names[:1])):
                part = conform(batch, spec.fields(names))
                if spec.predicate is not None:
                    mask = spec.passing(batch)
                    part = part.filter(pa.array(mask))
                yield part

    def vectors_at(
        self,
        positions: Ints,
        counts: ScanCounts,
        reads: RangeReads = _SUITED,  # noqa: ARG002 - pylance plans its own reads
    ) -> VectorBlock:
        """Return the vectors at positions in any order, regardless of the predicate, by pylance's random access.

        The block is ascending by position, without duplicates and rows that have no vector. NULL and invalid vectors
        are added to `counts`, rows are not. Raises DataFileError if the file is damaged or has no such row.
        """
        stored, name = self._stored(), self._spec.column.name
        wanted = rows_within(positions, stored.rows, self._file.uri)
        kept = self._cache.get(self._blocks_key(None)) if self._cache is not None else None
        if kept is not None and kept[0]:
            return chosen_of(kept[0], wanted, counts)
        array = pa.nulls(len(wanted), pa.list_(pa.float32()))
        if name in stored.names and len(wanted):
            with reading(self._file.uri):
                array = stored.take(wanted, [name]).column(0).combine_chunks()
        return block_of(array, self._spec.column, wanted, counts)

    @property
    def live(self) -> int:
        """Return the number of rows that are not deleted."""
        return self._stored().live

    def allowed(self, counts: ScanCounts) -> npt.NDArray[np.bool_]:
        """Return a mask over all positions of the live rows that pass the predicate, and add to `counts`."""
        spec, stored = self._spec, self._stored()
        mask = np.zeros(stored.rows, np.bool_)
        held = [name for name in spec.filter_columns if name in stored.names]
        for positions, batch in stored.batches(held or [spec.column.name]):
            kept = np.ones(batch.num_rows, np.bool_)
            if spec.predicate is not None:
                kept = spec.passing(batch)
            mask[positions[kept]] = True
            counts.rows += batch.num_rows
            counts.filtered += int((~kept).sum())
        return mask

    def _blocks_key(self, predicate: Predicate | None) -> tuple[object, ...]:
        return (self._file, "lance", self._spec.column, predicate, self._spec.zone)

    def _scan(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        spec, stored = self._spec, self._stored()
        names = list(dict.fromkeys([spec.column.name, *spec.filter_columns]))
        held = [name for name in names if name in stored.names]
        if spec.column.name not in held:
            counts.rows += stored.live
            counts.nulls += stored.live
            return
        for offsets, batch in stored.batches(held):
            counts.rows += batch.num_rows
            positions, array = offsets, batch.column(batch.schema.get_field_index(spec.column.name))
            if spec.predicate is not None:
                mask = spec.passing(batch)
                counts.filtered += int((~mask).sum())
                positions, array = positions[mask], array.filter(pa.array(mask))
            if len(array):
                yield block_of(array, spec.column, positions, counts)

    def _stored(self) -> StoredRows:
        if isinstance(self._file, FragmentInfo):
            return FragmentRows(self._file, self._spec.options)
        return _FileRows(self._file.uri, self._spec.options)


class _FileRows:
    """The rows of a Lance file."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._options = options
        head = lance_reader(uri, options)
        self.names: Sequence[str] = head.metadata().schema.names
        self.rows = self.live = int(head.num_rows())

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        done = 0
        for batch in self._reader(names).read_all(batch_size=_BATCH_ROWS).to_batches():
            yield np.arange(done, done + batch.num_rows, dtype=np.int64), batch
            done += batch.num_rows

    def take(self, positions: Ints, names: Sequence[str]) -> pa.Table:
        return self._reader(names).take_rows(positions.tolist()).to_table()

    def _reader(self, names: Sequence[str]) -> Any:
        return lance_reader(self._uri, self._options, list(names))


def lance_reader(uri: str, options: StorageOptions, columns: list[str] | None = None) -> Any:
    """Return a ``lance.file.LanceFileReader`` for a URI in the form of `hudi_vector.storage.normalise`.

    `columns` selects columns, with dots for fields of structs; None selects all. Raises DataFileError if the file is
    missing or not a complete Lance file.
    """
    from lance.file import LanceFileReader

    try:
        return LanceFileReader(
            lance_path(uri), storage_options=lance_options(scheme_of(uri), options.at(uri)), columns=columns
        )
    except (OSError, ValueError) as problem:
        raise DataFileError(f"the data file '{uri}' cannot be read: {problem}") from problem
