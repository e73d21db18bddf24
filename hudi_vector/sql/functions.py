"""The SQL functions of this package: one table of names and builders, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.errors import SessionError
from hudi_vector.spark.blobs.functions import (
    blob_length,
    blob_location,
    blob_ref,
    read_blob,
    to_blob,
    try_read_blob,
)
from hudi_vector.spark.blobs.guard import guard
from hudi_vector.spark.catalyst.gateway import JavaObject, function_builder, option_value
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.hybrid.functions import hybrid_function
from hudi_vector.spark.join.function import join_function
from hudi_vector.spark.search.table_functions import batch_function, search_function
from hudi_vector.streaming.function import stream_function

__all__ = ["FUNCTIONS", "NATIVE_SUFFIX", "TABLE_FUNCTIONS", "install"]

_Build = Callable[[SparkSession, list[JavaObject]], JavaObject]

NATIVE_SUFFIX = "_native"
"""Hudi's own function of a name stays reachable under the name with this behind it."""

TABLE_FUNCTIONS: dict[str, _Build] = {
    "hudi_knn_join": join_function,
    "hudi_hybrid_search": hybrid_function,
    "hudi_vector_search": search_function,
    "hudi_vector_search_batch": batch_function,
    "hudi_vector_search_stream": stream_function,
}
FUNCTIONS: dict[str, _Build] = {
    "blob_length": blob_length,
    "blob_location": blob_location,
    "blob_ref": blob_ref,
    "read_blob": read_blob,
    "to_blob": to_blob,
    "try_read_blob": try_read_blob,
}
# Those Hudi has too.
_HUDIS_OWN = ("hudi_vector_search", "hudi_vector_search_batch", "read_blob")


def install(spark: SparkSession) -> None:
    """Register every function in a session and in the sessions made from it.

    Args:
        spark: A session whose JVM has Hudi.

    Raises:
        SessionError: Hudi's own functions are not there, so that this Hudi is too old.
    """
    gateway, handles = spark.sparkContext._gateway, handles_of(spark)
    for functions, registry in ((TABLE_FUNCTIONS, _Tables(spark)), (FUNCTIONS, _Scalars(spark))):
        for name, build in functions.items():
            native = name + NATIVE_SUFFIX
            if name in _HUDIS_OWN and registry.builder(native) is None:
                registry.register(native, _native_builder(registry, name))
            made = partial(function_builder, gateway, name, build)
            registry.register(name, handles.made("function builder", name, made))
    guard(spark)


class _Registry:
    """The functions of one kind in a session, and in the sessions that are made from it later."""

    _BUFFER: str

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._session = spark._jsparkSession

    def builder(self, name: str) -> JavaObject | None:
        """The builder of a function, or None."""
        found: JavaObject | None = option_value(self._functions().lookupFunctionBuilder(self._identifier(name)))
        return found

    def register(self, name: str, builder: JavaObject) -> None:
        """Put a builder under a name."""
        present = self.builder(name)
        if present is not None and present.equals(builder):
            return
        info = self._jvm.org.apache.spark.sql.catalyst.expressions.ExpressionInfo("org.apache.hudi", name)
        identifier = self._identifier(name)
        functions, injected = self._functions(), self._injected()
        # Spark warns of each function that takes another's place, here and in every session that is made later.
        functions.dropFunction(identifier)
        functions.registerFunction(identifier, info, builder)
        for place in reversed(range(injected.size())):
            if injected.apply(place)._1().equals(identifier):
                injected.remove(place)
        self._inject(self._jvm.scala.Tuple3(identifier, info, builder))

    def _identifier(self, name: str) -> JavaObject:
        return self._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)

    def _functions(self) -> JavaObject:
        raise NotImplementedError

    def _injected(self) -> JavaObject:
        """What sessions made later begin with: a private buffer of Spark's, which has no other way out of it."""
        extensions = self._session.extensions()
        field = extensions.getClass().getDeclaredField(self._BUFFER)
        field.setAccessible(True)
        return field.get(extensions)

    def _inject(self, described: JavaObject) -> None:
        raise NotImplementedError


class _Tables(_Registry):
    _BUFFER = "injectedTableFunctions"

    def _functions(self) -> JavaObject:
        return self._session.sessionState().tableFunctionRegistry()

    def _inject(self, described: JavaObject) -> None:
        self._session.extensions().injectTableFunction(described)


class _Scalars(_Registry):
    _BUFFER = "injectedFunctions"

    def _functions(self) -> JavaObject:
        return self._session.sessionState().functionRegistry()

    def _inject(self, described: JavaObject) -> None:
        self._session.extensions().injectFunction(described)


def _native_builder(registry: _Registry, name: str) -> JavaObject:
    builder = registry.builder(name)
    if builder is None:
        raise SessionError(
            f"Hudi's own function {name} is not registered in this session; use a Hudi bundle of version 1.2 or newer "
            "with spark.sql.extensions = org.apache.spark.sql.hudi.HoodieSparkSessionExtension "
            "(hudi_vector.configure(builder) sets both)"
        )
    return builder
