"""Slices of a Lance base file alone, through pylance's file reader."""

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
from hudi_vector.read.predicate import Predicate, evaluate
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.read.vector_pages import RangeReads
from hudi_vector.read.vectors import block_of, chosen_of, rows_within
from hudi_vector.storage import FileInfo, StorageOptions, lance_options, scheme_of

__all__ = ["LanceSlice", "lance_reader"]

_BATCH_ROWS = 8192
_SUITED = RangeReads()


class LanceSlice:
    """One Lance base file, opened for one search.

    Args:
        file: The base file.
        spec: What is read.
        keep: Whether decoded vectors are kept in the process's cache.
    """

    def __init__(self, file: FileInfo, spec: ScanSpec, keep: bool) -> None:
        self._file = file
        self._spec = spec
        self._cache: ByteCache | None = process_cache() if keep and process_cache().budget else None

    def blocks(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        """The rows under the predicate that have a vector, counted on the way."""
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
        """Columns of the rows at these positions, in the table's types and in this order."""
        order = np.argsort(positions, kind="stable")
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        reader, held = self._open(names)
        rows_within(positions, reader.num_rows(), self._file.uri)
        if not held:
            return conform(pa.table({"\0": pa.nulls(len(positions))}), self._spec.fields(names))
        read = reader.take_rows([int(row) for row in positions[order]]).to_table()
        return conform(read.take(pa.array(back)), self._spec.fields(names))

    def vectors_at(
        self,
        positions: Ints,
        counts: ScanCounts,
        reads: RangeReads = _SUITED,  # noqa: ARG002 - pylance plans its own reads
    ) -> VectorBlock:
        """The vectors of some rows, whatever the predicate says of them, by pylance's own random access.

        Args:
            positions: Rows of the file, shape (n,), in any order.
            counts: Where NULL and invalid vectors are counted; rows are not.
            reads: As for Parquet files; of no effect here.

        Returns:
            Those of the rows that have a vector, ascending by position, each once.

        Raises:
            DataFileError: The file is damaged, or has no such row.
        """
        reader, held = self._open([self._spec.column.name])
        wanted = rows_within(positions, reader.num_rows(), self._file.uri)
        kept = self._cache.get(self._blocks_key(None)) if self._cache is not None else None
        if kept is not None and kept[0]:
            return chosen_of(kept[0], wanted, counts)
        read = reader.take_rows(wanted.tolist()).to_table() if held and len(wanted) else None
        array = pa.nulls(len(wanted), pa.list_(pa.float32())) if read is None else read.column(0).combine_chunks()
        return block_of(array, self._spec.column, wanted, counts)

    def _blocks_key(self, predicate: Predicate | None) -> tuple[object, ...]:
        return (self._file, "lance", self._spec.column, predicate, self._spec.zone)

    def _scan(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        spec = self._spec
        names = list(dict.fromkeys([spec.column.name, *spec.filter_columns]))
        reader, held = self._open(names)
        total = reader.num_rows()
        if not held:
            counts.rows += total
            counts.nulls += total
            return
        done = 0
        for batch in reader.read_all(batch_size=_BATCH_ROWS).to_batches():
            positions = np.arange(done, done + batch.num_rows, dtype=np.int64)
            done += batch.num_rows
            counts.rows += batch.num_rows
            index = batch.schema.get_field_index(spec.column.name)
            array: Any = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows, pa.list_(pa.float32()))
            if spec.predicate is not None:
                mask = evaluate(spec.predicate, conform(batch, spec.fields(spec.filter_columns)), spec.zone)
                counts.filtered += int((~mask).sum())
                positions, array = positions[mask], array.filter(pa.array(mask))
            if len(array):
                yield block_of(array, spec.column, positions, counts)

    def _open(self, names: Sequence[str]) -> tuple[Any, list[str]]:
        """A reader of those of the columns that the file has, and which these are."""
        present = lance_reader(self._file.uri, self._spec.options).metadata().schema.names
        held = [name for name in names if name in present]
        return lance_reader(self._file.uri, self._spec.options, held or None), held


def lance_reader(uri: str, options: StorageOptions, columns: list[str] | None = None) -> Any:
    """A reader of a Lance file.

    Args:
        uri: The file, as `hudi_vector.storage.normalise` spells it.
        options: How storage is opened.
        columns: The columns that are read, fields of structs with dots; all by default.

    Returns:
        A ``lance.file.LanceFileReader``.

    Raises:
        DataFileError: The file is gone or no whole Lance file.
    """
    from lance.file import LanceFileReader

    scheme = scheme_of(uri)
    path = uri[len("file://") :] if scheme == "file" else uri
    try:
        return LanceFileReader(path, storage_options=lance_options(scheme, options), columns=columns)
    except (OSError, ValueError) as problem:
        raise DataFileError(f"the data file '{uri}' cannot be read: {problem}") from problem
