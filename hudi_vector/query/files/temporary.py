"""Temporary Parquet files, written to be searched and then removed: the work of each writer, and the snapshot of all.

Vectors are stored as in a VECTOR column, as bytes of one length, which are written and read faster than lists.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector import options
from hudi_vector.errors import DataFileError, RefusedError, UnsupportedTableError, first_line
from hudi_vector.query.files.plain_files import NO_KEYS, searched_field
from hudi_vector.read.conform import conform
from hudi_vector.read.spec import TIE_COLUMNS, ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.schema import VectorType
from hudi_vector.storage import Storage, StorageOptions, join, open_storage
from hudi_vector.storage.temp_area import lease_is_there
from hudi_vector.table.model import FileSlice, Snapshot, Source

__all__ = ["TempTable", "WrittenPart", "unstorable"]

_FILE_ROWS = 1 << 18
_FILE_BYTES = 512 << 20
_GROUP_BYTES = 16 << 20
_LOOK_EVERY_BYTES = 64 << 20


@dataclass(frozen=True)
class WrittenPart:
    """The result of one writer: names of files, rows and bytes written; `left_out` rows have no usable vector."""

    files: tuple[str, ...]
    rows: int
    nbytes: int
    left_out: int


@dataclass(frozen=True)
class TempTable:
    """A table that is being written to Parquet files. Picklable: writers get it.

    `place` is the URI of the files' folder, in a folder that a `TempArea` made. `fields` are the columns under their
    own names; `column` is the searched one of them, with its dimension.
    """

    place: str
    fields: tuple[pa.Field, ...]
    column: VectorColumn
    max_bytes: int
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    @property
    def physical(self) -> dict[str, str]:
        """Return the name of each column in the files, which differ in more than upper and lower case."""
        return {field.name: f"c{number}" for number, field in enumerate(self.fields)}

    @property
    def ties(self) -> tuple[str, ...]:
        """Return the columns of the files that order rows of equal distance: Hudi's keys if present, otherwise all."""
        physical = self.physical
        keyed = all(name in physical for name in TIE_COLUMNS)
        return tuple(physical[name] for name in (TIE_COLUMNS if keyed else physical))

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenPart:
        """Write rows, given with the table's columns, to separate files.

        Raises UnsupportedTableError if this process does not see the table's folder, RefusedError if all writers
        together wrote more than `max_bytes`, and DataFileError if storage fails.
        """
        folder = self.place.rpartition("/")[0]
        if not lease_is_there(folder, self.options):
            raise UnsupportedTableError(
                f"a task does not see '{folder}', where the driver made a folder for a computed side of a join; set "
                f"{options.JOIN_TEMP_DIR.key} to a place on a file system that all executors share"
            )
        writer = _Writer(self)
        try:
            for batch in batches:
                writer.add(batch)
            return writer.finish()
        except BaseException:
            writer.discard()
            raise

    def snapshot(self, parts: Sequence[WrittenPart]) -> Snapshot:
        """Return the files of all writers, a slice for each, in the order of the parts.

        The columns have the names of `physical`. Raises RefusedError if the parts together have more than `max_bytes`.
        """
        if sum(part.nbytes for part in parts) > self.max_bytes:
            raise self.too_large()
        # Tasks that failed, or ran twice, may have left other files.
        there = {file.name: file for file in open_storage(self.place, self.options).list_files(self.place)}
        files = [there[name] for part in parts for name in part.files]
        fields, at = self._logical_fields(), self._searched
        fields[at] = searched_field(fields[at], VectorType(self.column.dimension, self.column.element))
        return Snapshot(
            source=Source(self.place, self.place, self.options),
            config=NO_KEYS,
            identity=self.place,
            instant=None,
            watermark=None,
            schema=pa.schema(fields),
            file_slices=tuple(FileSlice("", file.uri, "", file) for file in files),
            ties=self.ties,
        )

    def stored(self, batch: pa.RecordBatch, counts: ScanCounts) -> pa.Table:
        """Return the rows of a batch that have a usable vector, in the stored form, and add to `counts`."""
        logical, at = self._logical_fields(), self._searched
        table = conform(batch.rename_columns([field.name for field in logical]), logical).combine_chunks()
        counts.rows += table.num_rows
        vectors = table.column(at)
        array = vectors.chunk(0) if vectors.num_chunks else pa.array([], vectors.type)
        block = block_of(array, self.column, np.arange(table.num_rows, dtype=np.int64), counts)
        if len(block) < table.num_rows:
            table = table.take(pa.array(block.positions))
        kind = pa.binary(self.column.dimension * self.column.dtype.itemsize)
        content = pa.py_buffer(np.ascontiguousarray(block.values, self.column.dtype))
        stored = pa.FixedSizeBinaryArray.from_buffers(kind, len(block), [None, content])
        return table.set_column(at, pa.field(logical[at].name, kind), stored)

    def too_large(self) -> RefusedError:
        """Return the error for more bytes than allowed."""
        return RefusedError(
            f"a computed side of the join has more than {options.JOIN_TEMP_MAX_BYTES.key} = {self.max_bytes} bytes; "
            "raise it, or join fewer rows or columns"
        )

    def _logical_fields(self) -> list[pa.Field]:
        return [field.with_name(f"c{number}").with_nullable(True) for number, field in enumerate(self.fields)]

    @property
    def _searched(self) -> int:
        return [field.name for field in self.fields].index(self.column.name)


