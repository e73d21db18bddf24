"""Removal of the nodes above a plan's relation: aliases, views, plain projections, and filters if requested."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from hudi_vector.read.predicate.form import Predicate
from hudi_vector.spark.catalyst.gateway import JavaObject, node_name, texts_of
from hudi_vector.spark.catalyst.handles import handles_of
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
# A column as Spark shows it: with L behind the id of a BIGINT, and the delay of a watermark.
_ATTRIBUTE = re.compile(r"(?P<name>.*)#(?P<id>\d+)L?(?:-T\d+ms)?", re.DOTALL)
_RELATIONS = frozenset({"LogicalRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation"})


@dataclass(frozen=True)
class Peeled:
    """The single relation of a plan, with the conditions of the filters above it, outermost first.

    `columns` maps expression ids, of the relation and of the projections above it, to the relation's column names.
    """

    relation: JavaObject
    columns: Mapping[int, str]
    filters: tuple[JavaObject, ...] = ()

    def physical(self, plan: JavaObject) -> tuple[tuple[str, str], ...] | None:
        """Return each output column of a plan with its name in the relation, or None if a column is computed."""
        pairs = [(name, self.columns.get(number)) for number, name in _attributes(plan.output())]
        found = tuple((name, physical) for name, physical in pairs if physical is not None)
        return found if len(found) == len(pairs) else None


def peel(plan: JavaObject, through_filters: bool = False) -> Peeled | str:
    """Return the single relation of a logical plan, or the reason why reading it cannot replace the plan.

    Filters above the relation are allowed only with `through_filters`.
    """
    renamed: dict[int, int] = {}
    filters: list[JavaObject] = []
    node = plan
    while (kind := node_name(node)) not in _RELATIONS:
        if kind == "Project":
            items = node.projectList()
            for i, text in enumerate(_texts(items)):
                pair = _passed_on(text) or _plain_column(items.apply(i))
                if pair is None:
                    return f"the view computes {items.apply(i).sql()}"
                renamed[pair[0]] = renamed.get(pair[1], pair[1])
                renamed = {outer: pair[1] if inner == pair[0] else inner for outer, inner in renamed.items()}
        elif kind == "Filter" and through_filters:
            filters.append(node.condition())
        elif kind not in _PASSED_THROUGH:
            return f"a {kind} is between the name and the table"
        node = node.children().apply(0)
    columns = dict(_attributes(node.output()))
    columns |= {outer: columns[inner] for outer, inner in renamed.items() if inner in columns}
    return Peeled(node, columns, tuple(filters))


def folded(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """Return an analysed plan with optimized conditions: constants folded, casts moved from columns to constants.

    Only rules that leave the relations as they were analysed are applied.
    """
    for name in _RULES:
        rule = handles_of(spark).module(f"org.apache.spark.sql.catalyst.optimizer.{name}")
        plan = rule.apply(plan)
    return plan


def translated(peeled: Peeled) -> list[Predicate]:
    """Return the filters as predicates over the relation's columns, all of which must hold.

    Raises UntranslatableError if a filter cannot be expressed as a predicate.
    """
    found = []
    for condition in peeled.filters:
        nodes = json.loads(condition.toJSON())
        for shown in nodes:
            if shown["class"].endswith(".AttributeReference"):
                name = peeled.columns.get(_expression_id(shown))
                if name is None:
                    raise UntranslatableError(f"column '{shown['name']}' is not in the table")
                shown["name"] = name
        found.append(translate(condition, nodes, str))
    return found


def _expression_id(shown: dict[str, object]) -> int:
    described = shown["exprId"]
    return int(described["id"]) if isinstance(described, dict) else -1


def _texts(expressions: JavaObject) -> list[str]:
    """Return Spark's texts of expressions, by one call; empty texts if they cannot be split."""
    count = expressions.length()
    texts = texts_of(expressions)
    return texts if len(texts) == count else [""] * count


def _attributes(output: JavaObject) -> list[tuple[int, str]]:
    """Return the expression id and the name of each column of a plan's output."""
    shown = [_ATTRIBUTE.fullmatch(text) for text in _texts(output)]
    return [
        (int(text["id"]), text["name"]) if text else (_id(output.apply(i)), str(output.apply(i).name()))
        for i, text in enumerate(shown)
    ]


def _passed_on(text: str) -> tuple[int, int] | None:
    """Return the expression id, twice, of a projection's column that is passed on under its name, by Spark's text.

    A projection holds nothing but columns and aliases, whose text has ``AS``.
    """
    found = None if " AS " in text else _ATTRIBUTE.fullmatch(text)
    return None if found is None else (int(found["id"]), int(found["id"]))


def _plain_column(expression: JavaObject) -> tuple[int, int] | None:
    """Return the new and the old expression id of a column that is passed on or renamed, None if it is computed.

    A cast to the same type counts as passed on.
    """
    own = _id(expression)
    while node_name(expression) in ("Alias", "Cast", "UpCast"):
        inner = expression.child()
        if node_name(expression) != "Alias" and not expression.dataType().sameType(inner.dataType()):
            return None
        expression = inner
    if node_name(expression) != "AttributeReference":
        return None
    return own, _id(expression)


def _id(named: JavaObject) -> int:
    return int(named.exprId().id())
