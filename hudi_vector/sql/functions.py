"""The SQL functions of this package: a table of names and builders, and their registration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
from hudi_vector.spark.blobs.late import compiled_rule
from hudi_vector.spark.catalyst.gateway import JavaObject, function_builder, option_value
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.printed import Expressions
from hudi_vector.spark.catalyst.relation import compiled
from hudi_vector.spark.catalyst.settings import one_step
from hudi_vector.spark.hybrid.functions import hybrid_function
from hudi_vector.spark.join.function import join_function
from hudi_vector.spark.search.table_functions import batch_function, search_function
from hudi_vector.streaming.function import stream_function

__all__ = ["FUNCTIONS", "NATIVE_SUFFIX", "TABLE_FUNCTIONS", "install"]

_Build = Callable[[SparkSession, list[JavaObject]], JavaObject]
_BuildTable = Callable[[SparkSession, Expressions], JavaObject]

NATIVE_SUFFIX = "_native"
"""The suffix of the name under which Hudi's own function of the same name stays available."""

TABLE_FUNCTIONS: dict[str, _BuildTable] = {
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
_INFO = "org.apache.spark.sql.catalyst.expressions.ExpressionInfo"
# The functions that Hudi has under the same name.
_HUDIS_OWN = ("hudi_vector_search", "hudi_vector_search_batch", "read_blob")


def install(spark: SparkSession) -> None:
    """Register every function in a session and in the sessions made from it.

    The session's JVM must have Hudi. Raises SessionError if Hudi's own functions are missing, because this Hudi is too
    old.
    """
    gateway, handles = spark.sparkContext._gateway, handles_of(spark)
    compiled(handles)  # now, so that no statement waits for it
    compiled_rule(handles)
    tables = {name: partial(_of_table, build) for name, build in TABLE_FUNCTIONS.items()}
    scalars = {name: partial(_of_value, build) for name, build in FUNCTIONS.items()}
    for functions, registry in ((tables, _Tables(spark)), (scalars, _Scalars(spark))):
        for name, build in functions.items():
            native = name + NATIVE_SUFFIX
            if name in _HUDIS_OWN and registry.builder(native) is None:
                registry.register(native, _native_builder(registry, name))
            made = partial(function_builder, gateway, name, build)
            registry.register(name, handles.made("function builder", name, made))
    guard(spark)


def _of_table(build: _BuildTable, spark: SparkSession, expressions: JavaObject) -> JavaObject:
    """Build the plan of a table function, for which a session's settings are read once."""
    with one_step():
        return build(spark, Expressions(expressions))


def _of_value(build: _Build, spark: SparkSession, expressions: JavaObject) -> JavaObject:
    """Build the expression of a function of values."""
    with one_step():
        return build(spark, list(Expressions(expressions)))


class _Registry:
    """The registry of table functions or of scalar functions of a session and of sessions made from it later."""

    _BUFFER: str

    def __init__(self, spark: SparkSession) -> None:
        self._java = handles_of(spark)
        self._session = spark._jsparkSession

    def builder(self, name: str) -> JavaObject | None:
        """Return the builder of a function, or None if it is not registered."""
        found: JavaObject | None = option_value(self._functions().lookupFunctionBuilder(self._identifier(name)))
        return found

    def register(self, name: str, builder: JavaObject) -> None:
        """Register a builder under a name; do nothing if it is registered already."""
        present = self.builder(name)
        if present is not None and present.equals(builder):
            return
        info = self._java.named(_INFO)("org.apache.hudi", name)
        identifier = self._identifier(name)
        functions, injected = self._functions(), self._injected()
        # Spark logs a warning for every replaced function, here and in every later session; so remove it first.
        functions.dropFunction(identifier)
        functions.registerFunction(identifier, info, builder)
        for place in reversed(range(injected.size())):
            if injected.apply(place)._1().equals(identifier):
                injected.remove(place)
        self._inject(self._java.named("scala.Tuple3")(identifier, info, builder))

    def _identifier(self, name: str) -> JavaObject:
        return self._java.named("org.apache.spark.sql.catalyst.FunctionIdentifier")(name)

    def _functions(self) -> JavaObject:
        raise NotImplementedError

    def _injected(self) -> JavaObject:
        """Return the buffer of functions for later sessions, a private field of Spark's.

        Spark has no method to remove an entry from it.
        """
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
