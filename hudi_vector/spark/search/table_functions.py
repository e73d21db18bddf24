"""The builders of the SQL search functions, which check the arguments and return a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import as_distance, as_k, as_text, as_vector
from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.kernels.metrics import metric_named, require_comparable
from hudi_vector.query.tuning import AS_SET, JoinOptions, Tuning, checked_tuning
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.catalyst.arguments import (
    Argument,
    Signature,
    bind,
    constant,
    is_deferred,
    is_table,
    named_and_placed,
    nested_constant,
)
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.predicates import analyse_filter
from hudi_vector.spark.catalyst.printed import Expressions
from hudi_vector.spark.catalyst.settings import time_zone
from hudi_vector.spark.columns import shown_in_sql, vector_column
from hudi_vector.spark.resolve import Target, as_it_was, resolve_frame, resolve_name
from hudi_vector.spark.search.batch import BatchShape, QueryRows, batch_plan
from hudi_vector.spark.search.search import TableSearch
from hudi_vector.spark.search.single import constant_query, single_relation
from hudi_vector.spark.snapshots import snapshot_for, writers_zone
from hudi_vector.spark.statements import table_plan
from hudi_vector.table.instants import AsOf, parse_as_of
from hudi_vector.table.searched_column import searched_column

__all__ = ["as_of_argument", "batch_function", "checked_search", "search_function", "table_argument"]

_TABLE_ALIASES = (("table_name", "table"), ("table_path", "table"))
_METRIC_ALIASES = (("metric", "distance_metric"),)
_TUNING = ("mode", "recall_target", *JoinOptions.__annotations__)

_SINGLE = Signature(
    "hudi_vector_search",
    ("table", "embedding_col", "query_vector", "k", "distance_metric", "algorithm", "filter", "max_distance"),
    ("table", "query_vector", "k"),
    named_only=("as_of", "execution", *_TUNING),
    aliases=_TABLE_ALIASES + _METRIC_ALIASES,
)
_BATCH = Signature(
    "hudi_vector_search_batch",
    (
        "table",
        "embedding_col",
        "query_table",
        "query_col",
        "k",
        "distance_metric",
        "algorithm",
        "filter",
        "max_distance",
    ),
    ("table", "query_table", "query_col", "k"),
    named_only=("as_of", "execution", *_TUNING),
    aliases=_TABLE_ALIASES + _METRIC_ALIASES,
)
# RFC-102's form: each row of base_table gets its nearest rows of query_table.
_JOINED = Signature(
    "hudi_vector_search",
    (),
    ("base_table", "base_col", "query_table", "query_col", "k"),
    named_only=(
        "base_table",
        "base_col",
        "query_table",
        "query_col",
        "k",
        "distance_metric",
        "algorithm",
        "filter",
        "max_distance",
        "as_of",
        "execution",
        *_TUNING,
    ),
    aliases=_METRIC_ALIASES,
)


def search_function(spark: SparkSession, expressions: Expressions) -> JavaObject:
    """Build ``hudi_vector_search(…)``: for one query vector, or in RFC-102's form with two tables."""
    arguments = named_and_placed(expressions)
    named = {name.lower() for name, _ in arguments if name is not None}
    if named & {"base_table", "base_col", "query_table", "query_col"}:
        return _joined(spark, bind(_JOINED, arguments))
    given = bind(_SINGLE, arguments)
    target = table_argument(spark, given["table"], "table")
    name = _column(given)
    query, length = _query(spark, given["query_vector"])
    dimension = None if name is None else vector_column(target.schema, name, target.label, length).dimension
    search = _search(spark, target, name, given, dimension or length)
    shown = shown_in_sql(spark)
    if length is None:
        return single_relation(search, query, shown)
    return single_relation(search, constant_query(query(), search.column.dimension), shown)


def batch_function(spark: SparkSession, expressions: Expressions) -> JavaObject:
    """Build ``hudi_vector_search_batch(…)``: the nearest rows of a table for each row of a query table."""
    given = bind(_BATCH, named_and_placed(expressions))
    corpus = table_argument(spark, given["table"], "table")
    queries = table_argument(spark, given["query_table"], "query_table")
    rows = QueryRows.of(queries, _text(given["query_col"], "query_col"))
    search = _search(spark, corpus, _column(given), given, rows.dimension)
    return batch_plan(search, rows, BatchShape.CORPUS_FIRST, shown_in_sql(spark))


def _joined(spark: SparkSession, given: Mapping[str, Argument]) -> JavaObject:
    base = table_argument(spark, given["base_table"], "base_table")
    corpus = table_argument(spark, given["query_table"], "query_table")
    rows = QueryRows.of(base, _text(given["base_col"], "base_col"))
    search = _search(spark, corpus, _text(given["query_col"], "query_col"), given, rows.dimension)
    return batch_plan(search, rows, BatchShape.QUERY_FIRST)


def _column(given: Mapping[str, Argument]) -> str | None:
    return _text(given["embedding_col"], "embedding_col") if "embedding_col" in given else None


def _search(
    spark: SparkSession, target: Target, column: str | None, given: Mapping[str, Argument], dimension: int | None
) -> TableSearch:
    values = {
        name: nested_constant(given[name], name) if name == "group_by" else constant(given[name], name)
        for name in ("k", "distance_metric", "algorithm", "filter", "max_distance", "as_of", "execution", *_TUNING)
        if name in given
    }
    return checked_search(
        spark,
        target,
        column,
        dimension,
        k=values.get("k"),
        metric=values.get("distance_metric"),
        tuning=checked_tuning(algorithm=values.get("algorithm"), **{name: values.get(name) for name in _TUNING}),
        filter=values.get("filter"),
        max_distance=values.get("max_distance"),
        as_of=as_of_argument(values.get("as_of")),
        execution=values.get("execution"),
    )


