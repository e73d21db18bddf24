"""Conversion of pandas DataFrames and Arrow tables to Spark DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, SessionError, first_line, kind_of

__all__ = ["spark_frame"]


def spark_frame(df: Any) -> DataFrame:
    """Return rows as a Spark DataFrame; pandas DataFrames and Arrow tables go to the active session.

    Vectors of a pandas DataFrame are lists or one-dimensional NumPy arrays. A Spark DataFrame is returned as it is.
    Raises InvalidTypeError for other types and for columns that have no Spark type, InvalidArgumentError if there are
    no rows or two columns have one name, SessionError if no session is active.

    Example:
        >>> spark_frame(pd.DataFrame({"id": [1], "emb": [q]}))
        DataFrame[id: bigint, emb: array<double>]
    """
    if isinstance(df, DataFrame):
        return df
    if not isinstance(df, (pd.DataFrame, pa.Table)):
        raise InvalidTypeError(
            f"df is a DataFrame of Spark or pandas, or an Arrow table, not {kind_of(df)}; convert it first"
        )
    session = SparkSession.getActiveSession()
    if session is None:
        raise SessionError(f"writing a {kind_of(df)} needs an active SparkSession, and there is none; make one first")
    names = [str(name) for name in (df.columns if isinstance(df, pd.DataFrame) else df.column_names)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgumentError(f"df has two columns '{twice}'; give one of them another name")
    if not len(df):
        raise InvalidArgumentError(f"a {kind_of(df)} without rows does not say what its columns hold; give rows")
    try:
        return _of_pandas(session, df) if isinstance(df, pd.DataFrame) else _of_arrow(session, df)
    except (InvalidTypeError, SessionError):
        raise
    except Exception as problem:
        raise InvalidTypeError(
            f"the {kind_of(df)} cannot be given to Spark: {first_line(problem)}; make it with createDataFrame"
        ) from problem


def _of_pandas(session: SparkSession, df: pd.DataFrame) -> DataFrame:
    arrays = [name for name in df.columns if any(isinstance(value, np.ndarray) for value in df[name])]
    listed = df.assign(**{str(name): [_as_list(value) for value in df[name]] for name in arrays})
    return session.createDataFrame(listed)


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _of_arrow(session: SparkSession, table: pa.Table) -> DataFrame:
    schema = StructType([StructField(field.name, _spark_type(field), True) for field in table.schema])
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return session.createDataFrame(list(rows), schema)


def _spark_type(field: pa.Field) -> DataType:
    kind = field.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return ArrayType(_spark_type(kind.value_field))
    try:
        found: DataType = from_arrow_type(kind)
    except Exception as refused:
        raise InvalidTypeError(f"column '{field.name}' is {kind} in Arrow, of which Spark has no type") from refused
    return found
