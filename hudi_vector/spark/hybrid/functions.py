"""The builder of ``hudi_hybrid_search(…)`` in SQL, which checks the arguments and returns a plan."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.arguments import (
    Argument,
    Signature,
    bind,
    constant,
    named_and_placed,
    nested_constant,
)
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.printed import Expressions
from hudi_vector.spark.hybrid.api import as_probes
from hudi_vector.spark.hybrid.batch import HybridQueries, hybrid_batch_plan
from hudi_vector.spark.hybrid.search import FUNCTION, checked_hybrid, hybrid_relation, probes_of
from hudi_vector.spark.search.table_functions import as_of_argument, table_argument

__all__ = ["hybrid_function"]

_NAMED = ("fusion", "normalize", "filter", "as_of", "execution", "timeout", "per_group", "group_nulls")
_SIGNATURE = Signature(
    FUNCTION,
    ("base_table", "search_column", "probe_column", "weight", "distance_type", "top_k"),
    ("base_table", "search_column", "probe_column", "top_k"),
    named_only=("query_table", *_NAMED, "group_by"),
    aliases=(
        ("table", "base_table"),
        ("search_columns", "search_column"),
        ("queries", "probe_column"),
        ("weights", "weight"),
        ("metrics", "distance_type"),
        ("k", "top_k"),
    ),
)


def hybrid_function(spark: SparkSession, expressions: Expressions) -> JavaObject:
    """Build ``hudi_hybrid_search(…)``: the best rows by several columns, for one query or each row of a query table."""
    given = bind(_SIGNATURE, named_and_placed(expressions))
    nested = ("search_column", "weight", "distance_type", "group_by")
    values = {name: nested_constant(given[name], name) for name in nested if name in given}
    values |= {name: constant(given[name], name) for name in ("top_k", *_NAMED) if name in given}
    search = checked_hybrid(
        spark,
        table_argument(spark, given["base_table"], "base_table"),
        values["search_column"],
        k=values["top_k"],
        weights=values.get("weight"),
        metrics=values.get("distance_type"),
        fusion=values.get("fusion"),
        normalize=values.get("normalize"),
        filter=values.get("filter"),
        as_of=as_of_argument(values.get("as_of")),
        execution=values.get("execution"),
        timeout=values.get("timeout"),
        group_by=values.get("group_by"),
        per_group=values.get("per_group"),
        group_nulls=values.get("group_nulls"),
    )
    if "query_table" in given:
        queries = table_argument(spark, given["query_table"], "query_table")
        names = nested_constant(given["probe_column"], "probe_column")
        return hybrid_batch_plan(search, HybridQueries.of(queries, names, search))
    return hybrid_relation(search, probes_of(search, as_probes(_queries(given["probe_column"]), len(search.columns))))


def _queries(argument: Argument) -> Any:
    """Return the queries, given as an array, or as a row ``(ARRAY(…), MAP(…))``, which Spark parses as a struct."""
    value = nested_constant(argument, "probe_column")
    if _is_row(value):
        value = [entry for _, entry in value]
    return [_query(entry) for entry in value] if isinstance(value, list) else value


def _query(value: Any) -> Any:
    """Return one query; a struct with fields ``indices`` and ``values`` becomes a dict, another struct a tuple."""
    if not _is_row(value):
        return value
    named = {name.lower(): entry for name, entry in value}
    return named if {"indices", "values"} <= named.keys() else tuple(entry for _, entry in value)


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, tuple) for entry in value)
