"""The rows of ``hv.blob_references``, with references in place of a BLOB column, and the later read of their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.reading.base_files import BaseFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.lazy import LazyColumns, lazy_pieces
from hudi_vector.blobs.scans.lazy_scan import LazyScan
from hudi_vector.errors import UnknownColumnError, UnsupportedTableError, number_of
from hudi_vector.schema import HUDI_TYPE
from hudi_vector.spark.blobs.functions import COPIES, NO_NUMBER, bytes_column, numbers_of
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.spark.resolve import schema_then
from hudi_vector.spark.snapshots import writers_zone
from hudi_vector.storage import FileInfo
from hudi_vector.table.instants import parse_as_of
from hudi_vector.table.model import Snapshot
from hudi_vector.table.native import NativeTable
from hudi_vector.workers import balanced

__all__ = ["base_files", "blob_references", "bytes_at", "is_reference"]

_REFERENCE = StructType(
    [
        StructField("path", StringType()),
        StructField("offset", LongType()),
        StructField("length", LongType()),
        StructField("row", LongType()),
        StructField("inline", BooleanType()),
    ]
)
_TASKS_PER_CORE = 3
_KEPT_SHARE = 4  # one part in so many of the memory budget caches pages, which may hold the next rows too


@known_arguments()
def blob_references(spark: SparkSession, table: str, column: str, *, as_of: Any = None) -> DataFrame:
    """Read a table with references in place of a BLOB column, also for INLINE blobs, so that shuffles carry no bytes.

    The column becomes a struct, NULL for a NULL blob:

    - ``path``: the file that holds the bytes; for INLINE blobs the base file, followed by ``#`` and the column's name
      if the base file has several BLOB columns and there is no ``offset``;
    - ``offset``: the first byte in that file. NULL for INLINE blobs in a page that is compressed or has a dictionary,
      and for references of the table without an offset;
    - ``length``: the number of bytes; NULL for references of the table without a length;
    - ``row``: for INLINE blobs the row's number in the base file, from 0; NULL for others;
    - ``inline``: whether the blob is INLINE.

    Long values in uncompressed pages are skipped; compressed pages are decompressed one at a time to learn the lengths
    of their values. `hudi_vector.read_blobs` reads the bytes later; for INLINE blobs without ``offset`` it reads only
    the pages that hold the requested rows. References to INLINE blobs become invalid when Hudi's clean removes the base
    file: call this function again then.

    Args:
        spark: A registered session.
        table: A catalog name or the path of a Hudi table.
        column: A BLOB column; ``"doc.image"`` is a field of a struct.
        as_of: An instant of the timeline (14 or 17 digits) or a timestamp, to read the table as it was visible then.

    Returns:
        A lazy, unordered DataFrame of all columns of the table. This call lists the table's files. Tasks read whole
        files; filters on other columns do not reduce the reads.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or has log files, base files other than Parquet, or columns that
            are not in its files.
        UnknownColumnError: There is no such column.
        InvalidTypeError: The column is not a BLOB.
        InstantNotAvailableError: The point is before the oldest instant that the table still keeps.

    Example:
        >>> images = hv.blob_references(spark, "photos", "image").repartition("label")
        >>> hv.read_blobs(images.orderBy("taken").limit(10), "image").count()
        2
    """
    found = BlobTable.of(spark, table)
    (name,) = found.chosen([column])
    zone = writers_zone(spark)
    point = None if as_of is None else parse_as_of(as_of, str(spark.conf.get("spark.sql.session.timeZone")))
    snapshot = NativeTable(found.source).snapshot(point, zone)
    files = base_files(snapshot)
    then = None if point is None else schema_then(spark, found.source, point, zone)
    before = found.frame.schema if then is None else then
    after = _replaced(before, name.split("."), name, table)
    marks = {entry.name: entry.metadata for entry in snapshot.schema if (entry.metadata or {}).get(HUDI_TYPE.encode())}
    fields = [entry.with_metadata(marks.get(entry.name)) for entry in arrow_fields(after)]
    most = max(1, spark.sparkContext.defaultParallelism * _TASKS_PER_CORE)
    groups = balanced([file.size for file in files], min(len(files), most)) if files else []
    tasks = tuple(tuple(files[i] for i in group) for group in groups)
    scan = LazyScan(name, pa.schema(fields), found.options)
    return map_in_arrow(spark.range(0, len(tasks), 1, max(1, len(tasks))), _Scan(scan, tasks), after)


def is_reference(kind: DataType) -> bool:
    """Return True if a Spark type is the struct of `blob_references`; nullability and case of names are ignored."""
    return isinstance(kind, StructType) and [(f.name.lower(), f.dataType) for f in kind] == [
        (f.name, f.dataType) for f in _REFERENCE
    ]


def bytes_at(reference: Column, fetcher: BlobFetcher, name: str, budget: int) -> Column:
    """Return a BINARY column with the bytes of a column of `blob_references`.

    `name` is the name of the Python stage in Spark's plan. `budget` is the number of bytes that a Python process holds
    for one piece, unless a single value is larger.
    """
    numbers = (F.coalesce(reference[field], F.lit(NO_NUMBER)) for field in ("offset", "length", "row"))
    inline = F.coalesce(reference["inline"], F.lit(False))
    reader = _Reader(fetcher, budget)
    return bytes_column(reader, [reference["path"], *numbers, inline], name, fetcher.on_error)


@dataclass
class _Reader:
    """The reader of a task's references, which keeps base files open from one batch to the next."""

    fetcher: BlobFetcher
    budget: int

    def __call__(self, batch: Sequence[pd.Series]) -> Iterator[pa.StructArray]:
        path, offset, length, row, inline = batch
        columns = LazyColumns(
            pa.array(path, pa.string(), from_pandas=True),
            numbers_of(offset),
            numbers_of(length),
            numbers_of(row),
            pa.array(inline, pa.bool_()),
        )
        return lazy_pieces(self.fetcher, columns, self._bases, max(1, self.budget // COPIES))

    @cached_property
    def _bases(self) -> BaseFiles:
        return BaseFiles(self.fetcher.options, kept=self.budget // _KEPT_SHARE)


@dataclass(frozen=True)
class _Scan:
    """The scan of the base files of each task; the input rows are numbers of tasks."""

    scan: LazyScan
    tasks: tuple[tuple[FileInfo, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for file in self.tasks[number]:
                        yield from self.scan.batches(file)


def base_files(snapshot: Snapshot) -> list[FileInfo]:
    """Return the Parquet base files of a snapshot, which hold all its rows.

    Raises UnsupportedTableError if the table has log files, base files of another format, or needs Spark to be read.
    """
    name, slices = snapshot.source.name, snapshot.file_slices
    logged = sum(bool(entry.log_files) for entry in slices)
    if logged:
        raise UnsupportedTableError(
            f"'{name}' has log files in {logged} of {number_of(len(slices), 'file slice')}, and their rows have no "
            "place in a base file: compact the table first, or use read_blobs"
        )
    reason = snapshot.needs_spark
    if reason is not None:
        raise UnsupportedTableError(f"references into '{name}' cannot be taken: {reason}; use read_blobs")
    files = [entry.base_file for entry in slices if entry.base_file is not None]
    other = next((file.name.rpartition(".")[2] for file in files if not file.name.endswith(".parquet")), None)
    if other is not None:
        raise UnsupportedTableError(
            f"'{name}' has base files of the format {other}, and references lead into Parquet files only; "
            "use read_blobs"
        )
    return files


def _replaced(schema: StructType, parts: list[str], name: str, table: str) -> StructType:
    """Return a schema with references in place of the BLOB column at the path `parts`.

    Raises UnknownColumnError, naming `name` and `table`, if there is no such column.
    """
    if parts[0] not in schema.names:
        raise UnknownColumnError.of(name, schema.names, table)
    return StructType([_replaced_field(entry, parts, name, table) for entry in schema])


def _replaced_field(entry: StructField, parts: list[str], name: str, table: str) -> StructField:
    if entry.name != parts[0]:
        return entry
    if len(parts) == 1:
        return StructField(entry.name, _REFERENCE, True)
    inner = entry.dataType
    assert isinstance(inner, StructType)
    return StructField(entry.name, _replaced(inner, parts[1:], name, table), entry.nullable, entry.metadata)
