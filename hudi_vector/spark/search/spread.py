"""A search where the rows that ask are: for batch searches too large to bring to the driver, and for joins.

One Python stage over the partitions of these rows. Each task searches the whole right side for its partition, batch
by batch, and gives complete rows: nothing is shuffled afterwards. What is searched is fixed at analysis and travels
in the closure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.worker_errors import in_few_words

__all__ = ["Answers", "spread_plan"]

_METADATA_MARK = "__metadata_col"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


class Answers(Protocol):
    """A search that goes to the tasks."""

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output rows of a partition of rows that ask."""
        ...


def spread_plan(
    spark: SparkSession, queries: DataFrame, search: Answers, visible: StructType, hidden: Sequence[StructField]
) -> JavaObject:
    """The plan of a search over the partitions of the rows that ask.

    Args:
        spark: The session.
        queries: The rows that ask, in the partitions in which they do.
        search: What is done with them.
        visible: The columns of ``SELECT *``.
        hidden: Further columns that can be named, without a qualifier.

    Returns:
        A logical plan.
    """
    marked = [StructField(f.name, f.dataType, f.nullable, {_METADATA_MARK: True}) for f in hidden]
    schema = StructType([*_unmarked(visible), *marked])
    stage = map_in_arrow(queries, _task(search), schema)
    plan = stage._jdf.queryExecution().analyzed()
    return _hiding(spark, plan, len(visible.fields)) if hidden else plan


def _unmarked(schema: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType, field.nullable) for field in schema.fields]


def _task(search: Answers) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            yield from search.over(batches)

    return run


def _hiding(spark: SparkSession, plan: JavaObject, visible: int) -> JavaObject:
    """A projection to the first columns that lets the others be named."""
    jvm: Any = spark._jvm
    output = plan.output()
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    project = logical.Project(output.take(visible), plan)
    project.setTagValue(
        getattr(getattr(jvm, f"{_LOGICAL}.Project$"), "MODULE$").hiddenOutputTag(), output.drop(visible)
    )
    return project
