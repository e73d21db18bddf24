"""``hudi_vector_search_batch`` and RFC-102's form: the nearest rows for every row of a query table."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, LongType, StructField, StructType

from hudi_vector.errors import DimensionMismatchError
from hudi_vector.read.conform import conform
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.spark.gateway import JavaObject
from hudi_vector.spark.local_rows import arrow_fields
from hudi_vector.spark.relation import lazy_relation
from hudi_vector.spark.resolve import Target
from hudi_vector.spark.search import DISTANCE, HUDI_DISTANCE, RANK, Found, TableSearch, require_no_clash, vector_column

__all__ = ["BatchShape", "QueryRows", "batch_plan"]

INDEX = "_hudi_query_index"
_PREFIX = "_hudi_query_"
_RFC_DISTANCE = "distance"
_ARRAY_COLUMN = "\0query"


class BatchShape(enum.Enum):
    """Which side's columns come first, and what is added."""

    CORPUS_FIRST = "hudi_vector_search_batch"
    QUERY_FIRST = "hudi_vector_search"


@dataclass(frozen=True)
class QueryRows:
    """The rows that ask: a target and the column of their vectors."""

    target: Target
    column: VectorColumn
    matrix: npt.NDArray[np.float64] | None = None

    @classmethod
    def of_array(cls, matrix: npt.NDArray[np.float64]) -> QueryRows:
        """Queries that come as an array, shape (m, d): rows without other columns."""
        schema = StructType([StructField(_ARRAY_COLUMN, ArrayType(DoubleType(), False), False)])
        column = VectorColumn(_ARRAY_COLUMN, matrix.shape[1], "double", is_vector=False)
        return cls(Target("the array of queries", schema, None, ()), column, matrix)

    @classmethod
    def of(cls, spark: SparkSession, target: Target, name: str) -> QueryRows:
        """The rows of a target that ask by one of its columns."""
        del spark
        return cls(target, vector_column(target.schema, name, target.label, None))

    @property
    def dimension(self) -> int | None:
        """The vectors' length where the column says it."""
        return self.column.dimension or None

    @property
    def fields(self) -> list[StructField]:
        """The columns without the vectors."""
        return [field for field in self.target.schema.fields if field.name != self.column.name]


@dataclass(frozen=True)
class _Column:
    """An output column: its field, and where it comes from."""

    field: StructField
    side: str
    source: str


@dataclass(frozen=True)
class _Batch:
    search: TableSearch
    queries: QueryRows
    columns: tuple[_Column, ...]
    hidden: tuple[_Column, ...]
    name: str

    def produce(self, names: Sequence[str]) -> pa.Table:
        """The rows, with exactly these columns, by query and rank."""
        by_name = {column.field.name: column for column in (*self.hidden, *self.columns)}
        wanted = [by_name[name] for name in names]
        asked = [column.source for column in wanted if column.side == "query"]
        rows = self._query_rows(asked)
        vectors, at, _ = query_vectors(rows, self.queries, self.search.column.dimension or None)
        found = self.search.run(vectors, list(dict.fromkeys(c.source for c in wanted if c.side == "corpus")))
        if not wanted:
            return pa.table({"": pa.nulls(len(found.query))})
        return assemble(wanted, found, rows, at)

    def _query_rows(self, names: Sequence[str]) -> pa.Table:
        if self.queries.matrix is not None:
            return _as_rows(self.queries.matrix)
        frame = self.queries.target.frame(self.search.spark)
        needed = list(dict.fromkeys([*names, self.queries.column.name]))
        chosen = frame.select([frame[f"`{name}`"] for name in needed])
        batches = chosen._collect_as_arrow()
        fields = arrow_fields(chosen.schema)
        return conform(pa.Table.from_batches(batches), fields) if batches else pa.schema(fields).empty_table()

    def describe(self) -> str:
        """The text of EXPLAIN."""
        search = self.search
        return f"{self.name} {search.target.label} {search.column.name} k={search.k} {search.metric}"


def _as_rows(matrix: npt.NDArray[np.float64]) -> pa.Table:
    offsets = np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1]
    vectors = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(matrix).ravel()))
    return pa.table({_ARRAY_COLUMN: vectors})


