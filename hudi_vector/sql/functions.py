"""The SQL functions of this package: one table of names and builders, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.errors import SessionError
from hudi_vector.spark.gateway import JavaObject, enable_callbacks, function_builder, option_value
from hudi_vector.spark.table_functions import batch_function, search_function

__all__ = ["FUNCTIONS", "NATIVE_SUFFIX", "install"]

NATIVE_SUFFIX = "_native"
"""Hudi's own function of a name stays reachable under the name with this behind it."""

FUNCTIONS: dict[str, Callable[[SparkSession, list[JavaObject]], JavaObject]] = {
    "hudi_vector_search": search_function,
    "hudi_vector_search_batch": batch_function,
}


def install(spark: SparkSession) -> None:
    """Register every function in a session and in the sessions made from it.

    Args:
        spark: A session whose JVM has Hudi.

    Raises:
        SessionError: Hudi's own vector search is not there, so that this Hudi is too old.
    """
    gateway: Any = spark.sparkContext._gateway
    enable_callbacks(gateway)
    for name, build in FUNCTIONS.items():
        native = name + NATIVE_SUFFIX
        if _lookup(spark, native) is None:
            _register(spark, native, _native_builder(spark, name))
        _register(spark, name, function_builder(gateway, name, build))


def _native_builder(spark: SparkSession, name: str) -> JavaObject:
    builder = _lookup(spark, name)
    if builder is None:
        raise SessionError(
            f"Hudi's own function {name} is not registered in this session; use a Hudi bundle of version 1.2 or newer "
            "with spark.sql.extensions = org.apache.spark.sql.hudi.HoodieSparkSessionExtension "
            "(hudi_vector.configure(builder) sets both)"
        )
    return builder


def _lookup(spark: SparkSession, name: str) -> JavaObject | None:
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    found: JavaObject | None = option_value(registry.lookupFunctionBuilder(_identifier(spark, name)))
    return found


def _register(spark: SparkSession, name: str, builder: JavaObject) -> None:
    jvm = spark._jvm
    assert jvm is not None
    identifier = _identifier(spark, name)
    info = jvm.org.apache.spark.sql.catalyst.expressions.ExpressionInfo("org.apache.hudi", name)
    session = spark._jsparkSession
    session.sessionState().tableFunctionRegistry().registerFunction(identifier, info, builder)
    session.extensions().injectTableFunction(jvm.scala.Tuple3(identifier, info, builder))


def _identifier(spark: SparkSession, name: str) -> JavaObject:
    assert spark._jvm is not None
    return spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