class _Writer:
    """The files of one writer: rows are gathered to row groups, and a full file is followed by another one."""

    def __init__(self, table: TempTable) -> None:
        self._table = table
        self._storage = open_storage(table.place, table.options)
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._file: _File | None = None
        self._sizes: dict[str, int] = {}
        self._bytes = self._looked_at = 0
        self._rows = self._left_out = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch that have a usable vector, at the latest in `finish`."""
        counts = ScanCounts()
        rows = self._table.stored(batch, counts)
        self._rows += rows.num_rows
        self._left_out += counts.rows - rows.num_rows
        self._bytes += rows.nbytes
        self._require_room()
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= _GROUP_BYTES:
            self._flush()

    def finish(self) -> WrittenPart:
        """Write the rows that wait, and return what was written."""
        self._flush()
        self._end_file()
        return WrittenPart(tuple(self._sizes), self._rows, sum(self._sizes.values()), self._left_out)

    def discard(self) -> None:
        """Close the file that is being written, after a failure; what is in it stays until the place is removed."""
        if self._file is not None:
            self._file.discard()

    def _flush(self) -> None:
        rows = pa.concat_tables(self._waiting) if self._waiting else None
        self._waiting, self._waiting_bytes = [], 0
        if rows is None or not rows.num_rows:
            return
        if self._file is not None and self._file.is_full:
            self._end_file()
        with self._storing():
            if self._file is None:
                self._file = _File(self._storage, self._table.place, rows.schema)
            self._file.write(rows)

    def _end_file(self) -> None:
        if self._file is not None:
            with self._storing():
                self._sizes[self._file.name] = self._file.close()
            self._file = None

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as problem:
            raise DataFileError(f"rows cannot be written to '{self._table.place}': {first_line(problem)}") from problem

    def _require_room(self) -> None:
        """Raise RefusedError if all writers together wrote too much.

        Checked after every 64 MB (or `max_bytes`, if less) of this writer, so that the disk does not fill up before the
        last one ends.
        """
        if self._bytes - self._looked_at < min(_LOOK_EVERY_BYTES, self._table.max_bytes):
            return
        self._looked_at = self._bytes
        if sum(file.size for file in self._storage.list_files(self._table.place)) > self._table.max_bytes:
            raise self._table.too_large()


class _File:
    """A Parquet file that is being written. It is never made durable, since it ends with the application."""

    def __init__(self, storage: Storage, place: str, schema: pa.Schema) -> None:
        self.name = f"{uuid.uuid4().hex}.parquet"
        self._sink = storage.create(join(place, self.name))
        # The rows are searched once or a few times: encodings and statistics cost more than they save.
        self._writer = pq.ParquetWriter(
            self._sink.stream, schema, compression="none", use_dictionary=False, write_statistics=False
        )
        self._rows = self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Return True if further rows belong in another file."""
        return self._rows >= _FILE_ROWS or self._bytes >= _FILE_BYTES

    def write(self, rows: pa.Table) -> None:
        """Append rows as row groups."""
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes

    def close(self) -> int:
        """End the file and return its size in bytes."""
        self._writer.close()
        size = int(self._sink.stream.tell())
        self._sink.discard()
        return size

    def discard(self) -> None:
        """Close the file after a failure."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()  # otherwise it would try later to write its footer into a closed file
        with suppress(OSError):
            self._sink.discard()


def unstorable(kind: pa.DataType) -> str | None:
    """Return why Parquet cannot store values of a type, as the end of a sentence, or None if it can.

    Example:
        >>> unstorable(pa.list_(pa.struct([])))
        'Parquet keeps no structs without fields'
    """
    if pa.types.is_struct(kind) and not kind.num_fields:
        return "Parquet keeps no structs without fields"
    if pa.types.is_map(kind):
        return unstorable(kind.key_type) or unstorable(kind.item_type)
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return next((reason for reason in map(unstorable, parts) if reason), None)
