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

import hudi_vector as hv

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


@pytest.mark.soak
def test_a_hundred_thousand_queries(spark, workspace):
    path = tables.fresh_path(workspace, "many")
    corpus = tables.vectors(20_000, 1)
    rows = StructType([StructField("id", LongType()), hv.vector_field("emb", 8)])

    def make(batches):
        for batch in batches:
            at = batch.column(0).to_numpy()
            offsets = pa.array(np.arange(0, len(at) * 8 + 1, 8), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [batch.column(0), pa.ListArray.from_arrays(offsets, pa.array(corpus[at].ravel()))], names=["id", "emb"]
            )

    frame = spark.range(0, 20_000, 1, 2).mapInArrow(make, rows)
    tables.write(frame, path, datasource__write__operation="bulk_insert", bulkinsert__sort__mode="NONE")
    queries = tables.vectors(100_000, 2).astype(float)
    found = hv.search_batch(spark, str(path), "emb", queries, k=3, metric="l2").select(
        "_hudi_query_index", "_rank", "id", "_distance"
    )
    answers = found.filter("_hudi_query_index % 9973 = 0").collect()
    assert found.selectExpr("count(*)", "count(DISTINCT _hudi_query_index)").collect()[0][:] == (300_000, 100_000)
    for number in range(0, 100_000, 9973):
        mine = sorted((row["_rank"], row["id"]) for row in answers if row["_hudi_query_index"] == number)
        exact = oracle.distances(corpus, queries[number], "l2")
        assert [key for _, key in mine] == np.argsort(exact)[:3].tolist()

    def peak(batches):
        import resource

        list(batches)
        yield pa.RecordBatch.from_arrays(
            [pa.array([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024])], names=["id"]
        )

    peaks = [row["id"] for row in spark.range(0, 4, 1, 2).mapInArrow(peak, "id LONG").collect()]
    assert max(peaks) < 900 * MEGABYTE, f"{max(peaks) / MEGABYTE:.0f} MB"
