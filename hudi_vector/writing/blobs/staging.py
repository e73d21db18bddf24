"""Rows on their way to Hudi, once their blobs are where they belong.

The caller's DataFrame is evaluated once: its tasks put bytes into containers and rows with references into Parquet
files beside the table. Hudi reads those as often as it likes (a global sort reads its input twice).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import Accumulator, AccumulatorParam, TaskContext
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

if TYPE_CHECKING:
    from hudi_vector.table.config import TableConfig

__all__ = ["PARTITION", "Lists", "StagedRows", "partition_path", "stage_rows", "staging_folder"]

PARTITION = "__hudi_vector_partition"
_UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# A batch of rows is in memory whole, bytes and all; small ones are put together, since each costs a millisecond.
_ROWS = 64
_TOGETHER = 4 << 20
# parquet-mr looks at the size of a page and a row group only after so many rows, 100 by default.
_STAGED = {"parquet.page.size.row.check.min": "4", "parquet.block.size.row.check.min": "4", "compression": "lz4raw"}


def staging_folder(table: str, write_id: str) -> str:
    """Where the rows of a write wait for Hudi.

    Args:
        table: The table's base path.
        write_id: The write.

    Raises:
        DataFileError: That is no id of a write: the folder is removed with all that is in it, and `..` leads anywhere.
    """
    return join(table, STAGING, named(table, "write", write_id, WRITE_ID))


def partition_path(fields: Sequence[str], config: TableConfig | None) -> Column:
    """The folder of a row's containers: its partition path, as Hudi makes it for plain values.

    Args:
        fields: The partition columns.
        config: The table's settings.
    """
    if not fields:
        return F.lit("")
    hive = config is not None and config.hive_style_partitioning
    parts = []
    for name in fields:
        value = F.coalesce(F.nullif(F.col(quoted(*name.split("."))).cast("string"), F.lit("")), F.lit(_UNKNOWN))
        # Parts that are no names of folders would lead elsewhere.
        odd = value.rlike(r"(^|/)\.{0,2}(/|$)")
        value = F.when(odd, F.replace(F.url_encode(value), F.lit("."), F.lit("%2E"))).otherwise(value)
        parts.append(F.concat(F.lit(f"{name}="), value) if hive else value)
    return F.concat_ws("/", *parts)


@dataclass(frozen=True)
class StagedRows:
    """Rows with blob structs, the containers that they refer to, and the pins of files that the table does not own.

    `lenders` are the tables to whose blobs they may refer.
    """

    frame: DataFrame
    containers: tuple[WrittenContainer, ...]
    pins: tuple[SideTable, ...]
    lenders: tuple[str, ...] = ()


def stage_rows(frame: DataFrame, plan: BlobWritePlan, folder: str) -> StagedRows:
    """Put the blobs of all rows where they belong, and keep the rows.

    Args:
        frame: The rows, the partition path of each in the column `PARTITION`.
        plan: The write.
        folder: Where the rows are kept.

    Returns:
        The rows, and what they refer to, which is durable.

    Raises:
        InvalidBlobError: A value is no blob, or one that contradicts itself.
        BlobWriteError: Bytes could not be stored.
    """
    spark = frame.sparkSession
    schema = converted_schema(frame.drop(PARTITION).schema, plan.columns)
    written: Accumulator[Any] = spark.sparkContext.accumulator([], Lists())
    pinned: Accumulator[Any] = spark.sparkContext.accumulator([], Lists())
    staged = map_in_arrow(frame, _task(plan, written, pinned), schema)
    with _small_batches(spark):
        try:
            staged.write.options(**_STAGED).mode("errorifexists").parquet(folder)
        except (PySparkException, Py4JJavaError) as problem:
            known = from_worker(problem)
            if known is None:
                raise
            raise known from None
    return StagedRows(
        spark.read.schema(schema).parquet(folder), tuple(written.value), tuple(pinned.value), plan.lenders
    )


def _task(
    plan: BlobWritePlan, written: Accumulator[Any], pinned: Accumulator[Any]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        attempt = TaskAttempt(context.partitionId(), context.taskAttemptId())
        with in_few_words(), BlobWriter(plan, attempt) as writer:
            for batch in _together(batches):
                yield writer.convert(batch).drop_columns([PARTITION])
            written.add(writer.close())
            pins = writer.pinned()
            pinned.add([] if pins is None else [pins])

    return run


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of a few MiB; one that is larger already stays as it is."""
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


class Lists(AccumulatorParam[Any]):
    """Lists that tasks add to; those of failed attempts do not count."""

    def zero(self, value: Any) -> Any:  # noqa: ARG002 - Spark's signature
        """An empty list."""
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - Spark's name
        """Both lists."""
        return value1 + value2


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(_BATCH_ROWS)
    assert before is not None
    spark.conf.set(_BATCH_ROWS, str(min(_ROWS, int(before)) if int(before) > 0 else _ROWS))
    try:
        yield
    finally:
        spark.conf.set(_BATCH_ROWS, before)
