"""A lazy relation whose rows Python makes: a DataSource V2 table with a local scan.

Spark reads the schema of the table at analysis. At planning it passes the needed columns to the scan and asks once for
the rows, which are made by Python. Nothing is listed or read before. Hidden columns are Spark's metadata columns: they
are absent from ``SELECT *``, but can be named. ``LazyTable.java`` answers all other questions of Spark in the JVM.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.catalyst.gateway import JavaObject, answer_promptly, execution_error, first_sentence
from hudi_vector.spark.catalyst.handles import Handles, handles_of
from hudi_vector.spark.catalyst.local_rows import internal_rows
from hudi_vector.spark.catalyst.settings import handed_over, one_step

__all__ = ["Produce", "class_of", "compiled", "instance_of", "lazy_relation"]

_LOG = logging.getLogger(__name__)

Produce = Callable[[Sequence[str]], pa.Table]
"""A function from the names of the requested columns to a table with exactly these columns."""

_BETWEEN = "\x1f"
_METADATA_MARK = "__metadata_col"
_JAVA, _MAKER = "LazyTable.java", "org.apache.hudi.vector.LazyTable$Maker"


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
    handles, session = handles_of(spark), spark._jsparkSession
    shown = _as_visible(visible)
    schemas = [
        handles.data_type(session, json.dumps(schema.jsonValue())) for schema in (shown, StructType(list(hidden)))
    ]
    fields = {field.name: field for field in (*hidden, *shown.fields)}
    return compiled(handles).relation(session, name, *schemas, _Rows(spark, fields, produce), _Description(describe))


def compiled(handles: Handles) -> JavaObject:
    """Return the maker of lazy tables in a JVM, which compiles it once."""
    return instance_of(handles, "hudi_vector.spark.catalyst", _JAVA, _MAKER)


def instance_of(handles: Handles, package: str, file: str, name: str) -> JavaObject:
    """Return an object of a class that a package has as a file of Java, which a JVM compiles and makes once."""

    def make() -> JavaObject:
        return class_of(handles, files(package).joinpath(file).read_text("utf-8"), name).newInstance()

    return handles.made("compiled", name, make)


def class_of(handles: Handles, source: str, name: str) -> JavaObject:
    """Return a class of Java source, compiled in a JVM by the compiler that Spark carries."""
    compiler = handles.named("org.codehaus.janino.SimpleCompiler")()
    # Spark and Hudi may have been loaded by the loader of this thread.
    compiler.setParentClassLoader(handles.named("java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name)


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


@dataclass(frozen=True)
class _Rows:
    """The rows of a lazy table, by the columns that Spark requests, as the JVM calls for them."""

    spark: SparkSession
    fields: dict[str, StructField]
    produce: Produce

    def call(self, given: str) -> JavaObject:
        """Return the rows of columns; raise every error as one line of Java.

        The JVM gives the JSON of the columns' schema, and what it knows of the session and the statement, in one text.
        """
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        answer_promptly(gateway)
        columns, *known = given.split(_BETWEEN, 3)
        names = [field["name"] for field in json.loads(columns)["fields"]]
        schema = StructType([self.fields[name] for name in names])
        try:
            with one_step(handed_over(self.spark, *known)):
                return internal_rows(self.spark, self.produce(names), schema)
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

        implements = ["org.apache.spark.api.java.function.Function"]  # noqa: RUF012 - py4j reads a list


@dataclass(frozen=True)
class _Description:
    """The text of a lazy table for EXPLAIN."""

    describe: Callable[[], str]

    def call(self) -> Any:
        return self.describe()

    class Java:
        """The interface py4j presents to the JVM."""

        implements = ["java.util.concurrent.Callable"]  # noqa: RUF012 - py4j reads a list
