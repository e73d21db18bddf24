"""A batch search where the query rows are: for query sets too large to bring to the driver.

One Python stage over the partitions of the query rows. Each task searches every slice for the queries of its
partition, batch by batch, and gives complete rows: nothing is shuffled afterwards. The snapshot is fixed at
analysis and travels in the closure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector import options
from hudi_vector.kernels.topk import Bounds
from hudi_vector.read.cache import process_cache
from hudi_vector.read.conform import conform
from hudi_vector.read.spec import VectorColumn
from hudi_vector.search.execute import Question
from hudi_vector.search.indexed import search_slices
from hudi_vector.search.local import merge_winners
from hudi_vector.search.plan import SearchPlan
from hudi_vector.search.winners import named_rows
from hudi_vector.spark.batch_rows import Column, Found, assemble, query_vectors
from hudi_vector.spark.gateway import JavaObject
from hudi_vector.spark.worker_errors import in_few_words

__all__ = ["SpreadSearch", "spread_plan"]

_ROWS_AT_ONCE = 1 << 20
_METADATA_MARK = "__metadata_col"
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


@dataclass(frozen=True)
class SpreadSearch:
    """What every task gets: the plan, the output's columns, and how the query column is read."""

    plan: SearchPlan
    query_column: VectorColumn
    query_label: str
    columns: tuple[Column, ...]
    physical: tuple[tuple[str, str], ...]
    schema: tuple[pa.Field, ...]
    conf: tuple[tuple[str, str], ...]

    def run(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """The output rows of some query rows."""
        conf = dict(self.conf)
        process_cache().resize(options.CACHE_MAX_BYTES.read(conf))
        dimension = self.plan.spec.column.dimension
        vectors, at, _ = query_vectors(rows, self.query_column, self.query_label, dimension or None)
        step = max(1, _ROWS_AT_ONCE // self.plan.k)
        for start in range(0, len(vectors), step):
            question = Question(
                vectors[start : start + step],
                self.plan.metric,
                self.plan.k,
                self.plan.max_distance,
                options.BATCH_BLOCK_QUERIES.read(conf),
            )
            found = self._search(question)
            table = assemble(self.columns, found, rows, at[start : start + step])
            yield from conform(table, list(self.schema)).combine_chunks().to_batches()

    def _search(self, question: Question) -> Found:
        bounds = Bounds.of(len(question.vectors), question.max_distance)
        found = search_slices(
            list(enumerate(self.plan.slices)), self.plan.index, self.plan.spec, question, bounds, True
        )
        winners = merge_winners(self.plan, [hits for part, _ in found for hits in part])
        names = list(dict.fromkeys(column.source for column in self.columns if column.side == "corpus"))
        rows = named_rows(self.plan, winners, names, dict(self.physical))
        return Found(winners.query, winners.distance, winners.rank, rows)


def spread_plan(
    spark: SparkSession, queries: DataFrame, search: SpreadSearch, visible: StructType, hidden: Sequence[StructField]
) -> JavaObject:
    """The plan of a batch search over the partitions of its queries.

    Args:
        spark: The session.
        queries: The query rows.
        search: What is done with them.
        visible: The columns of ``SELECT *``.
        hidden: Further columns that can be named, without a qualifier.

    Returns:
        A logical plan.
    """
    marked = [StructField(f.name, f.dataType, f.nullable, {_METADATA_MARK: True}) for f in hidden]
    schema = StructType([*_unmarked(visible), *marked])
    parallelism = spark.sparkContext.defaultParallelism
    stage = queries.repartition(parallelism).mapInArrow(_task(search), schema)
    plan = stage._jdf.queryExecution().analyzed()
    return _hiding(spark, plan, len(visible.fields)) if hidden else plan


def _unmarked(schema: StructType) -> list[StructField]:
    return [StructField(field.name, field.dataType, field.nullable) for field in schema.fields]


def _task(search: SpreadSearch) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with in_few_words():
                yield from search.run(pa.Table.from_batches([batch]))

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
