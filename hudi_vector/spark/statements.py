"""The text of SQL statements under analysis: its parsed plan, and the plans of its ``TABLE(…)`` arguments."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.spark.catalyst.gateway import JavaObject, node_name, option_value
from hudi_vector.spark.catalyst.handles import frame_of, handles_of

__all__ = ["elements_of", "nodes_of", "parsed", "table_plan"]

_CATALYST = "org.apache.spark.sql.catalyst"
_TABLE = "FunctionTableSubqueryArgumentExpression"

_Scope = tuple[tuple[JavaObject, int], ...]
"""The WITH clauses around a node, the outermost first, each with the number of its CTEs that the node may read."""


def parsed(spark: SparkSession, text: str) -> JavaObject | None:
    """Return the plan of a statement before its analysis, None for a text that is a single expression."""
    try:
        return spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except (Py4JError, PySparkException):
        return None


def table_plan(spark: SparkSession, argument: JavaObject) -> JavaObject:
    """Return the analysed plan of an argument ``TABLE(…)``, which holds all that it reads.

    A CTE that it reads is defined elsewhere in the statement, so that Spark cannot run its plan alone. The argument is
    then parsed again, from the text that it was read from, and analysed with the definitions around it. Raises
    InvalidArgumentError if these are not found, or hold a parameter of the statement, whose value is not known here.
    """
    plan = argument.plan()
    if not _lacks_definitions(spark, plan):
        return plan
    text = option_value(argument.origin().sqlText())
    statement = None if text is None else parsed(spark, text)
    whole = None if statement is None else _with_definitions(spark, statement, argument)
    if whole is None:
        raise _refused("was not found")
    try:
        analysed = frame_of(spark, whole)._jdf.queryExecution().analyzed()
    except AnalysisException as problem:
        if problem.getErrorClass() == "UNBOUND_SQL_PARAMETER":
            raise _refused("has a parameter of the statement") from None
        raise
    return handles_of(spark).named(f"{_CATALYST}.optimizer.InlineCTE")(True).apply(analysed)


def _refused(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"TABLE(…) reads a CTE whose definition {why}; define it inside, as TABLE(WITH c AS (…) …)"
    )


def _lacks_definitions(spark: SparkSession, plan: JavaObject) -> bool:
    """Return True if an analysed plan reads a CTE that it does not define."""
    if not plan.containsPattern(handles_of(spark).named(f"{_CATALYST}.trees.TreePattern").CTE()):
        return False
    names = {node_name(node) for node in nodes_of(plan)}
    return "CTERelationRef" in names and "WithCTE" not in names


def _with_definitions(spark: SparkSession, statement: JavaObject, argument: JavaObject) -> JavaObject | None:
    """Return the plan of the argument at the same place of the parsed statement, below the WITH clauses around it."""
    with_clause, place = handles_of(spark).named(f"{_CATALYST}.plans.logical.UnresolvedWith"), _place(argument)

    def below(plan: JavaObject, clause: tuple[JavaObject, int]) -> JavaObject:
        node, count = clause
        return with_clause(plan, node.cteRelations().take(count))

    found = ((table, scope) for table, scope in _tables(statement) if _place(table) == place)
    return next((reduce(below, reversed(scope), table.plan()) for table, scope in found), None)


def _tables(statement: JavaObject) -> Iterator[tuple[JavaObject, _Scope]]:
    """Yield the ``TABLE(…)`` arguments of a parsed plan with the WITH clauses around them."""
    for node, scope in _scoped(statement, ()):
        for expression in elements_of(node.expressions()):
            yield from ((leaf, scope) for leaf in elements_of(expression.collectLeaves()) if node_name(leaf) == _TABLE)


def _place(expression: JavaObject) -> tuple[object, object]:
    origin = expression.origin()
    return option_value(origin.line()), option_value(origin.startPosition())


def _scoped(node: JavaObject, scope: _Scope) -> Iterator[tuple[JavaObject, _Scope]]:
    """Yield the nodes of a parsed plan with the WITH clauses around them; a CTE may read those before it."""
    yield node, scope
    inner: list[tuple[JavaObject, _Scope]] = []
    if node_name(node) == "ExplainCommand":
        inner = [(node.logicalPlan(), scope)]
    elif node_name(node) == "UnresolvedWith":
        relations = list(elements_of(node.cteRelations()))
        inner = [(each._2(), (*scope, (node, number))) for number, each in enumerate(relations)]
        inner.append((node.child(), (*scope, (node, len(relations)))))
    else:
        inner = [(each, scope) for below in (node.children(), node.innerChildren()) for each in elements_of(below)]
    for each, around in inner:
        yield from _scoped(each, around)


def nodes_of(plan: JavaObject) -> Iterator[JavaObject]:
    """Yield the nodes of a plan, with those of its CTEs and subqueries."""
    yield plan
    for inner in (plan.children(), plan.innerChildren()):
        for node in elements_of(inner):
            yield from nodes_of(node)


def elements_of(found: JavaObject) -> Iterator[JavaObject]:
    """Yield the elements of a collection of Scala."""
    elements = found.iterator()
    while elements.hasNext():
        yield elements.next()
