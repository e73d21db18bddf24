"""The streaming search as the SQL table function ``hudi_vector_search_stream``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import as_k, as_text
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.query.tuning import JoinOptions
from hudi_vector.spark.catalyst.arguments import (
    Argument,
    Signature,
    bind,
    constant,
    is_table,
    named_and_placed,
    nested_constant,
)
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import frame_of
from hudi_vector.spark.catalyst.printed import Expressions
from hudi_vector.spark.statements import table_plan
from hudi_vector.streaming.api import vector_search

__all__ = ["stream_function"]

_SIGNATURE = Signature(
    "hudi_vector_search_stream",
    ("input", "search_table", "column_to_search", "column_to_query", "top_k", "on_time", "config"),
    ("input", "search_table", "column_to_search", "column_to_query", "top_k"),
    named_only=(
        "join_type",
        "metric",
        "max_distance",
        "filter",
        "columns",
        "include_vector",
        "clash",
        "mode",
        "recall_target",
        *JoinOptions.__annotations__,
    ),
    aliases=(("distance_metric", "metric"),),
)


def stream_function(spark: SparkSession, expressions: Expressions) -> JavaObject:
    """Build the plan of ``hudi_vector_search_stream``.

    The arguments are ``(TABLE(input), search_table, column_to_search, column_to_query, top_k, …)``.
    """
    given = bind(_SIGNATURE, named_and_placed(expressions, as_printed=False))
    if not is_table(given["input"]):
        raise InvalidTypeError("the argument 'input' must be TABLE(a view or query), whose rows ask")
    values = {name: _value(expression, name) for name, expression in given.items() if not is_table(expression)}
    tables = {name: _frame(spark, given[name]) for name in given if is_table(given[name])}
    unfit = set(tables) - {"input", "search_table"}
    if unfit:
        raise InvalidTypeError(f"the argument '{unfit.pop()}' must be a constant, not a table")
    column, query_column = (as_text(values[name], name) for name in ("column_to_search", "column_to_query"))
    found = vector_search(
        tables["input"],
        tables["search_table"] if "search_table" in tables else values["search_table"],
        column,
        query_column,
        _top_k(values["top_k"]),
        **{name: value for name, value in values.items() if name not in _SIGNATURE.required},
    )
    return found._jdf.queryExecution().analyzed()


def _top_k(value: Any) -> int:
    """Check the number of rows; messages name the argument ``top_k``, as SQL does."""
    try:
        return as_k(value)
    except InvalidArgumentError as problem:
        raise InvalidArgumentError(str(problem).replace("k must", "top_k must", 1)) from None


def _frame(spark: SparkSession, expression: JavaObject) -> DataFrame:
    return frame_of(spark, table_plan(spark, expression))


def _value(argument: Argument, name: str) -> Any:
    """Return a constant's value; unlike the other functions, this one also takes a map and a list of text."""
    if name == "group_by":
        return nested_constant(argument, name)
    if name not in ("config", "columns"):
        return constant(argument, name)
    if not argument.foldable():
        raise InvalidArgumentError(f"the argument '{name}' must be a constant, not {argument.sql()}")
    value, kind = argument.eval(None), str(argument.dataType().simpleString())
    if value is None:
        return None
    if name == "columns" and kind == "array<string>":
        return _texts(value)
    if name == "config" and kind == "map<string,string>":
        return dict(zip(_texts(value.keyArray()), _texts(value.valueArray()), strict=True))
    wanted = "map('key', 'value', …)" if name == "config" else "array('name', …)"
    raise InvalidTypeError(f"the argument '{name}' must be {wanted}, not {kind.upper()}")


def _texts(array: JavaObject) -> list[str]:
    return [str(array.getUTF8String(i)) for i in range(array.numElements())]
