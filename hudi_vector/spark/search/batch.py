"""Plans of ``hudi_vector_search_batch`` and RFC-102's form: the nearest rows for every row of a query table.

A small query set is collected on the driver when the statement is planned, and the search runs over the file slices. A
large query set stays in its partitions: see `hudi_vector.spark.search.spread`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, LongType, StructField, StructType

from hudi_vector import options
from hudi_vector.query.asking.output import Found, assemble, sources
from hudi_vector.query.asking.queries import AskedRows, QueryColumns
from hudi_vector.query.asking.task import AskingTask, Finder
from hudi_vector.query.distributed import find_unmergeable
from hudi_vector.query.grouping.arguments import most_found
from hudi_vector.query.join.nearest import Ask, SideFinder
from hudi_vector.query.join.sides import PlannedSide
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import free_names, quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.local_rows import arrow_fields, collected
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.columns import (
    DISTANCE,
    HUDI_DISTANCE,
    IN_SQL,
    RANK,
    Shown,
    require_no_clash,
    vector_column,
)
from hudi_vector.spark.resolve import Target
from hudi_vector.spark.search.few_rows import has_at_most, is_narrow
from hudi_vector.spark.search.output import (
    Output,
    added_output,
    columns_of,
    hidden_meta,
    output_of,
    schema_of,
    second_side,
)
from hudi_vector.spark.search.search import TableSearch
from hudi_vector.spark.search.spread import spread_plan

__all__ = [
    "INDEX",
    "QUERY_PREFIX",
    "BatchShape",
    "QueryBatch",
    "QueryRows",
    "batch_plan",
]

INDEX = "_hudi_query_index"
QUERY_PREFIX = "_hudi_query_"
_RFC_DISTANCE = "distance"
_ARRAY_COLUMN = "__hudi_vector_query"
_USUAL_DIMENSION = 1024


class BatchShape(enum.Enum):
    """The layout of the output: which side's columns come first, and which columns are added."""

    CORPUS_FIRST = "hudi_vector_search_batch"
    QUERY_FIRST = "hudi_vector_search"


@dataclass(frozen=True)
class QueryRows:
    """The query rows: a target and its vector column, or an array of shape (m, d)."""

    target: Target
    column: VectorColumn
    matrix: npt.NDArray[np.float64] | None = None

    @classmethod
    def of_array(cls, matrix: npt.NDArray[np.float64]) -> QueryRows:
        """Return the queries of an array, shape (m, d), as rows without other columns."""
        schema = StructType([StructField(_ARRAY_COLUMN, ArrayType(DoubleType(), False), False)])
        column = VectorColumn(_ARRAY_COLUMN, matrix.shape[1], "double", is_vector=False)
        return cls(Target("the array of queries", schema, None, ()), column, matrix)

    @classmethod
    def of(cls, target: Target, name: str) -> QueryRows:
        """Return the rows of a target as queries, with the vector column of this name, in any case."""
        return cls(target, vector_column(target.schema, name, target.label, None))

    @property
    def dimension(self) -> int | None:
        """Return the length of the vectors, None if the column does not declare it."""
        return self.column.dimension or None

    @property
    def fields(self) -> list[StructField]:
        """Return the columns without the vector column."""
        return [field for field in self.target.schema.fields if field.name != self.column.name]

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a DataFrame; rows of an array get the column `INDEX` with their number from 0."""
        if self.matrix is None:
            return self.target.frame(spark)
        parts = np.array_split(np.arange(len(self.matrix)), max(1, self.matrix.nbytes >> 24))
        rows = [(int(part[0]), self.matrix[part].tobytes(), len(part)) for part in parts if len(part)]
        packed = spark.createDataFrame(rows, "first LONG, vectors BINARY, count INT")
        width = self.matrix.shape[1]
        schema = StructType([StructField(INDEX, LongType()), *self.target.schema.fields])
        spread = packed.repartition(len(rows) or 1)
        return map_in_arrow(spread, lambda batches: _unpacked(batches, width), schema)

    def rows(self, spark: SparkSession, names: Sequence[str]) -> pa.Table:
        """Return the named columns and the vector column of all rows, collected on the driver."""
        if self.matrix is not None:
            return pa.table({_ARRAY_COLUMN: _as_lists(self.matrix)})
        frame = self.target.frame(spark)
        chosen = frame.select([frame[quoted(name)] for name in dict.fromkeys([*names, self.column.name])])
        return collected(chosen)

    def fit(self, spark: SparkSession, limit: int, dimension: int | None) -> bool:
        """Return True if the rows have at most `limit` bytes, by Spark's estimate or by counting them.

        Spark estimates rows made from a list as 8 EiB, and assumes that a filter keeps all rows. If the plan has no
        shuffle, up to one row more than the limit allows is therefore counted. `dimension` is the number of elements of
        all vectors of a row; None or 0 counts as 1024.
        """
        if self.estimated_bytes(spark) <= limit:
            return True
        if self.matrix is not None:
            return False
        frame = self.target.frame(spark)
        others = int(str(frame._jdf.schema().defaultSize()))
        most = limit // (8 * (dimension or _USUAL_DIMENSION) + others)
        return most > 0 and is_narrow(frame._jdf.queryExecution().optimizedPlan()) and has_at_most(frame, most)

    def estimated_bytes(self, spark: SparkSession) -> int:
        """Return Spark's estimate of the bytes of the rows, without a job; for an array its exact bytes."""
        if self.matrix is not None:
            return int(self.matrix.nbytes)
        plan = self.target.frame(spark)._jdf.queryExecution().optimizedPlan()
        return int(str(plan.stats().sizeInBytes()))


