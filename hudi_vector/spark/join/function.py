"""The builder of ``hudi_knn_join(…)`` in SQL."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.arguments import as_text
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
from hudi_vector.spark.join.api import join_plan
from hudi_vector.spark.join.prepare import prepare
from hudi_vector.spark.statements import table_plan

__all__ = ["join_function"]

_NAMED = (
    "metric",
    "join_type",
    "mode",
    "recall_target",
    "max_distance",
    "condition",
    "exclude_self",
    "rank_column",
    "distance_column",
    *JoinOptions.__annotations__,
)
_SIGNATURE = Signature(
    "hudi_knn_join",
    ("left", "right", "left_vector", "right_vector", "k"),
    ("left", "right", "left_vector", "right_vector"),
    named_only=_NAMED,
    aliases=(("left_table", "left"), ("right_table", "right"), ("distance_metric", "metric")),
)


def join_function(spark: SparkSession, expressions: Expressions) -> JavaObject:
    """Build ``hudi_knn_join(left, right, left_vector, right_vector, k, …)``; a side is a name or ``TABLE(…)``."""
    given = bind(_SIGNATURE, named_and_placed(expressions))
    values = {
        name: nested_constant(given[name], name) if name == "group_by" else constant(given[name], name)
        for name in _NAMED
        if name in given
    }
    vectors = [as_text(constant(given[name], name), name) for name in ("left_vector", "right_vector")]
    k = constant(given["k"], "k") if "k" in given else None
    excluded = values.get("exclude_self")
    if isinstance(excluded, str) and "," in excluded:
        values["exclude_self"] = [name.strip() for name in excluded.split(",")]
    left, right = (_side(spark, given[name], name) for name in ("left", "right"))
    return join_plan(prepare(left, right, vectors[0], vectors[1], k, spark=spark, **values))


def _side(spark: SparkSession, argument: Argument, name: str) -> Any:
    return frame_of(spark, table_plan(spark, argument)) if is_table(argument) else constant(argument, name)
