"""A lazy relation whose rows Python makes: a DataSource V2 table with a local scan, built of py4j proxies.

Spark reads the schema of the table at analysis. At planning it passes the needed columns to the scan and calls
``rows()`` once. Nothing is listed or read before. Hidden columns are Spark's metadata columns: they are absent from
``SELECT *``, but can be named.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.catalyst.gateway import JavaObject, execution_error, first_sentence
from hudi_vector.spark.catalyst.handles import Handles, handles_of
from hudi_vector.spark.catalyst.local_rows import internal_rows
from hudi_vector.spark.catalyst.settings import one_step, statement_of

__all__ = ["Produce", "lazy_relation"]

_LOG = logging.getLogger(__name__)

Produce = Callable[[Sequence[str]], pa.Table]
"""A function from the names of the requested columns to a table with exactly these columns."""

_NUMBERS = itertools.count(1)
_METADATA_MARK = "__metadata_col"
_V2 = "org.apache.spark.sql.connector"
_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


@dataclass(frozen=True)
class _Shape:
    """The relation's name, its columns and its hidden columns."""

    name: str
    visible: StructType
    hidden: tuple[StructField, ...]

    def fields(self, names: Sequence[str]) -> StructType:
        """Return the columns of these names with whole structs, even if Spark requests only some of their fields."""
        by_name = {field.name: field for field in (*self.hidden, *self.visible.fields)}
        return StructType([by_name[name] for name in names])


def lazy_relation(
    spark: SparkSession,
    name: str,
    visible: StructType,
    hidden: Sequence[StructField],
    produce: Produce,
    describe: Callable[[], str],
) -> JavaObject:
    """Return a ``DataSourceV2Relation`` whose rows are made when the statement that holds it is planned.

    Args:
        spark: The session.
        name: The function's name.
        visible: The columns of ``SELECT *``.
        hidden: Further columns that can be named.
        produce: A function that makes the rows.
        describe: A function that returns the text for EXPLAIN.
    """
    handles = handles_of(spark)
    table = _Table(spark, _Shape(name, _as_visible(visible), tuple(hidden)), produce, describe)
    return handles.static(_RELATION, "create")(table, handles.none, handles.none, handles.no_options)


def _as_visible(schema: StructType) -> StructType:
    """Return the columns without Spark's mark of metadata columns.

    Hudi marks its ``_hoodie_*`` columns with it, and Spark offers no hidden columns if a visible one has the mark.
    """
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {key: value for key, value in field.metadata.items() if key != _METADATA_MARK},
            )
            for field in schema.fields
        ]
    )


class _Proxy:
    """The base of Python objects that the JVM sees: Java's methods of every object."""

    def __init__(self) -> None:
        self._number = next(_NUMBERS)

    def toString(self) -> str:  # noqa: N802 - Java's name
        return f"{type(self).__name__.strip('_')}#{self._number}"

    def hashCode(self) -> int:  # noqa: N802 - Java's name
        return self._number % (1 << 31)

    def equals(self, other: Any) -> bool:
        # The JVM passes a handle and not this object, so texts are compared. Spark finds cached plans by this.
        return other is not None and str(other.toString()) == self.toString()


class _Table(_Proxy):
    def __init__(self, spark: SparkSession, shape: _Shape, produce: Produce, describe: Callable[[], str]) -> None:
        super().__init__()
        self._spark = spark
        self._shape = shape
        self._produce = produce
        self._describe = describe
        self._schema = _java_schema(spark, shape.visible)

    def name(self) -> str:
        return self._shape.name

    def schema(self) -> JavaObject:
        return self._schema

    def columns(self) -> JavaObject:
        handles = handles_of(self._spark)
        described = _described(self._shape.visible)
        return handles.made("columns", described, lambda: handles.v2_util.structTypeToV2Columns(self._schema))

    def partitioning(self) -> JavaObject:
        return handles_of(self._spark).no_transforms

    def properties(self) -> JavaObject:
        return handles_of(self._spark).no_properties

    def capabilities(self) -> JavaObject:
        return handles_of(self._spark).batch_read

    def newScanBuilder(self, options: JavaObject) -> _ScanBuilder:  # noqa: N802, ARG002 - Java's signature
        return _ScanBuilder(self._spark, self._shape, self._produce, self._describe)

    def metadataColumns(self) -> JavaObject:  # noqa: N802 - Java's name
        handles = handles_of(self._spark)

        def make() -> JavaObject:
            session = self._spark._jsparkSession
            hidden = [
                _HiddenColumn(field.name, handles.data_type(session, field.dataType.json()))
                for field in self._shape.hidden
            ]
            return handles.array(f"{_V2}.catalog.MetadataColumn", hidden)

        return handles.made("hidden columns", _described(StructType(list(self._shape.hidden))), make)

    def canRenameConflictingMetadataColumns(self) -> bool:  # noqa: N802 - Java's name
        return True

    class Java:
        """The interfaces py4j presents to the JVM."""

        implements = [  # noqa: RUF012 - py4j reads a list
            f"{_V2}.catalog.Table",
            f"{_V2}.catalog.SupportsRead",
            f"{_V2}.catalog.SupportsMetadataColumns",
        ]