def checked_search(
    spark: SparkSession,
    target: Target,
    column: str | VectorColumn | None,
    dimension: int | None,
    *,
    k: Any,
    metric: Any = None,
    tuning: Tuning = AS_SET,
    filter: Any = None,  # noqa: A002 - the name SQL gives it
    max_distance: Any = None,
    as_of: Any = None,
    execution: Any = None,
) -> TableSearch:
    """Return a search after all checks that are possible before it runs.

    `column` is the name of the vector column, the resolved column, or None for the one that the table has chosen.
    `dimension` is the length of the queries, None if unknown. `metric` is cosine by default. `as_of` is an instant or a
    timestamp; the target then gets the columns of that time. Raises DimensionMismatchError if the queries have another
    length than a VECTOR column, and the errors of each check of an argument.
    """
    instant = _as_of(spark, target, as_of)
    if instant is not None and target.as_of is None:
        target = as_it_was(spark, target, instant, writers_zone(spark))
    if column is None:
        column = _chosen_column(spark, target, instant)
    found = vector_column(target.schema, column, target.label, dimension) if isinstance(column, str) else column
    if found.is_vector and dimension is not None and dimension != found.dimension:
        raise DimensionMismatchError(
            f"the query vectors have {number_of(dimension, 'element')}, column '{found.name}' of '{target.label}' has "
            f"{found.dimension}; give {found.dimension}"
        )
    measured = metric_named("cosine" if metric is None else metric)
    require_comparable(measured, found.name, found.element)
    text = as_text(filter, "filter", allow_null=True)
    search = TableSearch(
        spark=spark,
        target=target,
        column=found,
        metric=measured,
        k=as_k(k),
        max_distance=as_distance(max_distance),
        filter=None if text is None else analyse_filter(spark, target.schema, text, target.label),
        as_of=instant,
        execution=_execution(execution),
        tuning=_of_columns(tuning, target),
    )
    search.check_index()
    return search


def _of_columns(tuning: Tuning, target: Target) -> Tuning:
    """Return the arguments of a search whose grouping names columns as the target spells them."""
    if tuning.grouping is None:
        return tuning
    return replace(tuning, grouping=tuning.grouping.within(pa.schema(arrow_fields(target.schema)), target.label))


def _chosen_column(spark: SparkSession, target: Target, instant: AsOf | None) -> str:
    """Return the column, by the target's name for it, that its table has chosen for searches that name none."""
    if target.source is None:
        raise InvalidArgumentError(
            f"name the column of '{target.label}': only a Hudi table that is read directly has a column that is "
            f"searched by default, and {target.reason}"
        )
    held = searched_column(snapshot_for(spark, target.source, instant))
    shown = next((outer for outer, inner in target.physical if inner == held), None)
    if shown is None:
        raise InvalidArgumentError(
            f"searches use column '{held}' of the table, which '{target.label}' leaves out; name a column"
        )
    return shown


def _execution(execution: Any) -> str:
    if execution is None:
        return "auto"
    name = (as_text(execution, "execution")).strip().lower()
    if name not in ("auto", "local", "distributed"):
        raise InvalidArgumentError(f"unknown execution {execution!r}; give auto, local or distributed")
    return name


def _as_of(spark: SparkSession, target: Target, value: Any) -> AsOf | None:
    if value is None:
        return parse_as_of(target.as_of, time_zone(spark)) if target.as_of else None
    if target.as_of:
        raise InvalidArgumentError(f"'{target.label}' is already read as of {target.as_of}; leave as_of out")
    if target.source is None:
        raise InvalidArgumentError(
            f"as_of needs a Hudi table that is read directly, and for '{target.label}' {target.reason}; "
            "put the time travel into the view or subquery instead"
        )
    return value if isinstance(value, AsOf) else parse_as_of(value, time_zone(spark))


def as_of_argument(value: Any) -> Any:
    """Return an ``as_of`` value of SQL in a form that `checked_search` accepts.

    `constant` gives a TIMESTAMP in microseconds and a DATE in days since 1970. Raises InvalidTypeError for a
    TIMESTAMP_NTZ.
    """
    if isinstance(value, tuple):
        kind, number = value
        if kind == "timestamp":
            return AsOf(f"{number} µs", epoch_micros=number)
        if kind == "date":
            return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
        raise InvalidTypeError("as_of takes an instant, a TIMESTAMP or a DATE, not a TIMESTAMP_NTZ; cast it")
    return value


def table_argument(spark: SparkSession, argument: Argument, name: str) -> Target:
    """Return the target of an argument that names a table or is ``TABLE(…)``."""
    if is_table(argument):
        return resolve_frame(spark, table_plan(spark, argument), "the TABLE argument")
    return resolve_name(spark, _text(argument, name))


def _text(argument: Argument, name: str) -> str:
    text = as_text(constant(argument, name), name)
    assert text is not None
    return text


def _query(spark: SparkSession, argument: Argument) -> tuple[Callable[[], Any], int | None]:
    """Return a function that gives the query vector, and its length, None if only the running statement knows it."""
    if is_deferred(argument):
        return _subquery_value(spark, argument), None
    value = constant(argument, "query_vector")
    vector = as_vector(value, None)
    return (lambda: vector), len(vector)


def _subquery_value(spark: SparkSession, expression: JavaObject) -> Callable[[], Any]:
    def evaluate() -> Any:
        java = handles_of(spark)
        columns = java.sequence([java.named("org.apache.spark.sql.Column")(expression)])
        row = DataFrame(spark._jsparkSession.range(1).select(columns), spark)
        return row.collect()[0][0]

    return evaluate
