"""Whether blobs come from object stores: such references may name no file of the machine that reads them."""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.gateway import JavaObject, option_value, simple_name
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.resolve import catalog_location, is_path
from hudi_vector.storage import scheme_of

__all__ = ["is_of_object_stores", "statement_is_of_object_stores"]


def is_of_object_stores(plan: JavaObject) -> bool:
    """Return whether an analysed plan reads files, and all of them from object stores.

    Args:
        plan: The plan.
    """
    return _are_remote(_roots(plan))


def statement_is_of_object_stores(spark: SparkSession) -> bool:
    """Return whether the SQL statement under analysis names tables, and all of them lie on object stores.

    A function that Spark builds sees its arguments and not where they come from; the text of the statement says that.
    False where it says nothing: for an expression of a DataFrame, and for what a CTE alone names.

    Args:
        spark: The session that analyses.
    """
    try:
        text = option_value(
            handles_of(spark).named("org.apache.spark.sql.catalyst.trees.CurrentOrigin").get().sqlText()
        )
        if text is None:
            return False
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        names = [_name(leaf) for leaf in _leaves(plan) if simple_name(leaf) == "UnresolvedRelation"]
        return _are_remote(root for name in names for root in _places(spark, name))
    except (Py4JError, PySparkException):  # an expression alone, or a name that the statement itself makes
        return False


def _places(spark: SparkSession, parts: list[str]) -> Iterator[str]:
    """Where a table lies, or what a view reads."""
    if is_path(parts[-1]):
        yield parts[-1]
        return
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    located = catalog_location(spark, name)
    if located is not None:
        yield located[0]
    else:
        yield from _roots(spark.table(name)._jdf.queryExecution().analyzed())


def _roots(plan: JavaObject) -> Iterator[str]:
    for leaf in _leaves(plan):
        if simple_name(leaf) == "LogicalRelation" and simple_name(leaf.relation()) == "HadoopFsRelation":
            roots = leaf.relation().location().rootPaths()
            yield from (str(roots.apply(number).toString()) for number in range(roots.length()))


def _are_remote(roots: Iterator[str]) -> bool:
    schemes = set(map(scheme_of, roots))
    return bool(schemes) and "file" not in schemes


def _leaves(plan: JavaObject) -> Iterator[JavaObject]:
    leaves = plan.collectLeaves().iterator()
    while leaves.hasNext():
        yield leaves.next()


def _name(relation: JavaObject) -> list[str]:
    parts = relation.multipartIdentifier()
    return [str(parts.apply(number)) for number in range(parts.length())]
