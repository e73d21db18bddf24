"""What Spark's Python workers remember between tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support import tables

import hudi_vector as hv


def archives_of_workers(spark: SparkSession, what: str, look: bool = False) -> dict[int, set[str]]:
    """For two worker processes of searches or of blobs, the archives whose names they read again before their next task.

    With `look`, the workers first look for a module that is nowhere, and so in each archive.
    """

    def of_this(_: int) -> tuple[int, set[str]]:
        import importlib.util
        import os
        import sys
        import time
        import zipimport

        time.sleep(0.2)  # so that the other task gets another worker
        if look:
            importlib.util.find_spec("no_such_module")
        known = sys.path_importer_cache.values()
        return os.getpid(), {finder.archive for finder in known if isinstance(finder, zipimport.zipimporter)}

    if what == "search":
        return dict(spark.sparkContext.parallelize(range(2), 2).map(of_this).collect())

    def of_these(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            worker, archives = of_this(0)
            yield pa.RecordBatch.from_pydict({"worker": [worker], "archives": [list(archives)]})

    rows = spark.range(2, numPartitions=2).mapInArrow(of_these, "worker LONG, archives ARRAY<STRING>").collect()
    return {row.worker: set(row.archives) for row in rows}


@pytest.fixture(scope="module")
def table(spark: SparkSession, workspace: Path) -> str:
    path = str(tables.fresh_path(workspace, "workers"))
    rows = spark.range(40, numPartitions=2).selectExpr(
        "id", "array(float(id), 1.0F) AS emb", "CAST(repeat('x', 300) AS BINARY) AS img"
    )
    hv.write(rows, path, record_key="id", vectors={"emb": 2}, blobs=["img"])
    return path


@pytest.mark.parametrize("what", ["search", "blobs"])
def test_a_worker_that_ran_a_task_reads_no_archive_before_the_next_one(
    spark: SparkSession, table: str, what: str
) -> None:
    def run() -> int:
        if what == "search":
            return hv.search(spark, table, "emb", [1.0, 2.0], 5, execution="distributed").count()
        frame = spark.read.format("hudi").load(table).select("id", "img")
        return len(hv.read_blobs(frame.repartition(2), "img").collect())

    assert run() > 0  # modules are imported now
    before = archives_of_workers(spark, what, look=True)
    assert all(any("hudi-spark" in archive for archive in archives) for archives in before.values())
    for _ in range(3):
        assert run() > 0
    after = archives_of_workers(spark, what)
    assert set() in [after[worker] for worker in before.keys() & after.keys()]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process choose when it acknowledges")
def test_a_worker_that_ran_a_task_acknowledges_the_next_one_at_once(spark: SparkSession, table: str) -> None:
    def acknowledges(_: int) -> list[bool]:
        import gc
        import socket

        ours = [each.args[0] for each in gc.callbacks if getattr(each, "func", each).__name__ == "_acknowledge"]
        option = socket.IPPROTO_TCP, socket.TCP_QUICKACK
        return [bool(each.getsockopt(*option)) for sockets in ours for each in sockets if each.family == socket.AF_INET]

    def ask() -> list[list[bool]]:
        return spark.sparkContext.parallelize(range(2), 2).map(acknowledges).collect()

    for _ in range(3):
        assert hv.search(spark, table, "emb", [1.0, 2.0], 5, execution="distributed").count() == 5
        answers = ask()
        assert any(answers)  # of a worker that ran a task of the search
        assert all(each for answer in answers for each in answer)
