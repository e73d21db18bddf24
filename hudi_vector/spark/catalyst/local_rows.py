"""Arrow tables as the rows of a Spark plan, without a job, and the rows of one as an Arrow table."""

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

__all__ = ["arrow_fields", "collected", "internal_rows", "no_rows"]

# Up to this size an argument of a py4j call is quicker than a socket.
_INLINE_BYTES = 1 << 20


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
    TimestampType: pa.timestamp("us", tz="UTC"),  # Spark reads Arrow's instants with a zone only
}


def arrow_fields(schema: StructType) -> list[pa.Field]:
    """The Arrow fields Spark expects for a schema; raises ``UnsupportedTableError`` where Arrow has no such type."""
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
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, UserDefinedType):
        return _arrow_type(kind.sqlType())
    try:
        return _ARROW_TYPES[type(kind)]
    except KeyError:
        raise UnsupportedTableError(
            f"columns of the type {kind.simpleString()} cannot be read through Arrow; "
            "leave them out of the columns that are asked for"
        ) from None


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame, brought to the driver.

    Args:
        frame: The rows.

    Returns:
        The rows, in the types Spark expects.
    """
    # Spark sends Arrow from a thread of its own. Were the plan made there, it would ask the catalog, which the thread
    # that resolves a table function holds until the function is done.
    frame._jdf.queryExecution().executedPlan()
    fields, batches = arrow_fields(frame.schema), frame._collect_as_arrow()
    return conform(pa.Table.from_batches(batches), fields) if batches else pa.schema(fields).empty_table()


def internal_rows(spark: SparkSession, table: pa.Table | None, schema: StructType) -> JavaObject:
    """A Java array of Spark's internal rows.

    Args:
        spark: The session.
        table: The rows, or None for no rows.
        schema: Their columns; each must be in the table.

    Returns:
        ``InternalRow[]``.
    """
    handles = handles_of(spark)
    if table is None or not table.num_rows:
        return handles.no_rows
    if not schema.fields:
        # Rows without columns, as count(*) wants them: a column that nobody reads carries their number.
        return _through_arrow(spark, handles, pa.table({"": pa.repeat(True, table.num_rows)}), _UNREAD)
    return _through_arrow(spark, handles, conform(table, arrow_fields(schema)), schema)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """A DataFrame without rows that no task has to compute, unlike that of ``createDataFrame([], schema)``.

    Args:
        spark: The session.
        schema: Its columns.

    Returns:
        The DataFrame.
    """
    session, jvm = spark._jsparkSession, spark._jvm
    assert jvm is not None
    kind = handles_of(spark).data_type(session, json.dumps(schema.jsonValue()))
    return DataFrame(session.createDataFrame(jvm.java.util.ArrayList(), kind), spark)


def _through_arrow(spark: SparkSession, handles: Handles, table: pa.Table, schema: StructType) -> JavaObject:
    """What Spark's own ``toDataFrame`` does, without the analysis of a plan."""
    session, described = spark._jsparkSession, json.dumps(schema.jsonValue())
    zone = session.sessionState().conf().sessionLocalTimeZone()
    rows = handles.arrow_converters.fromBatchIterator(
        _stream(spark, handles, table), handles.data_type(session, described), zone, False, None
    )
    # The columnar rows vanish with their batch; the scan copies each as it comes.
    return handles.local_table_scan(handles.attributes(session, described), rows.toSeq()).executeCollect()


def _stream(spark: SparkSession, handles: Handles, table: pa.Table) -> JavaObject:
    batches = table.combine_chunks().to_batches()
    if table.nbytes <= _INLINE_BYTES:
        return _inline(handles, batches)
    read = handles.python_sql_utils.readArrowStreamFromFile

    def server() -> JavaObject:
        return handles.jvm.ArrowRDDServer(spark._jsparkSession)

    return spark.sparkContext._serialize_to_jvm(batches, ArrowStreamSerializer(), read, server)


def _inline(handles: Handles, batches: list[pa.RecordBatch]) -> JavaObject:
    """Arrow batches as one argument of a call: no socket, no file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    channel = handles.channels.newChannel(handles.byte_stream(sink.getvalue().to_pybytes()))
    return handles.arrow_converters.getBatchesFromStream(channel)
