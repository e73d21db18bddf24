"""Checks of the number of a DataFrame's rows, for plans whose statistics in Spark are too vague."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from hudi_vector.spark.catalyst.gateway import JavaObject, simple_name

__all__ = ["has_at_most", "is_narrow"]

_NARROW = frozenset({"Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "LocalLimit"})
_LEAVES = frozenset({"LogicalRelation", "LogicalRDD", "LocalRelation", "InMemoryRelation", "Range", "OneRowRelation"})


def is_narrow(plan: JavaObject) -> bool:
    """Return True if each partition of a plan is computed from one partition of its source, without a shuffle."""
    node = plan
    while simple_name(node) in _NARROW:
        node = node.children().apply(0)
    return simple_name(node) in _LEAVES


def has_at_most(frame: DataFrame, rows: int) -> bool:
    """Return True if a DataFrame has at most `rows` rows; compute at most one row more than that, without columns."""
    taken: Any = frame.select(F.lit(1))._jdf.take(rows + 1)
    return len(taken) <= rows
