"""Arrow tables as the rows of a Spark plan, without a job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StructField, StructType

from hudi_vector.read.conform import conform
from hudi_vector.spark.gateway import JavaObject

__all__ = ["arrow_fields", "internal_rows"]

# Half of the default of spark.sql.execution.arrow.localRelationThreshold.
_PART_BYTES = 24 << 20


_UNREAD = StructType([StructField("", BooleanType())])


def arrow_fields(schema: StructType) -> list[pa.Field]:
    """The Arrow fields Spark expects for a schema."""
    return [pa.field(field.name, _arrow_type(field.dataType), field.nullable) for field in schema.fields]


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(kind.elementType), kind.containsNull))
    if isinstance(kind, MapType):
        return pa.map_(
            _arrow_type(kind.keyType), pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull)
        )
    if isinstance(kind, StructType):
        return pa.struct(arrow_fields(kind))
    made: pa.DataType = to_arrow_type(kind)
    return made


def internal_rows(spark: SparkSession, table: pa.Table | None, schema: StructType) -> JavaObject:
    """A Java array of Spark's internal rows.

    Args:
        spark: The session.
        table: The rows, or None for no rows.
        schema: Their columns; each must be in the table.

    Returns:
        ``InternalRow[]``.
    """
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    row_class = gateway.jvm.org.apache.spark.sql.catalyst.InternalRow
    if table is None or not table.num_rows:
        return gateway.new_array(row_class, 0)
    if not schema.fields:
        # Rows without columns, as count(*) wants them: a column that nobody reads carries their number.
        return _through_arrow(spark, gateway.jvm, pa.table({"": pa.repeat(True, table.num_rows)}), _UNREAD)
    return _through_arrow(spark, gateway.jvm, conform(table, arrow_fields(schema)), schema)


def _through_arrow(spark: SparkSession, jvm: Any, table: pa.Table, schema: StructType) -> JavaObject:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    row_class = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.InternalRow", True, loader)
    tag = jvm.scala.reflect.ClassTag.apply(row_class)
    parts = [_converted(spark, jvm, part, schema).toArray(tag) for part in _parts(table)]
    if len(parts) == 1:
        return parts[0]
    whole = jvm.java.lang.reflect.Array.newInstance(row_class, table.num_rows)
    done = 0
    for part in parts:
        jvm.java.lang.System.arraycopy(part, 0, whole, done, len(part))
        done += len(part)
    return whole


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """The table in parts that Spark takes as local relations; larger ones would become jobs."""
    rows = max(1, table.num_rows * _PART_BYTES // max(table.nbytes, 1))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _converted(spark: SparkSession, jvm: Any, table: pa.Table, schema: StructType) -> JavaObject:
    java_session = spark._jsparkSession
    handle = spark.sparkContext._serialize_to_jvm(
        table.combine_chunks().to_batches(),
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        lambda: jvm.ArrowRDDServer(java_session),
    )
    frame = jvm.PythonSQLUtils.toDataFrame(handle, json.dumps(schema.jsonValue()), java_session)
    return frame.queryExecution().analyzed().data()
