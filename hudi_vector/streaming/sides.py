"""The searched side of a stream: a Hudi table, or a view of one that only renames, omits or filters."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidFilterError, UnsupportedTableError
from hudi_vector.query.asking.values import of_left
from hudi_vector.query.join.conditions import LEFT
from hudi_vector.read.predicate.change import exchanged, renamed
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import Column, conjunction
from hudi_vector.spark.catalyst.gateway import first_sentence
from hudi_vector.spark.catalyst.predicates import analyse_filter
from hudi_vector.spark.catalyst.predicates_catalyst import UntranslatableError
from hudi_vector.spark.resolve import Target, resolve_frame, resolve_name
from hudi_vector.spark.unwrap import Peeled, folded, peel, translated
from hudi_vector.storage import path_text
from hudi_vector.table.model import Source

__all__ = ["SearchSide", "search_side", "with_filter"]


@dataclass(frozen=True)
class SearchSide:
    """A searched table with its columns and the condition on its rows, in the table's own names, or None.

    `text` is the condition as messages and plans show it.
    """

    target: Target
    source: Source
    predicate: Predicate | None = None
    text: str | None = None


def search_side(spark: SparkSession, table: str | os.PathLike[str] | DataFrame) -> SearchSide:
    """Resolve a name, path, DataFrame or view to the table to search.

    Raises TableNotFoundError if there is no such table, and UnsupportedTableError if it is more than a Hudi table with
    selected columns and rows, or is read as of a point of its history.
    """
    if isinstance(table, DataFrame):
        target = resolve_frame(spark, table._jdf.queryExecution().analyzed(), "the DataFrame")
    else:
        target = resolve_name(spark, as_text(path_text(table), "search_table"))
    side = SearchSide(target, target.source) if target.source is not None else _filtered(spark, target)
    if side.target.as_of is not None:
        raise UnsupportedTableError(
            f"'{target.label}' is read as of {side.target.as_of}, and a stream searches what is there when its rows "
            "come; name the table itself, or use on_time"
        )
    return side


def _filtered(spark: SparkSession, target: Target) -> SearchSide:
    """Return the table below a plan, with the plan's filters as a condition on its rows.

    Raises UnsupportedTableError if there is no such table, or a filter cannot be translated.
    """
    peeled = peel(target.plan, through_filters=True)
    if isinstance(peeled, str):
        raise _unsearchable(target, peeled)
    try:
        peeled = peel(folded(spark, target.plan), through_filters=True)
        assert isinstance(peeled, Peeled)
        terms = translated(peeled)
    except (UntranslatableError, RecursionError, Py4JJavaError, PySparkException) as refused:
        raise UnsupportedTableError(
            f"'{target.label}' cannot be searched by a stream: {_reason(refused)}; filter by comparisons of plain "
            "columns"
        ) from None
    table = resolve_frame(spark, peeled.relation, target.label)
    physical = peeled.physical(target.plan)
    if table.source is None or physical is None:
        raise _unsearchable(target, table.reason or "the view computes columns")
    found = replace(target, source=table.source, physical=physical, reason=None, as_of=table.as_of)
    return SearchSide(found, table.source, conjunction(terms) if terms else None, f"that of '{target.label}'")


def _reason(refused: Exception) -> str:
    if isinstance(refused, RecursionError):
        return "its filter is nested too deeply"
    return str(refused) if isinstance(refused, UntranslatableError) else first_sentence(refused)


def _unsearchable(target: Target, reason: str) -> UnsupportedTableError:
    pairs_or_groups = reason.startswith(("a Join ", "a Aggregate "))
    hint = (
        "name the table itself, or join the stream's rows with hudi_vector.knn_join in foreachBatch"
        if pairs_or_groups
        else "name the table itself, or a view that only chooses columns and rows"
    )
    return UnsupportedTableError(f"'{target.label}' cannot be searched by a stream: {reason}; {hint}")


def with_filter(spark: SparkSession, side: SearchSide, text: Any, left: StructType) -> SearchSide:
    """Return the side with the filter of the call added; None leaves the side as it is.

    Bare names in `text` are columns of the table, ``l.name`` is a column of the asking rows, whose schema is `left`. In
    the predicate, names of the asking row's columns begin with `LEFT_MARK`. Raises InvalidFilterError if `text` is not
    a condition, only Spark can evaluate it, or it names the asking row as a whole.
    """
    condition = as_text(text, "filter", allow_null=True)
    if condition is None:
        return side
    schema, names_left = side.target.schema, LEFT not in {name.lower() for name in side.target.schema.fieldNames()}
    if names_left:
        schema = StructType([*schema.fields, StructField(LEFT, left)])
    analysed = analyse_filter(spark, schema, condition, side.target.label)
    if analysed.predicate is None:
        raise InvalidFilterError(
            f"the filter {condition!r} cannot be used in a stream: {analysed.reason}; tasks search without Spark, so "
            "write it with comparisons of plain columns, or filter the result"
        )
    own = renamed(
        _marked(analysed.predicate, condition) if names_left else analysed.predicate, dict(side.target.physical)
    )
    both = own if side.predicate is None else conjunction([side.predicate, own])
    return SearchSide(
        side.target, side.source, both, condition if side.text is None else f"{side.text} and {condition}"
    )


def _marked(predicate: Predicate, condition: str) -> Predicate:
    """Return the predicate with fields of the struct `LEFT` as columns of the asking row, which bear `LEFT_MARK`.

    Raises InvalidFilterError if it names the struct itself.
    """

    def change(node: Predicate) -> Predicate | None:
        if not isinstance(node, Column) or node.name != LEFT:
            return None
        if not node.path:
            raise InvalidFilterError(
                f"the filter {condition!r} names the rows that ask as a whole; name a column of theirs"
            )
        return of_left(node)

    return exchanged(predicate, change)
