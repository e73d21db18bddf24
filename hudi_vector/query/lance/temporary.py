"""Rows into a Lance dataset that is made to be searched and then removed: what each writer does, and the commit."""

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
    """What one writer wrote: fragments as JSON, and what became of its rows. `left_out` have no usable vector."""

    fragments: tuple[str, ...]
    rows: int
    nbytes: int
    left_out: int


@dataclass(frozen=True)
class TempTable:
    """A table that is being written. Picklable: writers get it.

    `place` is where, in a folder that a `TempArea` made; `fields` are the columns with their own names, which Lance
    might refuse, and `column` is the searched one of them. A dimension of 0 is one that is not known yet.
    """

    place: str
    fields: tuple[pa.Field, ...]
    column: VectorColumn
    max_bytes: int
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    @property
    def physical(self) -> dict[str, str]:
        """The name of each column in the dataset."""
        return {field.name: f"c{number}" for number, field in enumerate(self.fields)}

    @property
    def ties(self) -> tuple[str, ...]:
        """The columns, by their names in the dataset, that order rows of equal distance: Hudi's keys, or all."""
        physical = self.physical
        keyed = all(name in physical for name in TIE_COLUMNS)
        return tuple(physical[name] for name in (TIE_COLUMNS if keyed else physical))

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenPart:
        """Write rows to fragments of their own.

        Args:
            batches: Rows with the table's columns.

        Returns:
            What was written; it is no part of the dataset until `commit`.

        Raises:
            UnsupportedTableError: This process does not see the folder that the dataset goes to.
            RefusedError: All writers together wrote more than they may.
            DataFileError: The storage did not take the rows.
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
        """Make a dataset of what was written.

        Args:
            parts: From all writers, in the order the fragments get.

        Returns:
            The dataset, to be searched by the names of `physical`.

        Raises:
            RefusedError: It is larger than it may be.
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
        """The rows of a batch that have a usable vector, as they are stored."""
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
        """The error for more bytes than are allowed."""
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
    """The batches a writer stores; what went wrong with them is kept, since pylance passes on its text alone."""

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
        """Look now and then at what all writers wrote, so that a disk is not filled before the commit."""
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
    """Why values of a type cannot be kept in a Lance dataset, or None.

    Args:
        kind: A type that Spark has.

    Returns:
        The reason, as the end of a sentence.

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