def _as_lists(matrix: npt.NDArray[np.float64]) -> pa.ListArray:
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(matrix).ravel()))


def _unpacked(batches: Iterable[pa.RecordBatch], width: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            matrix = np.frombuffer(row["vectors"], np.float64).reshape(-1, width)
            index = pa.array(np.arange(row["first"], row["first"] + len(matrix)))
            yield pa.RecordBatch.from_arrays([index, _as_lists(matrix)], names=[INDEX, _ARRAY_COLUMN])


@dataclass(frozen=True)
class QueryBatch:
    """A checked search for many query rows, with its output columns; `hidden` ones have to be named.

    `name` is that of the function, `describe` gives the text for EXPLAIN. `finder` searches from the driver.
    """

    search: TableSearch
    queries: QueryRows
    asking: QueryColumns
    finder: Finder
    visible: tuple[Output, ...]
    hidden: tuple[Output, ...]
    name: str
    describe: Callable[[], str]

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Return all output columns."""
        return (*self.visible, *self.hidden)

    def produce(self, names: Sequence[str]) -> pa.Table:
        """Return the rows with exactly these columns, ordered by query and rank."""
        by_name = {output.column.name: output.column for output in self.outputs}
        wanted = [by_name[name] for name in names]
        needed = [*sources(wanted, "query"), *(column.name for column in self.asking.columns)]
        asked = self.asking.of(self.queries.rows(self.search.spark, needed))
        found = self.finder.find(asked, sources(wanted, "corpus"))
        return assemble(wanted, found, asked.rows, asked.at) if wanted else pa.table({"": pa.nulls(len(found.query))})

    def lazy(self) -> JavaObject:
        """Return the plan for a query set that is collected on the driver."""
        hidden = [output.field for output in self.hidden]
        visible = schema_of(self.visible)
        return lazy_relation(self.search.spark, self.name, visible, hidden, self.produce, self.describe)

    def spread(self, asking: QueryColumns, finder: Finder) -> JavaObject:
        """Return the plan for a query set that stays in its partitions, where `finder` searches."""
        spark, outputs = self.search.spark, columns_of(self.outputs)
        frame, index = self.queries.frame(spark), INDEX
        if self.queries.matrix is None:
            needed = {*sources(outputs, "query"), *(column.name for column in asking.columns)}
            frame = frame.select([frame[quoted(name)] for name in frame.columns if name in needed])
            frame, index = _numbered(frame)
        task = AskingTask(
            queries=asking,
            finder=finder,
            columns=tuple(replace(c, source=index) if c.side == "index" else c for c in outputs),
            schema=tuple(arrow_fields(schema_of(self.outputs))),
            k=most_found(self.search.k, self.search.tuning.grouping),
            cache=options.CACHE_MAX_BYTES.read(self.search.conf()),
        )
        frame = frame.repartition(spark.sparkContext.defaultParallelism)
        return spread_plan(spark, frame, task, schema_of(self.visible), [output.field for output in self.hidden])


@dataclass(frozen=True)
class _OnDriver:
    """A search that the driver runs for all queries at once, and reports."""

    search: TableSearch

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the nearest rows."""
        return self.search.run(asked.vectors, names, asked.unusable)


def batch_plan(search: TableSearch, queries: QueryRows, shape: BatchShape, shown: Shown = IN_SQL) -> JavaObject:
    """Return the logical plan of a batch search.

    The plan is lazy for a query set that can be collected on the driver. For a larger one it is a Python stage over the
    query partitions, unless only Spark can merge some of the table's log files. RFC-102's form shows fixed columns.
    """
    visible, hidden = _layout(search, queries, shape, shown)
    asking = QueryColumns.dense(queries.column, queries.target.label, search.column.dimension or None)

    def describe() -> str:
        return f"{shape.value} {search.target.label} {search.column.name} k={search.k} {search.metric}"

    batch = QueryBatch(search, queries, asking, _OnDriver(search), tuple(visible), tuple(hidden), shape.value, describe)
    conf = search.conf()
    dimension = queries.dimension or search.column.dimension
    if not queries.fit(search.spark, options.BATCH_COLLECT_MAX_BYTES.read(conf), dimension):
        estimated = queries.estimated_bytes(search.spark)
        plan = search.plan(dimension, conf, queries=max(1, estimated // (8 * max(1, dimension))))
        if plan is not None and plan.execution != "spark" and _can_spread(batch, plan):
            asking = replace(asking, dimensions=(plan.spec.column.dimension or None,))
            return batch.spread(asking, _in_tasks(search, plan))
    return batch.lazy()


def _can_spread(batch: QueryBatch, plan: SearchPlan) -> bool:
    """Return True if no file slice needs Spark to merge it, which tasks over query partitions cannot request."""
    physical = dict(batch.search.target.physical)
    names = [physical[source] for source in sources(columns_of(batch.outputs), "corpus")]
    return find_unmergeable(batch.search.spark.sparkContext, plan, names) is None


def _in_tasks(search: TableSearch, plan: SearchPlan) -> Finder:
    block_queries, grouping = options.BATCH_BLOCK_QUERIES.read(search.conf()), search.tuning.grouping
    ask = Ask(plan.metric, plan.k, plan.max_distance, block_queries=block_queries, grouping=grouping)
    return SideFinder(PlannedSide(plan, search.target.physical), ask)


def _layout(
    search: TableSearch, queries: QueryRows, shape: BatchShape, shown: Shown
) -> tuple[list[Output], list[Output]]:
    distance = added_output(DISTANCE, "distance", DoubleType())
    rank = added_output(RANK, "rank", IntegerType())
    groups = [added_output(name, "added", IntegerType()) for name in search.group_columns]
    if shape is BatchShape.CORPUS_FIRST:
        require_no_clash(search.target, (shown.distances[0], RANK, INDEX, *search.group_columns))
        first = [output_of(field, "corpus") for field in search.columns]
        index = added_output(INDEX, "index", LongType())
        # A column of the table takes precedence over the second name of the distance.
        taken = {name.lower() for name in search.target.schema.names}
        added = [index, distance, rank, *groups, added_output(HUDI_DISTANCE, "distance", DoubleType())]
        added = [output for output in added if output.column.name not in taken]
        second = second_side(queries.fields, "query", [*first, *added], QUERY_PREFIX)
        named = {DISTANCE, HUDI_DISTANCE}.difference(shown.distances)
        hidden = [output for output in added if output.column.name in named] + hidden_meta([*first, *second], shown)
        return [output for output in [*first, *second, *added] if output not in hidden], hidden
    require_no_clash(queries.target, (DISTANCE, RANK, *search.group_columns))
    first = [output_of(field, "query") for field in queries.fields]
    second = second_side(search.columns, "corpus", [*first, distance, rank, *groups], QUERY_PREFIX)
    visible = [*first, *second, distance, rank, *groups]
    own = output_of(queries.target.schema[queries.column.name], "query")
    theirs = second_side([search.vector_field], "corpus", [*visible, own], QUERY_PREFIX)
    return visible, _unclaimed([own, *theirs, added_output(_RFC_DISTANCE, "distance", DoubleType())], visible)


def _numbered(frame: DataFrame) -> tuple[DataFrame, str]:
    """Return query rows with a column of unique numbers, which later stages keep, and the name of that column."""
    [name] = free_names([INDEX], frame.columns, QUERY_PREFIX)
    return frame.withColumn(name, F.monotonically_increasing_id()), name


def _unclaimed(hidden: Sequence[Output], visible: Sequence[Output]) -> list[Output]:
    """Return the hidden columns whose name, in any case, neither a visible nor an earlier hidden column has."""
    claimed, found = {output.column.name.lower() for output in visible}, []
    for output in hidden:
        if output.column.name.lower() not in claimed:
            found.append(output)
            claimed.add(output.column.name.lower())
    return found
