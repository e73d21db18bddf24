"""Stages in which Python works on Arrow batches, over columns of any name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.rdd import PythonEvalType
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import StructType

from hudi_vector.schema import quoted

__all__ = ["map_in_arrow"]


def map_in_arrow(
    frame: DataFrame, work: Callable[[Iterable[Any]], Iterable[Any]], schema: StructType | str
) -> DataFrame:
    """Map the batches of each partition, as ``DataFrame.mapInArrow`` does.

    PySpark 3.5 looks the columns up by their bare names there, which fails for one with a dot or a back-tick.

    Args:
        frame: The rows.
        work: Takes the record batches of a partition, and yields those of the result.
        schema: Of the result.

    Returns:
        The result, computed when it is asked for.
    """
    stage = pandas_udf(work, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    called = stage(*[frame[quoted(name)] for name in frame.columns])
    return DataFrame(frame._jdf.pythonMapInArrow(called._jc.expr(), False), frame.sparkSession)
