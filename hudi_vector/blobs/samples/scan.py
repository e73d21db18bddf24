"""Scan of file slices for samples: plain columns, and references in place of the bytes of blobs.

The bytes of INLINE blobs stay in their base file. Only those in log files, which have no place that could be read
later, are carried along until a compaction moves them to a base file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.reading.lazy import LAZY_TYPE
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.reading.wanted import wanted_of
from hudi_vector.blobs.scans.lazy_scan import LazyScan
from hudi_vector.blobs.scans.merged import KEY, SEQNO, logs_of, merge
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.read.conform import conform, vector_type
from hudi_vector.read.predicate.form import Predicate, evaluate
from hudi_vector.read.predicate.form import columns as columns_of
from hudi_vector.storage import FileInfo
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["SampleScan", "carried"]


def carried(blob: str) -> str:
    """Return the name of the column with the bytes that a BLOB column's references carry along; no table has it."""
    return f"{blob}\0bytes"


@dataclass(frozen=True)
class SampleScan:
    """The columns to find, and the filter that rows must pass; picklable.

    Attributes:
        snapshot: The table.
        plain: The plain columns to return.
        blobs: The BLOB columns of which references are returned, in `LAZY_TYPE`.
        predicate: The filter; None for all rows.
        zone: The zone of timestamps without one in the filter.
    """

    snapshot: Snapshot
    plain: tuple[str, ...]
    blobs: tuple[str, ...]
    predicate: Predicate | None
    zone: str

    def rows(self, file_slice: FileSlice) -> pa.Table:
        """Return the rows of a file slice: those of the base file in their order, then those of log files by key.

        Raises DataFileError if a file is gone or damaged, UnmergeableError if only Spark can merge its log files.
        """
        found = self._merged(file_slice) if file_slice.log_files else self._base(file_slice.base_file, ())
        if self.predicate is not None:
            found = found.filter(pa.array(evaluate(self.predicate, found, self.zone)))
        kept = [*self.plain, *self.blobs, *(carried(name) for name in self.blobs)]
        return found.select([name for name in kept if name in found.column_names])

    @property
    def _needed(self) -> list[str]:
        """Return the plain columns that are returned or filtered by."""
        filtered = () if self.predicate is None else sorted(columns_of(self.predicate))
        return list(dict.fromkeys((*self.plain, *filtered)))

    def _fields(self, names: Iterable[str]) -> list[pa.Field]:
        return [self.snapshot.schema.field(name) for name in names]

    def _base(self, file: FileInfo | None, more: Sequence[str]) -> pa.Table:
        """Return all rows of a base file, with `more` columns."""
        plain = self._fields(dict.fromkeys([*self._needed, *more]))
        blobs = [pa.field(name, LAZY_TYPE) for name in self.blobs]
        empty = pa.schema([*(pa.field(each.name, each.type) for each in plain), *blobs]).empty_table()
        if file is None:
            return empty
        options = self.snapshot.source.options
        first = LazyScan(self.blobs[0] if self.blobs else "", pa.schema([*plain, *blobs[:1]]), options)
        found = pa.concat_tables([empty.select(first.schema.names), *map(_table, first.batches(file))])
        for blob in blobs[1:]:
            own = pa.schema([blob])
            column = [own.empty_table(), *map(_table, LazyScan(blob.name, own, options).batches(file))]
            found = found.append_column(blob, pa.concat_tables(column).column(0))
        return found

    def _merged(self, file_slice: FileSlice) -> pa.Table:
        """Return the rows of a file slice with log files, merged as Hudi merges them."""
        logs = logs_of(self.snapshot, file_slice)
        if logs is None:
            return self._base(file_slice.base_file, ())
        found = self._base(file_slice.base_file, (KEY, SEQNO))
        merged = merge(self.snapshot, file_slice, found, logs)
        parts = [found.filter(pa.array(merged.stays)), self._logged(merged.logged)]
        return pa.concat_tables(parts, promote_options="default")

    def _logged(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Return rows of log files in the table's types."""
        columns = {}
        for field in self._fields(dict.fromkeys([*self._needed, KEY, SEQNO])):
            columns[field.name] = _column([row.get(field.name) for row in rows], field)
        for name in self.blobs:
            lazy, own = _references(BlobColumns.of(blob_rows([row.get(name) for row in rows])))
            columns |= {name: lazy, carried(name): own}
        return pa.table(columns)


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _column(values: list[Any], field: pa.Field) -> pa.ChunkedArray:
    """Return values of decoded rows in the type of the table's column."""
    vector = vector_type(field)
    try:
        if vector is not None and any(isinstance(value, bytes) for value in values):
            held = pa.array(values, pa.binary(vector.width))
        elif pa.types.is_map(field.type):
            held = pa.array([None if value is None else list(dict(value).items()) for value in values], field.type)
        else:
            held = pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        raise UnsupportedTableError(
            f"column '{field.name}' of a log file cannot be read as {field.type}: {problem}; compact the table first"
        ) from problem
    return conform(pa.table({field.name: held}), [field]).column(0)


def _references(blobs: BlobColumns) -> tuple[pa.StructArray, pa.BinaryArray]:
    """Return the references of blobs of log files, and the bytes of those that are INLINE, NULL for the others."""
    wanted = wanted_of(blobs)
    count, inline = len(wanted), pa.array(wanted.inline)
    empty = pa.nulls(count, pa.int64())
    fields = [blobs.path, blobs.offset, blobs.length, empty, pa.array(np.zeros(count, np.bool_))]
    lazy = pa.StructArray.from_arrays(fields, fields=list(LAZY_TYPE), mask=pa.array(~wanted.refers))
    return lazy, pc.if_else(inline, blobs.data, pa.scalar(None, pa.binary()))
