"""Detection of blobs from object stores, whose references may not name files of the machine that reads them."""

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
    """Return True if an analysed plan reads files, all of them from object stores."""
    return _are_remote(_roots(plan))


def statement_is_of_object_stores(spark: SparkSession) -> bool:
    """Return True if the SQL statement under analysis names tables, all of which are on object stores.

    The builder of a SQL function sees its arguments but not their tables, which only the text of the statement names.
    The result is False without such a text, as for an expression of a DataFrame, and for a name that a CTE defines.
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
    except (Py4JError, PySparkException):  # the text is a single expression, or the statement itself defines the name
        return False


def _places(spark: SparkSession, parts: list[str]) -> Iterator[str]:
    """Yield the location of a table, or the locations that a view reads."""
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
