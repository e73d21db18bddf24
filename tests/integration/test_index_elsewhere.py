"""Indexes in another directory than the table's, and over files, built by executors and found by searches."""

from __future__ import annotations

import io
import re
import time

import numpy as np
import pytest
from support import tables

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.progress import jobs_followed, tasks_followed

DIMENSION = 8


def frame(spark, ids):
    numbers = np.random.default_rng(3).standard_normal((len(ids), DIMENSION)).astype("f4")
    rows = [(i, f"n{i}", float(i % 50), f"c{i % 3}", v.tolist()) for i, v in zip(ids, numbers, strict=True)]
    return spark.createDataFrame(rows, tables.schema(DIMENSION))


def found(spark, path, **asked):
    rows = hv.search(spark, path, "emb", [0.5] * DIMENSION, 9, metric="l2", **asked).collect()
    return [row["id"] for row in rows], hv.last_reports()[0].slices


def test_indexes_that_lie_elsewhere(clean_session, workspace):
    spark = clean_session
    path, directory = tables.fresh_path(workspace, "elsewhere"), str(workspace / "indexes")
    tables.write(frame(spark, range(300)), path, datasource__write__partitionpath__field="category")
    table = str(path)
    spark.conf.set("hoodie.vector.cache.max.bytes", "0")
    made = hv.index.create(spark, table, "emb", metric="l2", directory=directory)
    assert (made.segments_made, made.covered_rows) == (3, 300)
    assert not (path / ".hoodie/vector_index").exists()
    assert hv.index.describe(spark, table) == []
    assert [one.covered_files for one in hv.index.describe(spark, table, directory=directory)] == [3]
    exact, slices = found(spark, table)
    assert slices == {"parquet": 3}
    spark.conf.set("hoodie.vector.index.external.dir", directory)
    assert found(spark, table) == (exact, {"index": 3})
    assert [one.column for one in hv.index.describe(spark, table)] == ["emb"]
    assert hv.index.recall(spark, table, "emb", directory=directory, sample=10).queries == 10
    assert hv.index.verify(spark, table, "emb") == []
    tables.write(frame(spark, range(0, 60, 3)), path, datasource__write__partitionpath__field="category")
    assert hv.index.refresh(spark, table, "emb").segments_made == 1
    assert found(spark, table)[1] == {"index": 3}
    assert hv.index.compact(spark, table, "emb", grace="0s", directory=directory)
    assert hv.index.create(spark, table, "emb", metric="l2").segments_made == 3
    assert (path / ".hoodie/vector_index").exists()
    assert hv.index.refresh(spark, table, "emb").segments_made == 0  # of two alike, the one beside the table
    assert len(hv.index.drop(spark, table, "emb")) == 2
    assert found(spark, table)[1] == {"parquet": 3}

    lists = workspace / "lists"
    frame(spark, range(300)).repartition(3).write.parquet(str(lists))
    files = [str(file) for file in lists.glob("*.parquet")]
    made = hv.index.build_if_missing(spark, files=files, column="emb", metric="l2")  # the session's directory
    assert (made.segments_made, made.covered_rows) == (3, 300)
    kept = hv.index.build_if_missing(None, files=files, column="emb", metric="l2", directory=directory)
    assert kept.covered_rows == 300
    options = {"hoodie.vector.cache.max.bytes": "0"}
    with hv.open(files=files, column="emb", index_directory=directory, options=options) as t:
        hits = t.search([0.5] * DIMENSION, 9, metric="l2", columns=["id"])
        assert hits.report.slices == {"index": 3}
        assert hits.column("id").to_pylist() == exact
    measured = hv.index.recall(spark, files=files, column="emb", sample=10)
    assert measured.recall > 0.5
    (described,) = hv.index.describe(spark, files=files)
    assert described.recalls == ((measured.measured_ms, measured.recall),)
    assert described.latencies == ((measured.measured_ms, measured.milliseconds),)
    with pytest.raises(errors.InvalidArgumentError, match="give exactly one of table, files and delta"):
        hv.index.describe(spark, table, files=files)


def test_progress_of_executors_is_shown(clean_session, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, context = Terminal(), clean_session.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "the user's own")
    with jobs_followed(context, 12, "files read", stream=terminal, every=0.05):
        done = context.parallelize(range(12), 12).map(lambda n: time.sleep(0.4) or n).collect()
    assert done == list(range(12))
    assert context.getLocalProperty("spark.jobGroup.id") == "the user's own"
    context.setLocalProperty("spark.jobGroup.id", None)
    counts = [int(done) for done in re.findall(r"(\d+) of 12 files read", terminal.getvalue())]
    assert counts == sorted(counts)
    assert set(range(1, 12)) & set(counts), counts
    assert terminal.getvalue().endswith("\x1b[1A\x1b[2K"), "the bar is gone"
    terminal = Terminal()
    with tasks_followed(context, "writing the rows", stream=terminal, every=0.05):
        context.parallelize(range(6), 6).map(lambda n: time.sleep(0.2) or n).collect()
    counts = {int(done) for done in re.findall(r"(\d+) of 6 tasks: writing the rows", terminal.getvalue())}
    assert counts & set(range(1, 6)), counts