def query_vectors(
    rows: pa.Table, queries: QueryRows, dimension: int | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], int]:
    """The vectors of the rows that ask.

    Args:
        rows: The query rows, the vectors among their columns.
        queries: Which column that is.
        dimension: The corpus's dimension, if it has one.

    Returns:
        Vectors, shape (m, d), float64; the row each stands in; and how many rows had none that is usable.

    Raises:
        DimensionMismatchError: A row's vector has another length than the corpus.
    """
    array = rows.column(queries.column.name)
    chunk = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    lengths = np.asarray(pc.list_value_length(chunk.drop_null())) if len(chunk) else np.empty(0, np.int64)
    expected = dimension or (int(lengths[0]) if len(lengths) else 0)
    wrong = lengths[lengths != expected]
    if len(wrong):
        raise DimensionMismatchError(
            f"{len(wrong)} rows of '{queries.target.label}' have query vectors of other lengths (such as "
            f"{int(wrong[0])}) than {expected}; give vectors of one length, that of the searched column"
        )
    counts = ScanCounts()
    column = replace(queries.column, dimension=expected, is_vector=False)
    block = block_of(chunk, column, np.arange(len(chunk), dtype=np.int64), counts)
    return block.values.astype(np.float64), block.positions, counts.nulls + counts.invalid


def assemble(columns: Sequence[_Column], found: Found, rows: pa.Table, at: npt.NDArray[np.int64]) -> pa.Table:
    """Output columns from what was found and the rows that asked.

    Args:
        columns: The output columns, in order.
        found: The rows found.
        rows: The query rows.
        at: The query row of each query vector.

    Returns:
        A row for each row found.
    """
    asking = at[found.query]
    taken = pa.array(asking)
    out: list[Any] = []
    for column in columns:
        if column.side == "query":
            out.append(rows.column(column.source).take(taken))
        elif column.side == "corpus":
            out.append(found.rows.column(column.source))
        elif column.side == "index":
            index = rows.column(column.source).take(taken) if column.source else pa.array(asking)
            out.append(index)
        else:
            out.append(pa.array(found.rank.astype(np.int32)) if column.side == "rank" else pa.array(found.distance))
    return pa.table(out, names=[column.field.name for column in columns])


def batch_plan(search: TableSearch, queries: QueryRows, shape: BatchShape) -> JavaObject:
    """The plan of a batch search.

    Args:
        search: The corpus, its column, metric, k and filter, checked.
        queries: The rows that ask.
        shape: The order of the output's columns.

    Returns:
        A logical plan.
    """
    columns, hidden = _layout(search, queries, shape)
    batch = _Batch(search, queries, tuple(columns), tuple(hidden), shape.value)
    visible = StructType([column.field for column in columns])
    return lazy_relation(
        search.spark, shape.value, visible, [column.field for column in hidden], batch.produce, batch.describe
    )


def _layout(search: TableSearch, queries: QueryRows, shape: BatchShape) -> tuple[list[_Column], list[_Column]]:
    distance = _Column(StructField(DISTANCE, DoubleType(), False), "distance", "")
    rank = _Column(StructField(RANK, IntegerType(), False), "rank", "")
    if shape is BatchShape.CORPUS_FIRST:
        require_no_clash(search.target, (DISTANCE, RANK, HUDI_DISTANCE, INDEX))
        first = [_Column(field, "corpus", field.name) for field in search.columns]
        second = _prefixed(queries.fields, "query", first)
        index = _Column(StructField(INDEX, LongType(), False), "index", "")
        same = _Column(StructField(HUDI_DISTANCE, DoubleType(), False), "distance", "")
        return [*first, *second, index, distance, rank, same], []
    require_no_clash(queries.target, (DISTANCE, RANK))
    first = [_Column(field, "query", field.name) for field in queries.fields]
    second = _prefixed(search.columns, "corpus", first)
    own = StructField(queries.column.name, queries.target.schema[queries.column.name].dataType)
    other = _Column(StructField(search.column.name, search.vector_field.dataType), "corpus", search.column.name)
    hidden = [_Column(own, "query", queries.column.name)]
    if other.field.name.lower() == own.name.lower():
        other = replace(other, field=replace_name(other.field, _PREFIX + other.field.name))
    hidden.append(other)
    names = {column.field.name.lower() for column in (*first, *second)}
    if _RFC_DISTANCE not in names:
        hidden.append(_Column(StructField(_RFC_DISTANCE, DoubleType()), "distance", ""))
    return [*first, *second, distance, rank], hidden


def _prefixed(fields: Sequence[StructField], side: str, first: Sequence[_Column]) -> list[_Column]:
    """The second side's columns, those whose names the first side has too under a prefix."""
    taken = {column.field.name.lower() for column in first}
    out = []
    for field in fields:
        name = _PREFIX + field.name if field.name.lower() in taken else field.name
        out.append(_Column(replace_name(field, name), side, field.name))
    return out


def replace_name(field: StructField, name: str) -> StructField:
    """The same field under another name."""
    return StructField(name, field.dataType, field.nullable, field.metadata)
