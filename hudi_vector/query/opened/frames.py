"""Arrow tables as DataFrames of a session that the caller has; nothing here is loaded without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["one_partition"]


def one_partition(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A DataFrame of one partition, whose rows come in the table's order.

    Args:
        spark: The session.
        table: The rows, which travel in the plan.

    Returns:
        The DataFrame, lazy.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    content = sink.getvalue().to_pybytes()

    def rows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from pa.ipc.open_stream(content)

    return spark.range(0, 1, 1, 1).mapInArrow(rows, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
