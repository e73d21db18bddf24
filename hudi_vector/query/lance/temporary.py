"""Temporary Lance datasets, written to be searched and then removed: the work of each writer, and the commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector import options
from hudi_vector.errors import DataFileError, RefusedError, UnsupportedTableError, first_line
from hudi_vector.query.lance.dataset import LanceDataset
from hudi_vector.read.conform import conform
from hudi_vector.read.lance_fragment import lance_path
from hudi_vector.read.spec import TIE_COLUMNS, ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.storage import StorageOptions, join, lance_options, open_storage, scheme_of
from hudi_vector.storage.temp_area import lease_is_there
from hudi_vector.table.model import Snapshot

__all__ = ["TempTable", "WrittenPart", "unstorable"]

_FRAGMENT_ROWS = 1 << 18
_FRAGMENT_BYTES = 512 << 20
_LOOK_EVERY_BYTES = 64 << 20


@dataclass(frozen=True)
class WrittenPart:
    """The result of one writer: fragments as JSON, rows and bytes written; `left_out` rows have no usable vector."""

    fragments: tuple[str, ...]
    rows: int
    nbytes: int
    left_out: int


@dataclass(frozen=True)
class TempTable:
    """A table that is being written to a Lance dataset. Picklable: writers get it.

    `place` is the dataset's URI, in a folder that a `TempArea` made. `fields` are the columns under their own names,
    which Lance might refuse; `column` is the searched one of them. Its dimension is 0 if it is not known yet.
    """

    place: str
    fields: tuple[pa.Field, ...]
    column: VectorColumn
    max_bytes: int
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    @property
    def physical(self) -> dict[str, str]:
        """Return the name of each column in the dataset."""
        return {field.name: f"c{number}" for number, field in enumerate(self.fields)}

    @property
    def ties(self) -> tuple[str, ...]:
        """Return the dataset's columns that order rows of equal distance: Hudi's keys if present, otherwise all."""
        physical = self.physical
        keyed = all(name in physical for name in TIE_COLUMNS)
        return tuple(physical[name] for name in (TIE_COLUMNS if keyed else physical))

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenPart:
        """Write rows, given with the table's columns, to separate fragments.

        They are not part of the dataset until `commit`. Raises UnsupportedTableError if this process does not see the
        dataset's folder, RefusedError if all writers together wrote more than `max_bytes`, and DataFileError if storage
        fails.
        """
        from lance.fragment import write_fragments

        folder = self.place.rpartition("/")[0]
        if not lease_is_there(folder, self.options):
            raise UnsupportedTableError(
                f"a task does not see '{folder}', where the driver made a folder for a computed side of a join; set "
                f"{options.JOIN_TEMP_DIR.key} to a place on a file system that all executors share"
            )
        rows = _Rows(self, batches)
        schema = self._stored_schema()
        first = next(rows, None)
        if first is None:
            return WrittenPart((), 0, 0, rows.left_out)
        try:
            written = write_fragments(
                pa.RecordBatchReader.from_batches(schema, _chain(first, rows)),
                lance_path(self.place),
                schema=schema,
                mode="create",
                max_rows_per_file=_FRAGMENT_ROWS,
                max_bytes_per_file=_FRAGMENT_BYTES,
                storage_options=lance_options(scheme_of(self.place), self.options.at(self.place)),
            )
        except (OSError, ValueError) as problem:
            if rows.problem is not None:
                raise rows.problem from None
            raise DataFileError(f"rows cannot be written to '{self.place}': {first_line(problem)}") from problem
        fragments = [part.to_json() for part in written]
        nbytes = sum(file["file_size_bytes"] or 0 for part in fragments for file in part["files"])
        return WrittenPart(tuple(json.dumps(part) for part in fragments), rows.kept, nbytes, rows.left_out)

    def commit(self, parts: Sequence[WrittenPart]) -> Snapshot:
        """Make a dataset of the parts of all writers, whose order is the order of the fragments.

        The columns of the returned snapshot have the names of `physical`. Raises RefusedError if the parts together
        have more than `max_bytes`.
        """
        import lance
        from lance.fragment import FragmentMetadata

        if sum(part.nbytes for part in parts) > self.max_bytes:
            raise self.too_large()
        fragments = [FragmentMetadata.from_json(text) for part in parts for text in part.fragments]
        lance.LanceDataset.commit(
            lance_path(self.place),
            lance.LanceOperation.Overwrite(self._stored_schema(), fragments),
            storage_options=lance_options(scheme_of(self.place), self.options.at(self.place)),
        )
        found = LanceDataset(self.place, self.options).snapshot()
        return replace(found, schema=pa.schema(self._logical_fields()), ties=self.ties)

    def stored(self, batch: pa.RecordBatch, counts: ScanCounts) -> pa.Table:
        """Return the rows of a batch that have a usable vector, in the stored form, and add to `counts`."""
        logical, own = self._logical_fields(), self.physical[self.column.name]
        table = conform(batch.rename_columns([field.name for field in logical]), logical).combine_chunks()
        counts.rows += table.num_rows
        vectors = _one_array(table.column(own))
        if self.column.dimension:
            block = block_of(vectors, self.column, np.arange(table.num_rows, dtype=np.int64), counts)
            if len(block) < table.num_rows:
                table = table.take(pa.array(block.positions))
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.values.reshape(-1)), type=self._vector_type())
        elif vectors.null_count:
            counts.nulls += vectors.null_count
            table = table.filter(vectors.is_valid())
            vectors = table.column(own)
        at = table.schema.get_field_index(own)
        return table.set_column(at, self._stored_schema().field(at), vectors)

    def too_large(self) -> RefusedError:
        """Return the error for more bytes than allowed."""
        return RefusedError(
            f"a computed side of the join has more than {options.JOIN_TEMP_MAX_BYTES.key} = {self.max_bytes} bytes; "
            "raise it, or join fewer rows or columns"
        )

    def _logical_fields(self) -> list[pa.Field]:
        return [field.with_name(f"c{number}").with_nullable(True) for number, field in enumerate(self.fields)]

    def _stored_schema(self) -> pa.Schema:
        own = self.physical[self.column.name]
        return pa.schema(
            [
                field.with_type(self._vector_type()) if field.name == own and self.column.dimension else field
                for field in self._logical_fields()
            ]
        )

    def _vector_type(self) -> pa.DataType:
        return pa.list_(pa.from_numpy_dtype(self.column.dtype), self.column.dimension)


class _Rows:
    """The batches that a writer stores; it keeps their exception, because pylance passes on only its text."""

    def __init__(self, table: TempTable, batches: Iterable[pa.RecordBatch]) -> None:
        self._table = table
        self._own = 0
        self._looked_at = 0
        self._source = self._stored(batches)
        self.problem: BaseException | None = None
        self.kept = 0
        self.left_out = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._source)
        except StopIteration:
            raise
        except BaseException as problem:
            self.problem = problem
            raise

    def _stored(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counts = ScanCounts()
            table = self._table.stored(batch, counts)
            self.kept += table.num_rows
            self.left_out += counts.rows - table.num_rows
            self._own += table.nbytes
            self._require_room()
            yield from table.to_batches()

    def _require_room(self) -> None:
        """Raise RefusedError if all writers together wrote too much.

        Checked after every 64 MB (or `max_bytes`, if less) of this writer, so that the disk does not fill up before the
        commit.
        """
        if self._own - self._looked_at < min(_LOOK_EVERY_BYTES, self._table.max_bytes):
            return
        self._looked_at = self._own
        place = join(self._table.place, "data")
        if (
            sum(file.size for file in open_storage(place, self._table.options).list_files(place))
            > self._table.max_bytes
        ):
            raise self._table.too_large()


def _one_array(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def unstorable(kind: pa.DataType) -> str | None:
    """Return why Lance cannot store values of a type, as the end of a sentence, or None if it can.

    Example:
        >>> unstorable(pa.list_(pa.struct([])))
        'Lance keeps no structs without fields'
    """
    if pa.types.is_struct(kind) and not kind.num_fields:
        return "Lance keeps no structs without fields"
    if pa.types.is_map(kind):
        return unstorable(kind.key_type) or unstorable(kind.item_type)
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return next((reason for reason in map(unstorable, parts) if reason), None)
