"""A look at how many rows a DataFrame has, where Spark's statistics say too little."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from hudi_vector.spark.catalyst.gateway import JavaObject, simple_name

__all__ = ["has_at_most", "is_narrow"]

_NARROW = frozenset({"Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "LocalLimit"})
_LEAVES = frozenset({"LogicalRelation", "LogicalRDD", "LocalRelation", "InMemoryRelation", "Range", "OneRowRelation"})


def is_narrow(plan: JavaObject) -> bool:
    """Return whether each of a plan's partitions is made of one of its source's."""
    node = plan
    while simple_name(node) in _NARROW:
        node = node.children().apply(0)
    return simple_name(node) in _LEAVES


def has_at_most(frame: DataFrame, rows: int) -> bool:
    """Return whether a DataFrame has no more than so many rows; computes that many and one more, of no columns."""
    taken: Any = frame.select(F.lit(1))._jdf.take(rows + 1)
    return len(taken) <= rows
