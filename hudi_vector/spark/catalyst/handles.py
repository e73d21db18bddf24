"""JVM classes and constants, looked up once: each dot of a Java name is a call into the JVM."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.gateway import JavaObject, enable_callbacks

__all__ = ["Handles", "active_handles", "handles_of"]

_V2 = "org.apache.spark.sql.connector"
_MADE_KEPT = 1024


class Handles:
    """What searches need of one JVM."""

    def __init__(self, gateway: JavaObject) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self._classes: dict[str, JavaObject] = {}
        self._made: dict[tuple[str, str], JavaObject] = {}

    def named(self, dotted: str) -> JavaObject:
        """The class of a dotted name."""
        found = self._classes.get(dotted)
        if found is None:
            found = self.jvm
            for part in dotted.split("."):
                found = getattr(found, part)
            self._classes[dotted] = found
        return found

    def array(self, dotted: str, items: list[Any]) -> JavaObject:
        """A Java array of a class; py4j's own item assignment refuses proxies."""
        made = self.gateway.new_array(self.named(dotted), len(items))
        for index, item in enumerate(items):
            self.named("java.lang.reflect.Array").set(made, index, item)
        return made

    def made(self, kind: str, described: str, make: Callable[[], JavaObject]) -> JavaObject:
        """A Java object that never changes, made once for each description.

        Args:
            kind: What it is.
            described: All that it depends on.
            make: Makes it.

        Returns:
            The object made first.
        """
        key = (kind, described)
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _MADE_KEPT:
                self._made.clear()
            found = self._made[key] = make()
        return found

    def data_type(self, session: JavaObject, described: str) -> JavaObject:
        """A Catalyst data type from its JSON."""
        return self.made("data type", described, lambda: session.parseDataType(described))

    def attributes(self, session: JavaObject, described: str) -> JavaObject:
        """Catalyst's attributes for the JSON of a schema."""

        def make() -> JavaObject:
            return self.data_type_utils.toAttributes(self.data_type(session, described))

        return self.made("attributes", described, make)

    @cached_property
    def batch_read(self) -> JavaObject:
        """The capabilities of a table that can be read."""
        able = self.jvm.java.util.HashSet()
        able.add(self.named(f"{_V2}.catalog.TableCapability").BATCH_READ)
        return able

    @cached_property
    def no_transforms(self) -> JavaObject:
        """No partitioning."""
        return self.array(f"{_V2}.expressions.Transform", [])

    @cached_property
    def no_metrics(self) -> JavaObject:
        """No metrics of a scan."""
        return self.array(f"{_V2}.metric.CustomMetric", [])

    @cached_property
    def no_task_metrics(self) -> JavaObject:
        """No values of metrics."""
        return self.array(f"{_V2}.metric.CustomTaskMetric", [])

    @cached_property
    def no_properties(self) -> JavaObject:
        """No table properties."""
        return self.jvm.java.util.HashMap()

    @cached_property
    def v2_util(self) -> JavaObject:
        """Spark's conversions between schemas and V2 columns."""
        return self.named(f"{_V2}.catalog.CatalogV2Util")

    @cached_property
    def v2_relation(self) -> JavaObject:
        """The class of V2 relations."""
        return self.named("org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation")

    @cached_property
    def none(self) -> JavaObject:
        """Scala's None."""
        return getattr(getattr(self.jvm.scala, "None$"), "MODULE$")

    @cached_property
    def no_options(self) -> JavaObject:
        """No read options."""
        return self.named("org.apache.spark.sql.util.CaseInsensitiveStringMap").empty()

    @cached_property
    def internal_row(self) -> JavaObject:
        """The class object of Spark's rows."""
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self.jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow", True, loader)

    @cached_property
    def no_rows(self) -> JavaObject:
        """An array of no rows."""
        return self.named("java.lang.reflect.Array").newInstance(self.internal_row, 0)

    @cached_property
    def arrow_converters(self) -> JavaObject:
        """Spark's reader of Arrow streams."""
        return getattr(getattr(self.jvm, "org.apache.spark.sql.execution.arrow.ArrowConverters$"), "MODULE$")

    @cached_property
    def python_sql_utils(self) -> JavaObject:
        """Spark's own helpers for PySpark."""
        return self.named("org.apache.spark.sql.api.python.PythonSQLUtils")

    @cached_property
    def data_type_utils(self) -> JavaObject:
        """Spark's conversions of schemas."""
        return getattr(getattr(self.jvm, "org.apache.spark.sql.catalyst.types.DataTypeUtils$"), "MODULE$")

    @cached_property
    def local_table_scan(self) -> JavaObject:
        """The class of Spark's scans of rows that are there already."""
        return self.named("org.apache.spark.sql.execution.LocalTableScanExec")

    @cached_property
    def channels(self) -> JavaObject:
        """Java's channels."""
        return self.named("java.nio.channels.Channels")

    @cached_property
    def byte_stream(self) -> JavaObject:
        """Java's stream over bytes."""
        return self.named("java.io.ByteArrayInputStream")

    @cached_property
    def spark_utils(self) -> JavaObject:
        """Spark's own utilities."""
        return self.named("org.apache.spark.util.Utils")

    @cached_property
    def exception(self) -> JavaObject:
        """A class whose instances know the JVM's stack."""
        return self.named("java.lang.Exception")

    @cached_property
    def type_converters(self) -> JavaObject:
        """From Catalyst's values to Scala's."""
        return self.named("org.apache.spark.sql.catalyst.CatalystTypeConverters")


@lru_cache(maxsize=4)
def _handles(gateway: JavaObject) -> Handles:
    enable_callbacks(gateway)  # Spark asks the plans made with them for their rows, in sessions not registered too
    return Handles(gateway)


def handles_of(spark: SparkSession) -> Handles:
    """The handles of a session's JVM.

    Args:
        spark: Any session of it.

    Returns:
        The same object for every session of one JVM.
    """
    return _handles(spark.sparkContext._gateway)


def active_handles() -> Handles:
    """The handles of the JVM of this process's Spark application."""
    context = SparkContext._active_spark_context
    assert context is not None
    return _handles(context._gateway)
