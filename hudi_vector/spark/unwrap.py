"""What stands between a plan and the files it reads: aliases, views and plain projections, and filters where wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from hudi_vector.read.predicate.form import Predicate
from hudi_vector.spark.catalyst.gateway import JavaObject, simple_name
from hudi_vector.spark.catalyst.predicates_catalyst import UntranslatableError, translate

__all__ = ["Peeled", "folded", "peel", "translated"]

_PASSED_THROUGH = frozenset({"SubqueryAlias", "View", "Project", "ResolvedHint"})
_RULES = (
    "ReplaceExpressions",
    "ComputeCurrentTime",
    "ConstantFolding",
    "UnwrapCastInBinaryComparison",
    "ConstantFolding",
    "BooleanSimplification",
    "SimplifyCasts",
)
_RELATIONS = frozenset({"LogicalRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation"})


@dataclass(frozen=True)
class Peeled:
    """The one relation of a plan, what it calls columns by their expression ids, and the filters above it."""

    relation: JavaObject
    columns: Mapping[int, str]
    filters: tuple[JavaObject, ...] = ()

    def physical(self, plan: JavaObject) -> tuple[tuple[str, str], ...] | None:
        """The output columns of a plan above the relation with the relation's names of them, None where it computes."""
        output = plan.output()
        pairs = []
        for i in range(output.length()):
            physical = self.columns.get(_id(output.apply(i)))
            if physical is None:
                return None
            pairs.append((str(output.apply(i).name()), physical))
        return tuple(pairs)


def peel(plan: JavaObject, through_filters: bool = False) -> Peeled | str:
    """Take a plan apart down to the one relation it reads.

    Args:
        plan: A logical plan.
        through_filters: Whether filters may stand in between.

    Returns:
        The relation and what stands above it, or why there is none that could be read in the plan's place.
    """
    renamed: dict[int, int] = {}
    filters: list[JavaObject] = []
    node = plan
    while (kind := simple_name(node)) not in _RELATIONS:
        if kind == "Project":
            items = node.projectList()
            for i in range(items.length()):
                pair = _plain_column(items.apply(i))
                if pair is None:
                    return f"the view computes {items.apply(i).sql()}"
                renamed[pair[0]] = renamed.get(pair[1], pair[1])
                renamed = {outer: pair[1] if inner == pair[0] else inner for outer, inner in renamed.items()}
        elif kind == "Filter" and through_filters:
            filters.append(node.condition())
        elif kind not in _PASSED_THROUGH:
            return f"a {kind} stands between the name and the table"
        node = node.children().apply(0)
    output = node.output()
    columns = {_id(output.apply(i)): str(output.apply(i).name()) for i in range(output.length())}
    columns |= {outer: columns[inner] for outer, inner in renamed.items() if inner in columns}
    return Peeled(node, columns, tuple(filters))


def folded(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """A plan whose conditions are as the optimizer leaves them, and whose relations are still as they were analysed.

    Args:
        spark: The session.
        plan: An analysed plan.

    Returns:
        The plan with constants folded and casts moved from columns to constants.
    """
    for name in _RULES:
        rule = getattr(getattr(spark._jvm, f"org.apache.spark.sql.catalyst.optimizer.{name}$"), "MODULE$")
        plan = rule.apply(plan)
    return plan


def translated(peeled: Peeled) -> list[Predicate]:
    """The filters in the pure form, over the relation's columns.

    Args:
        peeled: A plan taken apart.

    Returns:
        Conditions that all hold.

    Raises:
        UntranslatableError: One of them has no place in the form.
    """
    found = []
    for condition in peeled.filters:
        nodes = json.loads(condition.toJSON())
        for shown in nodes:
            if shown["class"].endswith(".AttributeReference"):
                name = peeled.columns.get(_expression_id(shown))
                if name is None:
                    raise UntranslatableError(f"column '{shown['name']}' is none of the table")
                shown["name"] = name
        found.append(translate(condition, nodes, str))
    return found


def _expression_id(shown: dict[str, object]) -> int:
    described = shown["exprId"]
    return int(described["id"]) if isinstance(described, dict) else -1


def _plain_column(expression: JavaObject) -> tuple[int, int] | None:
    """For a column passed on as it is: its new and its old id."""
    own = _id(expression)
    while simple_name(expression) in ("Alias", "Cast", "UpCast"):
        inner = expression.child()
        if simple_name(expression) != "Alias" and not expression.dataType().sameType(inner.dataType()):
            return None
        expression = inner
    if simple_name(expression) != "AttributeReference":
        return None
    return own, _id(expression)


def _id(named: JavaObject) -> int:
    return int(named.exprId().id())