class _HiddenColumn(_Proxy):
    """A metadata column, cached for every session of the JVM and therefore without a session."""

    def __init__(self, name: str, data_type: JavaObject) -> None:
        super().__init__()
        self._name = name
        self._data_type = data_type

    def name(self) -> str:
        return self._name

    def dataType(self) -> JavaObject:  # noqa: N802 - Java's name
        return self._data_type

    def isNullable(self) -> bool:  # noqa: N802 - Java's name
        return True

    def comment(self) -> None:
        return None

    def transform(self) -> None:
        return None

    def metadataInJSON(self) -> None:  # noqa: N802 - Java's name
        return None

    class Java:
        """The interface py4j presents to the JVM."""

        implements = [f"{_V2}.catalog.MetadataColumn"]  # noqa: RUF012 - py4j reads a list


class _ScanBuilder(_Proxy):
    def __init__(self, spark: SparkSession, shape: _Shape, produce: Produce, describe: Callable[[], str]) -> None:
        super().__init__()
        self._spark = spark
        self._shape = shape
        self._produce = produce
        self._describe = describe
        self._names = list(shape.visible.fieldNames())

    def pruneColumns(self, required: JavaObject) -> None:  # noqa: N802 - Java's name
        # JSON takes one call into the JVM, an array one for each name.
        self._names = [field["name"] for field in json.loads(str(required.json()))["fields"]]

    def build(self) -> _Scan:
        return _Scan(self._spark, self._shape.fields(self._names), self._produce, self._describe)

    class Java:
        """The interfaces py4j presents to the JVM."""

        implements = [  # noqa: RUF012 - py4j reads a list
            f"{_V2}.read.ScanBuilder",
            f"{_V2}.read.SupportsPushDownRequiredColumns",
        ]


class _Scan(_Proxy):
    def __init__(self, spark: SparkSession, schema: StructType, produce: Produce, describe: Callable[[], str]) -> None:
        super().__init__()
        self._spark = spark
        self._schema = schema
        self._java = _java_schema(spark, schema)
        self._produce = produce
        self._describe = describe
        self._made: tuple[str, JavaObject] | None = None

    def readSchema(self) -> JavaObject:  # noqa: N802 - Java's name
        return self._java

    def description(self) -> str:
        return self._describe()

    def supportedCustomMetrics(self) -> JavaObject:  # noqa: N802 - Java's name
        return handles_of(self._spark).no_metrics

    def reportDriverMetrics(self) -> JavaObject:  # noqa: N802 - Java's name
        return handles_of(self._spark).no_task_metrics

    def rows(self) -> JavaObject:
        """Return the rows, made once for each execution: adaptive execution plans the rest of a statement again."""
        with one_step():
            execution = statement_of(self._spark)
            if self._made is not None and execution is not None and self._made[0] == execution:
                return self._made[1]
            made = self._rows(execution)
        if execution is not None:
            self._made = (execution, made)
        return made

    def _rows(self, execution: str | None) -> JavaObject:
        """Return the rows; raise every error as one line of Java."""
        gateway = self._spark.sparkContext._gateway
        assert gateway is not None
        try:
            if _is_explained(handles_of(self._spark), execution):
                return internal_rows(self._spark, None, self._schema)
            return internal_rows(self._spark, self._produce(self._schema.names), self._schema)
        except HudiVectorError as problem:
            raise execution_error(gateway, str(problem)) from None
        except (PySparkException, Py4JJavaError) as problem:
            _LOG.error("the search failed inside Spark", exc_info=problem)
            raise execution_error(gateway, f"the search failed: {first_sentence(problem)}") from None
        except Exception as problem:  # noqa: BLE001 - every error must reach the JVM as one line
            _LOG.error("the search failed", exc_info=problem)
            text = f"the search failed unexpectedly: {type(problem).__name__}: {first_sentence(problem)}"
            raise execution_error(gateway, text) from None

    class Java:
        """The interface py4j presents to the JVM."""

        implements = [f"{_V2}.read.LocalScan"]  # noqa: RUF012 - py4j reads a list


def _is_explained(handles: Handles, execution: str | None) -> bool:
    """Return True if the plan is made only to be shown, by EXPLAIN or ``DataFrame.explain``.

    Spark also explains the plan of every execution for its listeners, but only after the execution has its id.
    """
    stack = handles.static("org.apache.spark.util.Utils", "exceptionString")(handles.exception())
    return "ExplainCommand" in stack or (execution is None and "explainString" in stack)


def _described(schema: StructType) -> str:
    return json.dumps(schema.jsonValue())


def _java_schema(spark: SparkSession, schema: StructType) -> JavaObject:
    return handles_of(spark).data_type(spark._jsparkSession, _described(schema))
