"""Python stages over Arrow batches, for columns of any name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.rdd import PythonEvalType
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import StructType

from hudi_vector.schema import quoted
from hudi_vector.workers import begin_task

__all__ = ["map_in_arrow"]


def map_in_arrow(
    frame: DataFrame, work: Callable[[Iterable[Any]], Iterable[Any]], schema: StructType | str
) -> DataFrame:
    """Return the lazy result of applying `work` to the batches of each partition, like ``DataFrame.mapInArrow``.

    PySpark 3.5 looks up columns by their unquoted names in ``mapInArrow``, which fails for a name with a dot or a
    back-tick. `schema` is the schema of the result.
    """

    def begun(batches: Iterable[Any]) -> Iterable[Any]:
        begin_task()
        return work(batches)

    begun.__name__ = getattr(work, "__name__", type(work).__name__)  # Spark's plan shows it
    stage = pandas_udf(begun, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    called = stage(*[frame[quoted(name)] for name in frame.columns])
    return DataFrame(frame._jdf.pythonMapInArrow(called._jc.expr(), False), frame.sparkSession)
