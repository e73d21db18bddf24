"""DataFrames of rows that stand in the plan.

The rows that `createDataFrame` makes of a list pass through a worker of Python each time a job reads them: a fifth of the
work of a commit, and half of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from hudi_vector.spark.catalyst.local_rows import arrow_fields, arrow_frame


def planned(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """Rows of a schema, in the partitions and the order that `createDataFrame` gives them.

    What is computed of such rows alone, Spark computes when it plans: an expression that fails has to follow a `coalesce`.
    """
    kind = _parsed(schema) if isinstance(schema, str) else schema
    columns = zip(*rows, strict=True) if rows else ((),) * len(kind)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow_fields(kind), strict=True)]
    return arrow_frame(spark, pa.table(dict(zip(kind.names, arrays, strict=True))), kind)


@cache
def _parsed(schema: str) -> StructType:
    kind = _parse_datatype_string(schema)
    assert isinstance(kind, StructType)
    return kind
