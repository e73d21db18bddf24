"""Detection of blobs from object stores, whose references may not name files of the machine that reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.gateway import JavaObject, node_name, option_value, simple_name, texts_of
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.resolve import catalog_location, is_path
from hudi_vector.spark.statements import elements_of, nodes_of, parsed
from hudi_vector.storage import scheme_of
from hudi_vector.table.recent import Recent

__all__ = ["argument_is_of_object_stores", "column_is_of_object_stores"]

_STATEMENTS: Recent[str, list[list[str]]] = Recent(64)
"""The names in the statements analysed last: a statement may call several functions."""


def column_is_of_object_stores(plan: JavaObject, name: str) -> bool:
    """Return True if a column of an analysed plan comes from an object store.

    If the column is computed, so that its relation is not known, one relation of the plan on an object store is enough.
    """
    relations = [leaf for leaf in _leaves(plan) if _is_of_files(leaf)]
    named = [attribute for attribute in elements_of(plan.output()) if str(attribute.name()) == name]
    own = [leaf for leaf in relations if any(leaf.outputSet().contains(attribute) for attribute in named)]
    # A union passes the rows of all its inputs off as columns of the first one.
    is_union = any(simple_name(node) == "Union" for node in nodes_of(plan))
    return _are_remote(root for leaf in (relations if is_union else own or relations) for root in _roots(leaf))


def argument_is_of_object_stores(spark: SparkSession, argument: JavaObject) -> bool:
    """Return True if the argument of a function under analysis comes from an object store.

    The builder of a SQL function sees its arguments but not their relations. Columns of a table of a catalog know its
    name, unless the statement gives the table another one. Otherwise one table on an object store that the text of the
    SQL statement names is enough. An expression of a DataFrame has no such text; what it was read from by a path is not
    known then, and the result is False.
    """
    named = [texts_of(attribute.qualifier()) for attribute in elements_of(argument.references())]
    is_known = bool(named) and all(len(parts) > 1 for parts in named)
    names = named if is_known else _names_in_statement(spark) or [parts for parts in named if parts]
    return _are_remote(root for parts in names for root in _places(spark, parts))


def _names_in_statement(spark: SparkSession) -> list[list[str]]:
    """Return the names in the SQL statement under analysis, in parts: those of tables, and those that a CTE defines."""
    text = option_value(handles_of(spark).named("org.apache.spark.sql.catalyst.trees.CurrentOrigin").get().sqlText())
    if text is None:
        return []
    known = _STATEMENTS.get(text)
    if known is None:
        known = _names_in(spark, text)
        _STATEMENTS.put(text, known)
    return known


def _names_in(spark: SparkSession, text: str) -> list[list[str]]:
    plan = parsed(spark, text)
    if plan is None:
        return []
    return [texts_of(node.multipartIdentifier()) for node in nodes_of(plan) if node_name(node) == "UnresolvedRelation"]


def _places(spark: SparkSession, parts: list[str]) -> Iterator[str]:
    """Yield the location of a table, or the locations that a view reads; nothing for a name that only a CTE defines."""
    if is_path(parts[-1]):
        yield parts[-1]
        return
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    located = catalog_location(spark, name)
    if located is not None:
        yield located[0]
        return
    try:
        plan = spark.table(name)._jdf.queryExecution().analyzed()
    except (Py4JError, PySparkException):
        return
    yield from (root for leaf in _leaves(plan) if _is_of_files(leaf) for root in _roots(leaf))


def _is_of_files(leaf: JavaObject) -> bool:
    return simple_name(leaf) == "LogicalRelation" and simple_name(leaf.relation()) == "HadoopFsRelation"


def _roots(relation: JavaObject) -> Iterator[str]:
    """Yield the paths that a relation of files reads."""
    yield from (str(root.toString()) for root in elements_of(relation.relation().location().rootPaths()))


def _are_remote(roots: Iterable[str]) -> bool:
    return any(scheme_of(root) != "file" for root in roots)


def _leaves(plan: JavaObject) -> Iterator[JavaObject]:
    return elements_of(plan.collectLeaves())
