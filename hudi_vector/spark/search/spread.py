"""A search in the partitions of the query rows, for joins and for batches that are too large for the driver.

It is one Python stage over these partitions. Each task searches the whole right side for its partition, batch by batch,
and returns complete rows, so nothing is shuffled afterwards. The searched snapshot is fixed at analysis and is sent in
the closure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.query.asking.task import AskingTask
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.worker_errors import in_few_words

__all__ = ["spread_plan"]

_METADATA_MARK = "__metadata_col"
_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"


def spread_plan(
    spark: SparkSession, queries: DataFrame, search: AskingTask, visible: StructType, hidden: Sequence[StructField]
) -> JavaObject:
    """Return the logical plan of a search over the partitions of the query rows.

    `visible` are the columns of ``SELECT *``; `hidden` are further columns that can be named, without a qualifier.
    """
    marked = [StructField(f.name, f.dataType, f.nullable, {_METADATA_MARK: True}) for f in hidden]
    schema = StructType([*_unmarked(visible), *marked])
    stage = map_in_arrow(queries, _task(search), schema)
    plan = stage._jdf.queryExecution().analyzed()
    return _hiding(spark, plan, len(visible.fields)) if hidden else plan


def _unmarked(schema: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType, field.nullable) for field in schema.fields]


def _task(search: AskingTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            yield from search.over(batches)

    return run


def _hiding(spark: SparkSession, plan: JavaObject, visible: int) -> JavaObject:
    """Return a projection to the first `visible` columns, below which the other columns can still be named."""
    java, output = handles_of(spark), plan.output()
    project = java.named(_PROJECT)(output.take(visible), plan)
    project.setTagValue(java.module(_PROJECT).hiddenOutputTag(), output.drop(visible))
    return project
