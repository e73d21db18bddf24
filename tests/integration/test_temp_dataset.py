"""Temporary datasets of DataFrames, written by Spark's tasks."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from hudi_vector.errors import InvalidOptionError, RefusedError, UnsupportedTableError
from hudi_vector.kernels.topk import Bounds
from hudi_vector.query.execute import Question
from hudi_vector.query.indexed.slices import search_slices
from hudi_vector.query.local import merge_winners
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.winners import fetch_rows
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.search import temp_dataset
from hudi_vector.spark.search.temp_dataset import write_temporary

KEY = "hoodie.vector.join.temp.dir"
COLUMN = VectorColumn("v", 4, "float", is_vector=False)


@pytest.fixture(scope="module")
def frame(spark):
    """Computed rows, some without a vector; many lie at one place."""
    return spark.range(400).select(
        "id",
        F.when(F.col("id") % 10 != 0, F.array(*[((F.col("id") * n) % 3).cast("float") for n in (1, 2, 3, 5)])).alias(
            "v"
        ),
        F.struct(F.col("id").cast("string").alias("s"), F.current_date().alias("d")).alias("nested"),
        F.when(F.col("id") % 2 == 0, F.create_map(F.lit("k"), F.col("id"))).alias("m"),
        F.col("id").cast("decimal(12,3)").alias("n"),
        F.timestamp_seconds("id").alias("at"),
    )


def nearest(dataset, query, k):
    physical = dataset.physical
    column = VectorColumn(physical["v"], 4, "float")
    plan = make_plan(dataset.snapshot, SearchRequest(column, "l2", k), {})
    question = Question(np.array([query], np.float64), "l2", k)
    found = search_slices(list(enumerate(plan.slices)), None, plan.spec, question, Bounds.of(1), keep=False)
    winners = merge_winners(plan, [hits for part, _ in found for hits in part])
    rows = fetch_rows(plan, winners, list(physical.values()), keep=False)
    return rows.rename_columns(list(physical)).to_pylist(), winners.distance.tolist()


def folders(path: Path) -> list[Path]:
    return sorted(path.glob("hudi-vector-temp-*"))


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_dataframe_is_kept_as_it_is(spark, frame, tmp_path, partitions):
    with write_temporary(frame.repartition(partitions), COLUMN, {KEY: str(tmp_path)}) as dataset:
        assert (dataset.rows, dataset.left_out) == (360, 40)
        assert dataset.nbytes > 0
        rows, far = nearest(dataset, [0.0, 0.0, 0.0, 0.0], 25)
        wanted = sorted(
            (float(np.sqrt((np.array(row["v"]) ** 2).sum())), row["id"])
            for row in frame.collect()
            if row["v"] is not None
        )[:25]
        assert [(d, row["id"]) for d, row in zip(far, rows, strict=True)] == wanted
        held = {row["id"]: row.asDict(recursive=True) for row in frame.collect()}
        for row in rows:
            row["m"] = None if row["m"] is None else dict(row["m"])
            row["at"] = row["at"].replace(tzinfo=None)
            assert row == held[row["id"]]
        assert len(folders(tmp_path)) == 1
    assert folders(tmp_path) == []


def test_datasets_of_one_application_share_a_lease(spark, frame, tmp_path):
    small = frame.limit(20)
    first, second = (write_temporary(small, COLUMN, {KEY: str(tmp_path)}) for _ in range(2))
    (folder,) = folders(tmp_path)
    assert folder.name.startswith(f"hudi-vector-temp-{spark.sparkContext.applicationId}-")
    assert len(list(folder.rglob("*.parquet"))) >= 2
    first.release()
    first.release()
    assert {f"file://{path.parent}" for path in folder.rglob("*.parquet")} == {second.place}
    temp_dataset._close_all()  # what runs when the process ends
    assert folders(tmp_path) == []
    second.release()


def test_what_cannot_be_kept_leaves_nothing_behind(spark, frame, tmp_path):
    conf = {KEY: str(tmp_path)}
    with pytest.raises(RefusedError, match=r"has more than hoodie.vector.join.temp.max.bytes = 1000 bytes"):
        write_temporary(frame, COLUMN, {**conf, "hoodie.vector.join.temp.max.bytes": "1000"})
    with pytest.raises(UnsupportedTableError, match=r"column 'e' cannot be written .* no structs without fields"):
        write_temporary(frame.withColumn("e", F.from_json(F.lit("{}"), "struct<>")), COLUMN, conf)
    with pytest.raises(Exception, match="no such row"):
        write_temporary(frame.withColumn("x", F.expr("raise_error('no such row')")), COLUMN, conf)
    with pytest.raises(InvalidOptionError, match="is not allowed"):
        write_temporary(frame, COLUMN, {**conf, "hoodie.vector.join.temp.max.bytes": "much"})
    (kept,) = (kept for kept in temp_dataset._AREAS.values() if str(tmp_path) in kept.area.folder)
    for _ in range(100):  # other tasks of the jobs that failed may still write
        kept._renew()  # what the lease's thread does
        if not kept.area.places:
            break
        time.sleep(0.1)
    assert not list(folders(tmp_path)[0].rglob("*.parquet"))
    kept.close()
    assert folders(tmp_path) == []
