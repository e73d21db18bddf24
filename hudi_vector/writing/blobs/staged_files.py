"""The files in which rows wait for Hudi: each task writes one, under its final name, and says so when it is whole.

Files that no successful task named are left-overs of failed attempts: they are not read, and go with their folder.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from hudi_vector.blobs.containers.pool import TaskAttempt
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.local_rows import no_rows
from hudi_vector.storage import StorageOptions, join, normalise, open_storage, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RowsFile", "StagedFile", "read_staged"]

_MADE_BY = "org.apache.spark.version"
_SMALL_BYTES = 1 << 20
"""Spark reads a file of an object store by seven requests. Files that are smaller on average are read by one each."""

_READ_TOGETHER = 32


@dataclass(frozen=True)
class StagedFile:
    """A whole file of staged rows: its name, and its size in bytes."""

    name: str
    bytes: int


class RowsFile:
    """The file of one task attempt, in its write's staging folder; it is made with the first rows."""

    def __init__(self, folder: str, task: TaskAttempt, options: StorageOptions, spark_version: str) -> None:
        """Keep the names; no file is made. `folder` is the staging folder, in any spelling."""
        self._name = f"part-{task.partition:05d}-{task.attempt}.parquet"
        self._uri = join(normalise(folder), self._name)
        self._options, self._version = options, spark_version
        self._file: Any = None
        self._writer: Any = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows as one row group."""
        schema = _all_nullable(rows.schema)
        if self._writer is None:
            # Where a file names no version, Spark refuses dates before 1582: the calendar may be another.
            schema = schema.with_metadata({**(schema.metadata or {}), _MADE_BY: self._version})
            self._file = open_storage(self._uri, self._options).create(self._uri, unique=True)
            self._writer = pq.ParquetWriter(
                self._file.stream, schema, compression="lz4", use_dictionary=False, write_statistics=False
            )
        self._writer.write_table(pa.Table.from_batches([rows]).cast(schema))

    def close(self) -> list[StagedFile]:
        """Finish the file, and return it; no file if there were no rows."""
        if self._writer is None:
            return []
        self._writer.close()
        size = int(self._file.stream.tell())
        self._file.close(durable=False)  # no one can go on after a crash of the machine
        return [StagedFile(self._name, size)]

    def discard(self) -> None:
        """Close the file after a failure; no one will read it."""
        if self._file is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()  # otherwise it would try later to write its footer into a closed file
            with contextlib.suppress(OSError):
                self._file.discard()


def _all_nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema without fields that cannot be NULL: within a NULL struct, Arrow has NULL in these too."""
    return pa.schema([_nullable_field(field) for field in schema], schema.metadata)


def _nullable_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable_field(each) for each in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_nullable_field(kind.key_field).with_nullable(False), _nullable_field(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable_field(kind.value_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_nullable_field(kind.value_field))
    return field.with_type(kind).with_nullable(True)


def read_staged(
    spark: SparkSession, folder: str, files: Sequence[StagedFile], schema: StructType, options: StorageOptions
) -> DataFrame:
    """Return the rows of staged files, and of no other file in the folder."""
    if not files:
        return no_rows(spark, _nullable(spark, schema))
    frame = spark.read.schema(schema).parquet(folder)
    if scheme_of(folder) != "file" and sum(file.bytes for file in files) <= _SMALL_BYTES * len(files):
        return _read_small(frame, folder, files, options)
    names = {file.name for file in files}
    if {unquote(uri).rpartition("/")[2] for uri in frame.inputFiles()} != names:
        return spark.read.schema(schema).parquet(*(join(folder, name) for name in sorted(names)))
    return frame


def _nullable(spark: SparkSession, schema: StructType) -> StructType:
    """Return a schema as Spark reads it from Parquet files: nothing in it is known to have no NULL."""
    read = handles_of(spark).named("org.apache.spark.sql.types.DataType").fromJson(schema.json()).asNullable()
    return StructType.fromJson(json.loads(read.json()))


def _read_small(frame: DataFrame, folder: str, files: Sequence[StagedFile], options: StorageOptions) -> DataFrame:
    """Return the rows of small objects, in as many tasks as Spark would read them in."""
    spark = frame.sparkSession
    count = min(max(frame.rdd.getNumPartitions(), 1), len(files))
    by_size = sorted(files, key=lambda file: (-file.bytes, file.name))
    groups = [([file.name for file in by_size[first::count]],) for first in range(count)]
    wanted = spark.createDataFrame(spark.sparkContext.parallelize(groups, count), "names array<string>")
    return map_in_arrow(wanted, _reading(normalise(folder), options), frame.schema)


def _reading(folder: str, options: StorageOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = open_storage(folder, options)
        uris = [join(folder, name) for batch in batches for name in batch.column(0).flatten().to_pylist()]
        for first in range(0, len(uris), _READ_TOGETHER):
            for content in storage.each(storage.read, uris[first : first + _READ_TOGETHER]):
                yield from pq.ParquetFile(pa.BufferReader(content)).iter_batches()

    return read
