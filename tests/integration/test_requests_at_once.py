"""Spark's tasks send as many requests at once as the session says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType
from support.loaded import module

from hudi_vector.options import IO_PARALLELISM
from hudi_vector.spark.resolve import storage_options
from hudi_vector.writing.blobs.staged_files import StagedFile, read_staged

slow = module("benchmarks/slow_store.py", "requests_at_once_slow_store")

FILES = 24


@pytest.fixture(scope="module")
def store() -> Any:
    with slow.slow_store(delay=0.25) as running:
        for number in range(FILES):
            sink = pa.BufferOutputStream()
            pq.write_table(pa.table({"n": pa.array([number], pa.int64())}), sink)
            key = f"rows/part-{number:05d}-0.parquet"
            running.client.put_object(Bucket="lake", Key=key, Body=sink.getvalue().to_pybytes())
        running.warm()
        yield running


@pytest.mark.parametrize("at_once", [3, None, 5])
def test_a_task_sends_as_many_requests_at_once_as_the_session_says(
    spark: SparkSession, store: Any, at_once: int | None
) -> None:
    given = {**store.settings, "spark.sql.files.minPartitionNum": "1"}
    given |= {} if at_once is None else {IO_PARALLELISM.key: str(at_once)}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        options = storage_options(spark, "s3a://lake/rows")
        files = [StagedFile(f"part-{number:05d}-0.parquet", 500) for number in range(FILES)]
        frame = read_staged(spark, "s3a://lake/rows", files, StructType([StructField("n", LongType())]), options)
        with store.watched() as seen:
            found = sorted(row["n"] for row in frame.collect())
    finally:
        for key in given:
            spark.conf.unset(key)
    assert found == list(range(FILES))
    assert len(seen.requests) == FILES, slow.summary(seen)
    assert seen.most_at_once == at_once if at_once else seen.most_at_once > 5, slow.summary(seen)
