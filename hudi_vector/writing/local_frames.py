"""Conversion of pandas, polars and Arrow tables to Spark DataFrames, through Arrow."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, SessionError, first_line, kind_of
from hudi_vector.spark.catalyst.local_rows import arrow_frame
from hudi_vector.spark.catalyst.settings import time_zone

__all__ = ["ArrowStream", "spark_frame"]

_STREAM = "__arrow_c_stream__"
# Arrow types that Spark reads as another one, which holds all their values.
_READ_AS = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.float16(): pa.float32(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.date64(): pa.date32(),
}


class ArrowStream(Protocol):
    """Rows that Arrow can read, such as a DataFrame of polars, an Arrow table or a relation of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule of Arrow's C stream interface."""
        ...


def spark_frame(df: Any, spark: SparkSession | None = None) -> DataFrame:
    """Return rows as a Spark DataFrame; rows that are none yet go to `spark`, by default to the active session.

    Takes DataFrames of pandas and polars, Arrow tables, and whatever else has ``__arrow_c_stream__``. Vectors of pandas
    are lists or one-dimensional NumPy arrays; NaN of pandas, outside of them, is NULL. Times without a zone are taken
    in the session's. A Spark DataFrame is returned as it is.

    Raises InvalidTypeError for other types and for columns that have no Spark type, InvalidArgumentError if there are
    no rows, two columns have one name or a Spark DataFrame belongs to another session, SessionError if no session is
    active.

    Example:
        >>> spark_frame(pd.DataFrame({"id": [1], "emb": [q]}))
        DataFrame[id: bigint, emb: array<double>]
    """
    if isinstance(df, DataFrame):
        if spark is not None and df.sparkSession is not spark:
            raise InvalidArgumentError("df belongs to another session than spark; leave spark out")
        return df
    if not isinstance(df, (pd.DataFrame, pa.Table, pa.RecordBatch)) and not hasattr(df, _STREAM):
        raise _no_table(df)
    session = SparkSession.getActiveSession() if spark is None else spark
    if session is None:
        raise SessionError(
            f"writing a {kind_of(df)} needs a SparkSession, and none is active; make one with "
            'hudi_vector.session("app"), or give yours as spark'
        )
    if isinstance(df, pd.DataFrame):
        _require_distinct([str(name) for name in df.columns])
    try:
        table = _arrow_table(df)
        _require_distinct(table.column_names)
        if not table.num_rows:
            raise InvalidArgumentError(f"a {kind_of(df)} without rows does not say what its columns hold; give rows")
        return _frame(session, table)
    except (InvalidArgumentError, InvalidTypeError, SessionError):
        raise
    except Exception as problem:
        raise InvalidTypeError(
            f"the {kind_of(df)} cannot be given to Spark: {first_line(problem)}; make it with createDataFrame"
        ) from problem


def _require_distinct(names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgumentError(f"df has two columns '{twice}'; give one of them another name")


def _arrow_table(df: Any) -> pa.Table:
    if isinstance(df, pd.DataFrame):
        # Vectors are converted apart: Arrow's conversion from pandas would make NULL of NaN in them too.
        table = pa.Table.from_pandas(df, preserve_index=False)
        for place, field in enumerate(table.schema):
            if pa.types.is_list(field.type) and pa.types.is_floating(field.type.value_type):
                vectors = [None if isinstance(one, float) else one for one in df.iloc[:, place]]
                table = table.set_column(place, field.name, pa.array(vectors, field.type))
        return table
    if isinstance(df, (pa.Table, pa.RecordBatch)):
        return df if isinstance(df, pa.Table) else pa.Table.from_batches([df])
    try:
        return pa.RecordBatchReader.from_stream(df).read_all()
    except pa.ArrowInvalid as one_column:
        raise _no_table(df) from one_column


def _no_table(df: Any) -> InvalidTypeError:
    return InvalidTypeError(
        "df is a DataFrame of Spark, pandas or polars, an Arrow table, or an object with "
        f"{_STREAM}, not {kind_of(df)}; convert it first"
    )


def _frame(session: SparkSession, table: pa.Table) -> DataFrame:
    fields = []
    for place, field in enumerate(table.schema):
        kind = _read_type(field.name, field.type)
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, _decoded(table.column(place), kind))
        if pa.types.is_timestamp(kind) and kind.tz is None:
            zoned = pc.assume_timezone(table.column(place), time_zone(session))
            table, kind = table.set_column(place, field.name, zoned), zoned.type
        fields.append(StructField(field.name, from_arrow_type(kind), True))
    return arrow_frame(session, table, StructType(fields))


def _decoded(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of a dictionary's values as plain values; Arrow's own cast knows fewer types."""
    return pa.chunked_array([chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks], kind)


def _read_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type as which Spark reads a column; raise InvalidTypeError if there is none."""
    types = pa.types
    if types.is_dictionary(kind):
        return _read_type(name, kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_read_type(name, kind.value_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_type(name, field.type)) for field in kind])
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    found = _READ_AS.get(kind, kind)
    try:
        from_arrow_type(found)
    except Exception as refused:
        raise InvalidTypeError(f"column '{name}' is {kind} in Arrow, of which Spark has no type") from refused
    return found
