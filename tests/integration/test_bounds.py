"""Memory: a task holds one block whatever its slice's size, and a large query set stays where it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from support import oracle, tables
from support.task_memory import resident, worker_peaks

import hudi_vector as hv
from hudi_vector import options
from hudi_vector.kernels.topk import Bounds
from hudi_vector.query.execute import Question, search_slice
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.read.logs import merged
from hudi_vector.read.spec import VectorColumn
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

MEGABYTE = 1 << 20


@pytest.mark.parametrize("rows", [40_000, 400_000])
def test_a_task_holds_one_block_whatever_its_slices_size(tmp_path, rows):
    script = Path(__file__).parent.parent / "support" / "task_memory.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(rows)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    measured = json.loads(done.stdout.strip().splitlines()[-1])
    assert measured["hits"] == 10
    assert measured["grown"] < 64 * MEGABYTE, f"{measured['grown'] / MEGABYTE:.0f} MB for {measured['bytes']} bytes"


def test_a_merged_slice_holds_the_keys_of_its_candidates_only(spark, workspace, monkeypatch):
    path = tables.fresh_path(workspace, "held")
    tables.write(tables.frame(spark, range(400)), path, datasource__write__table__type="MERGE_ON_READ")
    tables.write(tables.frame(spark, range(0, 400, 10), seed=8), path)
    snapshot = NativeTable(Source(f"file://{path}", "held")).snapshot()
    column = VectorColumn("emb", tables.DIMENSION, "float")
    plan = make_plan(snapshot, SearchRequest(column, "l2", 5), {})
    (access,) = plan.slices
    assert access.access == "merged"
    queries = tables.vectors(3, 4).astype(float)
    whole, _ = search_slice(0, access, plan.spec, Question(queries, "l2", 5), Bounds.of(3), keep=False)

    monkeypatch.setattr(merged, "_BATCH_ROWS", 32)
    monkeypatch.setattr(merged, "_HELD_ROWS", 16)
    held = []
    retain = merged._Ties.retain
    monkeypatch.setattr(
        merged._Ties, "retain", lambda ties, positions: (retain(ties, positions), held.append(ties._held))
    )
    pieces, _ = search_slice(0, access, plan.spec, Question(queries, "l2", 5), Bounds.of(3), keep=False)
    assert len(held) > 5
    assert max(held) < 200
    assert pieces.keys.equals(whole.keys)
    np.testing.assert_array_equal(pieces.hits.distance, whole.hits.distance)


@pytest.mark.parametrize("way", ["collected", "spread"])
def test_a_hundred_thousand_queries(spark, workspace, clean_session, way):
    path = tables.fresh_path(workspace, "many")
    corpus = tables.vectors(1_500, 1)  # with as many queries, all distances at once would be 1.2 GB
    _write_corpus(spark, path, corpus)
    queries = tables.vectors(100_000, 2).astype(float)
    if way == "spread":
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, "0")
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    found = (
        hv.search_batch(spark, str(path), "emb", queries, k=3, metric="l2")
        .select("_hudi_query_index", "_rank", "id", "_distance")
        .cache()
    )
    assert found.selectExpr("count(*)", "count(DISTINCT _hudi_query_index)").collect()[0][:] == (300_000, 100_000)
    grown = resident("VmHWM") - before
    answers = found.filter("_hudi_query_index % 9973 = 0").collect()
    found.unpersist()
    for number in range(0, 100_000, 9973):
        mine = sorted((row["_rank"], row["id"]) for row in answers if row["_hudi_query_index"] == number)
        exact = oracle.distances(corpus, queries[number], "l2")
        assert [key for _, key in mine] == np.argsort(exact)[:3].tolist()
    peaks = worker_peaks(spark)
    assert grown < 400 * MEGABYTE, f"{grown / MEGABYTE:.0f} MB on the driver"
    assert max(peaks) < 900 * MEGABYTE, f"{max(peaks) / MEGABYTE:.0f} MB in a worker"


def _write_corpus(spark, path, corpus):
    rows = StructType([StructField("id", LongType()), hv.vector_field("emb", 8)])

    def make(batches):
        for batch in batches:
            at = batch.column(0).to_numpy()
            offsets = pa.array(np.arange(0, len(at) * 8 + 1, 8), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), pa.ListArray.from_arrays(offsets, pa.array(corpus[at].ravel()))], names=["id", "emb"]
            )

    frame = spark.range(0, len(corpus), 1, 2).mapInArrow(make, rows)
    tables.write(frame, path, datasource__write__operation="bulk_insert", bulkinsert__sort__mode="NONE")
