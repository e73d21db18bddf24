"""The side that answers: a Hudi table, or a view that renames, leaves out columns or filters, and nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidFilterError, UnsupportedTableError
from hudi_vector.read.predicate.change import renamed
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import FALSE, Column, conjunction, walk
from hudi_vector.spark.catalyst.gateway import JavaObject, first_sentence, simple_name
from hudi_vector.spark.catalyst.predicates import analyse_filter
from hudi_vector.spark.catalyst.predicates_catalyst import UntranslatableError
from hudi_vector.spark.resolve import Target, resolve_frame, resolve_name
from hudi_vector.spark.unwrap import peel, translated
from hudi_vector.storage import path_text
from hudi_vector.table.model import Source

__all__ = ["LEFT", "LEFT_ROW", "SearchSide", "search_side", "with_filter"]

LEFT = "l"
"""How a filter names the rows that ask."""

LEFT_ROW = "__hudi_vector_left"
"""What the rows that ask are called in a predicate, whose other names are the table's."""

_BETWEEN = frozenset({"SubqueryAlias", "View", "Project"})


@dataclass(frozen=True)
class SearchSide:
    """What is searched: the table and its columns, and the condition its rows must meet, in the table's own names."""

    target: Target
    source: Source
    predicate: Predicate | None = None
    text: str | None = None


def search_side(spark: SparkSession, table: str | os.PathLike[str] | DataFrame) -> SearchSide:
    """What a name, path, DataFrame or view stands for.

    Args:
        spark: The session.
        table: What is searched.

    Returns:
        The side.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is more than a Hudi table with chosen columns and rows.
    """
    if isinstance(table, DataFrame):
        target = resolve_frame(spark, table._jdf.queryExecution().analyzed(), "the DataFrame")
    else:
        target = resolve_name(spark, as_text(path_text(table), "search_table") or "")
    if target.as_of is not None:
        raise UnsupportedTableError(
            f"'{target.label}' is read as of {target.as_of}, and a stream searches what is there when its rows come; "
            "name the table itself, or use on_time"
        )
    if target.source is not None:
        return SearchSide(target, target.source)
    return _filtered(spark, target)


def _filtered(spark: SparkSession, target: Target) -> SearchSide:
    assert target.plan is not None
    unfiltered = _without_filters(spark, target.plan)
    inner = resolve_frame(spark, unfiltered, target.label) if unfiltered is not None else target
    if inner.source is None:
        kinds = {"Join", "Aggregate"} & set(_kinds(target.plan))
        hint = (
            "name the table itself, or join the stream's rows with hudi_vector.knn_join in foreachBatch"
            if kinds
            else "name the table itself, or a view that only chooses columns and rows"
        )
        raise UnsupportedTableError(f"'{target.label}' cannot be searched by a stream: {inner.reason}; {hint}")
    try:
        predicate = _condition(spark, target.plan)
    except (UntranslatableError, RecursionError) as refused:
        reason = str(refused) if isinstance(refused, UntranslatableError) else "its filter is nested too deeply"
        raise UnsupportedTableError(
            f"'{target.label}' cannot be searched by a stream: {reason}; filter by comparisons of plain columns"
        ) from None
    return SearchSide(inner, inner.source, predicate, f"that of '{target.label}'")


def _kinds(plan: JavaObject) -> list[str]:
    children = plan.children()
    return [simple_name(plan), *(kind for i in range(children.length()) for kind in _kinds(children.apply(i)))]


def _without_filters(spark: SparkSession, plan: JavaObject) -> JavaObject | None:
    """The same plan without its filters; None where something else than plain projections is in it."""
    kind = simple_name(plan)
    if kind == "LogicalRelation":
        return plan
    if kind != "Filter" and kind not in _BETWEEN:
        return None
    below = _without_filters(spark, plan.children().apply(0))
    if below is None or kind == "Filter":
        return below
    assert spark._jvm is not None
    return plan.withNewChildren(spark._jvm.PythonUtils.toSeq([below]))


def _condition(spark: SparkSession, plan: JavaObject) -> Predicate:
    """The conditions of a plan over one table, in the table's own names: Spark's optimizer moves them there."""
    assert spark._jvm is not None
    try:
        node = spark._jvm.org.apache.spark.sql.Dataset.ofRows(spark._jsparkSession, plan)
        node = node.queryExecution().optimizedPlan()
    except (Py4JJavaError, PySparkException) as problem:
        raise UntranslatableError(first_sentence(problem)) from None
    if simple_name(node) == "LocalRelation" and node.data().isEmpty():
        return FALSE  # the optimizer proved that no row can satisfy the conditions
    peeled = peel(node, through_filters=True)
    if isinstance(peeled, str):
        raise UntranslatableError(peeled)
    return conjunction(translated(peeled))


def with_filter(spark: SparkSession, side: SearchSide, text: Any, left: StructType) -> SearchSide:
    """The side with a filter of the call.

    Args:
        spark: The session.
        side: What is searched.
        text: A condition: bare names are columns of the table, ``l.name`` those of the rows that ask; or None.
        left: The columns of the rows that ask.

    Returns:
        The side; columns of the rows that ask are fields of the column `LEFT_ROW` in its predicate.

    Raises:
        InvalidFilterError: It is no condition, or one that only Spark evaluates.
    """
    condition = as_text(text, "filter", allow_null=True)
    if condition is None:
        return side
    schema = side.target.schema
    if LEFT not in {name.lower() for name in schema.fieldNames()}:
        schema = StructType([*schema.fields, StructField(LEFT, left)])
    analysed = analyse_filter(spark, schema, condition, side.target.label)
    if analysed.predicate is None:
        raise InvalidFilterError(
            f"the filter {condition!r} cannot be used in a stream: {analysed.reason}; tasks search without Spark, so "
            "write it with comparisons of plain columns, or filter the result"
        )
    own = renamed(analysed.predicate, {LEFT: LEFT_ROW, **dict(side.target.physical)})
    if any(isinstance(node, Column) and node.name == LEFT_ROW and not node.path for node in walk(own)):
        raise InvalidFilterError(
            f"the filter {condition!r} names the rows that ask as a whole; name a column of theirs"
        )
    both = own if side.predicate is None else conjunction([side.predicate, own])
    return SearchSide(
        side.target, side.source, both, condition if side.text is None else f"{side.text} and {condition}"
    )
