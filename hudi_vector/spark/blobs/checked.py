"""The job of ``hv.blobs.verify``, which finds references that do not lead to their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hudi_vector.blobs.counts.check import WRONG, Check, pin_column
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.registry import lenders
from hudi_vector.spark.blobs.external_files import NO_PIN, pinned_files, with_pin
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words

__all__ = ["wrong_references"]

_TYPES = {pa.string(): StringType(), pa.int64(): LongType()}


def wrong_references(spark: SparkSession, found: BlobTable, chosen: tuple[str, ...], deep: bool) -> DataFrame:
    """Return the wrong references of the chosen columns of an opened table, lazily."""
    area = replace(found.area, lenders=lenders(found.area.table, found.options))
    rows = found.frame.select(
        found.key().alias("key"),
        found.partition().alias("partition"),
        found.commit_time().alias("commit_time"),
        *(found.placement(column).alias(str(number)) for number, column in enumerate(chosen)),
    )
    pins = pinned_files(spark, found)
    for number in range(len(chosen)):
        name = pin_column(number)
        if pins is None:
            rows = rows.withColumn(name, F.lit(None).cast(NO_PIN))
        else:
            rows = with_pin(rows, pins, F.col(str(number))["path"], F.col("commit_time"), name)
    schema = StructType([StructField(field.name, _TYPES[field.type]) for field in WRONG])
    fetcher = BlobFetcher(found.options, found.area.table, on_error="null")
    return map_in_arrow(rows, _Check(Check(chosen, area, fetcher, deep)), schema)


@dataclass(frozen=True)
class _Check:
    """The check of a task's rows, which yields the wrong references."""

    check: Check

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            yield from self.check.wrong(batches)
