"""The description of a join's plan that explain prints."""

from __future__ import annotations

import textwrap

from hudi_vector.query.asking.values import LEFT_MARK
from hudi_vector.query.join.conditions import LEFT, JoinCondition
from hudi_vector.read.predicate.change import exchanged
from hudi_vector.read.predicate.form import Predicate, to_text
from hudi_vector.read.predicate.nodes import Column
from hudi_vector.spark.join.prepare import Prepared
from hudi_vector.spark.join.request import JoinRequest

__all__ = ["described"]


def described(prepared: Prepared) -> str:
    """Return the plan of a join as text of several lines, without credentials."""
    request = prepared.request
    kind = "left_outer" if request.outer else "inner"
    wanted = f"k = {request.k}" if request.k else "all rows"
    within = "" if request.max_distance is None else f", max_distance = {request.max_distance}"
    sides = [f"{side.label}.{side.column.name}" for side in (request.left, request.right)]
    lines = [
        f"KNN join of {sides[0]} with {sides[1]}, {kind}",
        f"  metric      {request.metric}, {wanted}{within}",
        *([f"  groups      {request.tuning.grouping.describe()}"] if request.tuning.grouping else []),
        prepared.route.describe(),
        *_condition(prepared),
        f"  left        {_left(prepared)}",
    ]
    if prepared.way is not None and prepared.way.lines:
        lines.append(textwrap.indent(prepared.way.lines, "  "))
    return "\n".join(lines)


def _left(prepared: Prepared) -> str:
    request = prepared.request
    if prepared.way is None:
        return "paired by Spark"
    if prepared.on_driver:
        return "few rows: the driver asks for all at once, the right side is divided"
    _, how = request.left.spread(request.spark)
    return f"one stage without a shuffle behind it, over {how}"


def _condition(prepared: Prepared) -> list[str]:
    request = prepared.request
    parts = request.condition
    if request.asked.text is None and not request.self_columns:
        return []
    lines = [f"  condition   {request.asked.text or 'none'}"]
    if request.self_columns:
        lines.append(f"    not itself: pairs with equal {', '.join(request.self_columns)} are left out")
    if prepared.way is None:
        return [*lines, "    evaluated by Spark for every pair"]
    if request.asked.by_spark:
        lines.append(f"    on the right side, before distances, by Spark: {request.asked.by_spark}")
    if parts.right is not None:
        lines.append(f"    on the right side, before distances: {_text(parts.right)}")
    if parts.left is not None:
        lines.append(f"    on the left side, before anything is searched: {_text(parts.left)}")
    if parts.both is not None:
        lines.append(f"    on both sides: {_text(parts.both)}; {_how(request, parts)}")
    return lines


def _how(request: JoinRequest, parts: JoinCondition) -> str:
    if request.k is None:
        return "pairs within the distance that do not meet it are left out"
    if parts.pairs_only:
        more = "group, and one row of each," if request.tuning.grouping else "row"
        return f"one {more} more than wanted is found"
    return (
        "where few left values differ, a search for each of them; else more rows are found until k of them meet it or "
        "no more are there"
    )


def _text(predicate: Predicate) -> str:
    def change(node: Predicate) -> Predicate | None:
        if not isinstance(node, Column) or not node.name.startswith(LEFT_MARK):
            return None
        return Column(LEFT, node.type, (node.name[len(LEFT_MARK) :], *node.path))

    return to_text(exchanged(predicate, change))
