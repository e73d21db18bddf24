"""JVM classes and constants, each looked up once and in one request.

In a chain of dots each dot is a request, for which Java looks into every jar for a class of the package's name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession, functions

from hudi_vector.spark.catalyst.gateway import JavaObject, enable_callbacks

__all__ = ["Handles", "SessionState", "active_handles", "frame_of", "handles_of", "selected", "state_of"]

_MADE_KEPT = 1024
_BETWEEN = "\x1e"


class Handles:
    """The classes and constants of one JVM that searches use."""

    def __init__(self, gateway: JavaObject) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self._classes: dict[str, JavaObject] = {}
        self._made: dict[tuple[str, str], JavaObject] = {}

    def named(self, dotted: str) -> JavaObject:
        """Return the class of a dotted name."""
        found = self._classes.get(dotted)
        if found is None:
            found = self._classes[dotted] = getattr(self.jvm, dotted)
        return found

    def module(self, dotted: str) -> JavaObject:
        """Return the only instance of a Scala object, whose dotted name is given without ``$``."""
        return self.static(f"{dotted}$", "MODULE$")

    def static(self, dotted: str, method: str) -> JavaObject:
        """Return a static method of the class of a dotted name, which is looked up once."""
        key = f"{dotted}.{method}"
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = getattr(self.named(dotted), method)
        return found

    def sequence(self, items: list[Any]) -> JavaObject:
        """Return a Scala sequence of the items."""
        make = self.static("org.apache.spark.api.python.PythonUtils", "toSeq")
        return make(items) if items else self.made("sequence", "", lambda: make(items))

    def scala_map(self, items: dict[str, Any] | JavaObject) -> JavaObject:
        """Return a Scala map of the items, or of those of a Java map."""
        return self.named("org.apache.spark.api.python.PythonUtils").toScalaMap(items)

    def made(self, kind: str, described: str, make: Callable[[], JavaObject]) -> JavaObject:
        """Return an immutable Java object that `make` makes once for each description.

        `described` holds all that the object depends on; `kind` separates the descriptions of different kinds. At most
        1024 objects are kept; then all are dropped.
        """
        key = (kind, described)
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _MADE_KEPT:
                self._made.clear()
            found = self._made[key] = make()
        return found

    def data_type(self, session: JavaObject, described: str) -> JavaObject:
        """Return a Catalyst data type from its JSON."""
        return self.made("data type", described, lambda: session.parseDataType(described))

    def attributes(self, session: JavaObject, described: str) -> JavaObject:
        """Return Catalyst's attributes for the JSON of a schema."""

        def make() -> JavaObject:
            return self.data_type_utils.toAttributes(self.data_type(session, described))

        return self.made("attributes", described, make)

    def filled(self, template: JavaObject, arguments: dict[str, JavaObject]) -> JavaObject:
        """Return an expression with other expressions in place of unresolved columns, by their names."""
        # Catalyst takes a partial function as a rule, and a map of Scala is one.
        rule = self.named("java.util.HashMap")()
        for name, argument in arguments.items():
            rule.put(self.column(name), argument)
        return template.transformUp(self.scala_map(rule))

    def column(self, name: str) -> JavaObject:
        """Return the unresolved column of a name."""

        def make() -> JavaObject:
            return functions.col(name)._jc.expr()

        return self.made("column", name, make)

    def without_origin(self, make: Callable[[], JavaObject]) -> JavaObject:
        """Return what `make` makes, which will name no place of the statement under analysis."""
        origins = self.named("org.apache.spark.sql.catalyst.trees.CurrentOrigin")
        own = origins.get()
        origins.reset()
        try:
            return make()
        finally:
            origins.set(own)

    @cached_property
    def none(self) -> JavaObject:
        """Return Scala's None."""
        return self.module("scala.None")

    @cached_property
    def arrow_converters(self) -> JavaObject:
        """Return Spark's reader of Arrow streams."""
        return self.module("org.apache.spark.sql.execution.arrow.ArrowConverters")

    @cached_property
    def python_sql_utils(self) -> JavaObject:
        """Return Spark's helpers for PySpark."""
        return self.named("org.apache.spark.sql.api.python.PythonSQLUtils")

    @cached_property
    def data_type_utils(self) -> JavaObject:
        """Return Spark's conversions of schemas."""
        return self.module("org.apache.spark.sql.catalyst.types.DataTypeUtils")

    @cached_property
    def local_table_scan(self) -> JavaObject:
        """Return the class of Spark's scans of local rows."""
        return self.named("org.apache.spark.sql.execution.LocalTableScanExec")

    @cached_property
    def iterators(self) -> JavaObject:
        """Return Scala's makers of iterators."""
        return self.module("scala.collection.Iterator")

    @cached_property
    def type_converters(self) -> JavaObject:
        """Return Spark's conversions from Catalyst's values to Scala's."""
        return self.named("org.apache.spark.sql.catalyst.CatalystTypeConverters")


@lru_cache(maxsize=4)
def _handles(gateway: JavaObject) -> Handles:
    enable_callbacks(gateway)  # Spark calls plans made with these handles, in sessions that are not registered too
    return Handles(gateway)


def handles_of(spark: SparkSession) -> Handles:
    """Return the handles of a session's JVM, the same object for every session of it."""
    return _handles(spark.sparkContext._gateway)


def active_handles() -> Handles:
    """Return the handles of the JVM of this process's Spark application."""
    context = SparkContext._active_spark_context
    assert context is not None
    return _handles(context._gateway)


class SessionState:
    """The parts of one session in the JVM, which are the same as long as the session lives."""

    def __init__(self, java: JavaObject) -> None:
        self._java = java

    @cached_property
    def conf(self) -> JavaObject:
        """Return the session's own settings."""
        return self._java.conf()

    @cached_property
    def parser(self) -> JavaObject:
        """Return the session's parser of SQL."""
        return self._java.sqlParser()

    @cached_property
    def catalog(self) -> JavaObject:
        """Return the session's catalog, with its temporary views."""
        return self._java.catalog()


_STATES: WeakKeyDictionary[SparkSession, SessionState] = WeakKeyDictionary()


def state_of(spark: SparkSession) -> SessionState:
    """Return the parts of a session, the same object for each call."""
    known = _STATES.get(spark)
    if known is None:
        known = _STATES[spark] = SessionState(spark._jsparkSession.sessionState())
    return known


def selected(frame: DataFrame, names: list[str]) -> DataFrame:
    """Return columns like ``DataFrame.select``, by two calls into the JVM instead of four for each name."""
    if not names or any(_BETWEEN in name for name in names):
        return frame.select(names)
    split = handles_of(frame.sparkSession).static("org.apache.commons.lang3.StringUtils", "split")
    return DataFrame(frame._jdf.select(names[0], split(_BETWEEN.join(names[1:]), _BETWEEN)), frame.sparkSession)


def frame_of(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """Return a logical plan as a DataFrame."""
    made = handles_of(spark).static("org.apache.spark.sql.Dataset", "ofRows")
    return DataFrame(made(spark._jsparkSession, plan), spark)
