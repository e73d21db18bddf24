"""The conversion of Arrow tables to DataFrames; pyspark is imported only when it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from hudi_vector.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["one_partition"]


def one_partition(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a lazy DataFrame of one partition with the table's rows in order; the rows are part of the plan."""
    from pyspark.sql.pandas.types import from_arrow_schema

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    content = sink.getvalue().to_pybytes()

    def rows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        yield from pa.ipc.open_stream(content)

    return spark.range(0, 1, 1, 1).mapInArrow(rows, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
