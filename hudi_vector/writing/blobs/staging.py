"""Staging of rows for Hudi after their blobs are stored.

The caller's DataFrame is evaluated once: its tasks write bytes into containers, and rows with references into Parquet
files in the table's staging folder (`hudi_vector.writing.blobs.staged_files`). Hudi may read these files several times
(a global sort reads its input twice).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import Accumulator, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.names import STAGING, WRITE_ID
from hudi_vector.blobs.storing.writer import BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.uploads.side_tables import SideTable
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import from_worker, in_few_words
from hudi_vector.storage import join
from hudi_vector.storage.stored_values import named
from hudi_vector.writing.blobs.columns import converted_schema
from hudi_vector.writing.blobs.staged_files import NOTHING, Lists, RowsFile, read_staged

if TYPE_CHECKING:
    from hudi_vector.table.config import TableConfig

__all__ = ["PARTITION", "StagedRows", "partition_path", "stage_rows", "staging_folder"]

PARTITION = "__hudi_vector_partition"
_UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# A batch is held in memory with all its bytes, so batches have few rows; small ones are combined, as each batch
# costs about a millisecond.
_ROWS = 64
_TOGETHER = 4 << 20


def staging_folder(table: str, write_id: str) -> str:
    """Return the folder in which a write's rows wait for Hudi.

    Raises DataFileError if the write id is malformed: the folder is later removed with its content, and an id with
    ``..`` could lead anywhere.
    """
    return join(table, STAGING, named(table, "write", write_id, WRITE_ID))


def partition_path(fields: Sequence[str], config: TableConfig | None) -> Column:
    """Return an expression for the folder of a row's containers: its partition path, as Hudi makes it for plain values.

    `config` decides on Hive style (``name=value``); None for a new table. Values that are not valid folder names are
    URL-encoded.
    """
    if not fields:
        return F.lit("")
    hive = config is not None and config.hive_style_partitioning
    parts = []
    for name in fields:
        value = F.coalesce(F.nullif(F.col(quoted(*name.split("."))).cast("string"), F.lit("")), F.lit(_UNKNOWN))
        # Parts such as ".." or "a//b" are not names of folders and would lead elsewhere.
        odd = value.rlike(r"(^|/)\.{0,2}(/|$)")
        value = F.when(odd, F.replace(F.url_encode(value), F.lit("."), F.lit("%2E"))).otherwise(value)
        parts.append(F.concat(F.lit(f"{name}="), value) if hive else value)
    return F.concat_ws("/", *parts)


@dataclass(frozen=True)
class StagedRows:
    """Rows with blob structs, the containers they refer to, and the pins of files outside of these containers.

    `bytes` is the size of the files that hold the rows. `lenders` are the tables to whose blobs the rows may refer.
    """

    frame: DataFrame
    bytes: int
    containers: tuple[WrittenContainer, ...]
    pins: tuple[SideTable, ...]
    lenders: tuple[str, ...] = ()


def stage_rows(frame: DataFrame, plan: BlobWritePlan, folder: str) -> StagedRows:
    """Store the blobs of all rows and stage the rows in `folder`; the containers are durable on return.

    The column `PARTITION` of `frame` must hold the partition path of each row. Raises InvalidBlobError if a value is
    not a blob or its fields contradict each other, BlobWriteError if bytes could not be stored.
    """
    spark = frame.sparkSession
    schema = converted_schema(frame.drop(PARTITION).schema, plan.columns)
    made = _Made(*(spark.sparkContext.accumulator([], Lists()) for _ in range(3)))
    stored = map_in_arrow(frame, _task(plan, folder, spark.version, made), NOTHING)
    with _small_batches(spark):
        try:
            stored.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as problem:
            known = from_worker(problem)
            if known is None:
                raise
            raise known from None
    files = made.files.value
    return StagedRows(
        read_staged(spark, folder, files, schema, plan.options),
        sum(file.bytes for file in files),
        tuple(made.containers.value),
        tuple(made.pins.value),
        plan.lenders,
    )


@dataclass(frozen=True)
class _Made:
    """Accumulators of the staged files, containers and pins of successful tasks."""

    files: Accumulator[Any]
    containers: Accumulator[Any]
    pins: Accumulator[Any]


def _task(
    plan: BlobWritePlan, folder: str, spark_version: str, made: _Made
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        attempt = TaskAttempt(context.partitionId(), context.taskAttemptId())
        with in_few_words(), BlobWriter(plan, attempt) as writer:
            rows = RowsFile(folder, attempt, plan.options, spark_version)
            try:
                for batch in _together(batches):
                    rows.write(writer.convert(batch).drop_columns([PARTITION]))
                containers, pins, files = writer.close(), writer.pinned(), rows.close()
            except BaseException:
                rows.discard()
                raise
            made.files.add(files)
            made.containers.add(containers)
            made.pins.add([] if pins is None else [pins])
        yield from ()

    return run


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at least 4 MiB; the last one may be smaller."""
    held: list[pa.RecordBatch] = []
    bytes_held = 0
    for batch in batches:
        held.append(batch)
        bytes_held += batch.nbytes
        if bytes_held >= _TOGETHER:
            yield pa.concat_batches(held) if len(held) > 1 else batch
            held, bytes_held = [], 0
    if held:
        yield pa.concat_batches(held)


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(_BATCH_ROWS)
    assert before is not None
    spark.conf.set(_BATCH_ROWS, str(min(_ROWS, int(before)) if int(before) > 0 else _ROWS))
    try:
        yield
    finally:
        spark.conf.set(_BATCH_ROWS, before)
