"""Conversion of Arrow tables to the rows of a Spark plan, without a job, and of a DataFrame to an Arrow table."""

from __future__ import annotations

import json

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
)

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.read.conform import conform
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import Handles, handles_of
from hudi_vector.spark.catalyst.settings import time_zone
from hudi_vector.spark.catalyst.unsafe_rows import MOST_ROWS, fits_unsafe, no_columns, unsafe_bytes

__all__ = ["arrow_fields", "arrow_frame", "collected", "internal_rows", "no_rows"]

# Up to this size, passing bytes as an argument of a py4j call is faster than through a socket.
_INLINE_BYTES = 1 << 20
# The bytes of a partition of rows that come from Python, unless there are fewer of them than cores.
_PARTITION_BYTES = 16 << 20


_UNREAD = StructType([StructField("", BooleanType())])

# pyspark's own to_arrow_type needs distutils, which Python 3.12 and newer lack.
_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    DateType: pa.date32(),
    DayTimeIntervalType: pa.duration("us"),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    NullType: pa.null(),
    ShortType: pa.int16(),
    StringType: pa.string(),
    TimestampNTZType: pa.timestamp("us"),
    TimestampType: pa.timestamp("us", tz="UTC"),  # Spark reads only Arrow timestamps with a zone as TIMESTAMP
}


def arrow_fields(schema: StructType) -> list[pa.Field]:
    """Return the Arrow fields that Spark expects for a schema; raise UnsupportedTableError if Arrow lacks a type."""
    return [_arrow_field(field.name, field.dataType, field.nullable) for field in schema.fields]


def _arrow_field(name: str, kind: DataType, is_nullable: bool) -> pa.Field:
    """Return an Arrow field; one of nulls is always nullable, as the element of Spark's ``array()`` is not."""
    return pa.field(name, _arrow_type(kind), is_nullable or isinstance(kind, NullType))


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, ArrayType):
        return pa.list_(_arrow_field("element", kind.elementType, kind.containsNull))
    if isinstance(kind, MapType):
        if isinstance(kind.keyType, NullType):  # Arrow's keys are never null
            raise _lacked(kind)
        return pa.map_(_arrow_type(kind.keyType), _arrow_field("value", kind.valueType, kind.valueContainsNull))
    if isinstance(kind, StructType):
        return pa.struct(arrow_fields(kind))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, UserDefinedType):
        return _arrow_type(kind.sqlType())
    try:
        return _ARROW_TYPES[type(kind)]
    except KeyError:
        raise _lacked(kind) from None


def _lacked(kind: DataType) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"columns of the type {kind.simpleString()} cannot be read through Arrow; "
        "leave them out of the columns that are asked for"
    )


def collected(frame: DataFrame) -> pa.Table:
    """Return the rows of a DataFrame on the driver, in the Arrow types that Spark expects."""
    # Spark sends Arrow from a separate thread. If it made the plan there, it would wait for the catalog, which is held
    # by the thread that resolves a table function until the function returns.
    frame._jdf.queryExecution().executedPlan()
    fields, batches = arrow_fields(frame.schema), frame._collect_as_arrow()
    return conform(pa.Table.from_batches(batches), fields) if batches else pa.schema(fields).empty_table()


def internal_rows(spark: SparkSession, table: pa.Table, schema: StructType) -> bytes | JavaObject:
    """Return the columns in `schema`, each of which must be in the table, as `unsafe_bytes` or as ``InternalRow[]``."""
    handles = handles_of(spark)
    if not schema.fields:
        if table.num_rows <= MOST_ROWS:
            return no_columns(table.num_rows)
        # count(*) needs rows without columns: an unread column carries their number.
        return _through_arrow(spark, handles, pa.table({"": pa.repeat(True, table.num_rows)}), _UNREAD)
    conformed = conform(table, arrow_fields(schema))
    if fits_unsafe(conformed, schema):
        return unsafe_bytes(conformed, schema)
    return _through_arrow(spark, handles, conformed, schema)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame without rows that needs no task, unlike ``createDataFrame([], schema)``."""
    session, java = spark._jsparkSession, handles_of(spark)
    kind = java.data_type(session, json.dumps(schema.jsonValue()))
    return DataFrame(session.createDataFrame(java.named("java.util.ArrayList")(), kind), spark)


def arrow_frame(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return the rows of an Arrow table as a DataFrame, in the types of `schema`, which has the same columns.

    The rows go to the JVM now, without a job. Few of them become part of the plan, as with Spark's own createDataFrame.
    """
    handles = handles_of(spark)
    typed = table.cast(pa.schema([pa.field(field.name, field.type) for field in arrow_fields(schema)]), safe=False)
    parts = max(spark.sparkContext.defaultParallelism, typed.nbytes // _PARTITION_BYTES)
    batches = typed.combine_chunks().to_batches(max_chunksize=-(-typed.num_rows // parts) or None)
    made = handles.python_sql_utils.toDataFrame(
        _sent(spark, handles, batches), json.dumps(schema.jsonValue()), spark._jsparkSession
    )
    return DataFrame(made, spark)


def _through_arrow(spark: SparkSession, handles: Handles, table: pa.Table, schema: StructType) -> JavaObject:
    """Return the rows of an Arrow table as ``InternalRow[]``, like Spark's ``toDataFrame`` but without analysis."""
    session, described = spark._jsparkSession, json.dumps(schema.jsonValue())
    rows = handles.arrow_converters.fromBatchIterator(
        _batches(spark, handles, table), handles.data_type(session, described), time_zone(spark), False, None
    )
    # The rows are views of their batch, which Spark frees; the scan copies each row.
    return handles.local_table_scan(handles.attributes(session, described), rows.toSeq()).executeCollect()


def _batches(spark: SparkSession, handles: Handles, table: pa.Table) -> JavaObject:
    """Return an iterator of Arrow batches in the JVM; a small batch is an argument of one call."""
    batches = table.combine_chunks().to_batches()
    if table.nbytes <= _INLINE_BYTES and len(batches) == 1:
        return handles.iterators.single(batches[0].serialize().to_pybytes())
    return _sent(spark, handles, batches)


def _sent(spark: SparkSession, handles: Handles, batches: list[pa.RecordBatch]) -> JavaObject:
    """Send Arrow batches to the JVM and return an iterator of them there."""
    read = handles.python_sql_utils.readArrowStreamFromFile

    # Where Spark encrypts what it writes, the stream goes through a socket instead of a file.
    server = handles.named("org.apache.spark.sql.api.python.ArrowIteratorServer")
    return spark.sparkContext._serialize_to_jvm(batches, ArrowStreamSerializer(), read, server)
