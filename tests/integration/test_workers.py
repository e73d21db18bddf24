"""What Spark's Python workers remember between tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import tables

import hudi_vector as hv


def archives_looked_in(spark: SparkSession) -> set[str]:
    """The archives whose names each worker reads again before its next task."""

    def looked_in(_: int) -> list[str]:
        import sys
        import zipimport

        return [at.archive for at in sys.path_importer_cache.values() if isinstance(at, zipimport.zipimporter)]

    return set(spark.sparkContext.parallelize(range(2), 2).flatMap(looked_in).collect())


@pytest.fixture(scope="module")
def table(spark: SparkSession, workspace: Path) -> str:
    path = str(tables.fresh_path(workspace, "workers"))
    rows = spark.range(40, numPartitions=2).selectExpr(
        "id", "array(float(id), 1.0F) AS emb", "CAST(repeat('x', 300) AS BINARY) AS img"
    )
    hv.write(rows, path, record_key="id", vectors={"emb": 2}, blobs=["img"])
    return path


@pytest.mark.parametrize("what", ["search", "blobs"])
def test_no_archive_is_read_again_before_the_next_task(spark: SparkSession, table: str, what: str) -> None:
    def run() -> int:
        if what == "search":
            return hv.search(spark, table, "emb", [1.0, 2.0], 5, execution="distributed").count()
        frame = spark.read.format("hudi").load(table).select("id", "img")
        return hv.read_blobs(frame.repartition(2), "img").count()

    for _ in range(3):  # modules are imported during the first
        assert run() > 0
    assert archives_looked_in(spark) == set()
