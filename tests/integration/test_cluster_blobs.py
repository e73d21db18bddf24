"""Clustering: rows in the order that was asked for, blobs in the order of their rows, and where thresholds want them."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from support import tables
from support.blobs import QUICK, content

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, UnknownColumnError

services = hv.table_services


def answers(spark, path):
    read = spark.read.format("hudi").load(str(path)).selectExpr("id", "rank", "read_blob(img)", "read_blob(doc.scan)")
    return {row[0]: tuple(row[1:]) for row in read.collect()}


@pytest.fixture(scope="module")
def path(spark, workspace):
    """Thirty rows in the order of their ids, which is not that of their ranks."""
    made = tables.fresh_path(workspace, "clustered")
    for first in (0, 15):
        rows = [
            (i, 1, i * 7 % 30, [float(i)], bytearray(content(i, 3000)), (bytearray(content(i, 50 if i % 2 else 500)),))
            for i in range(first, first + 15)
        ]
        kind = "id INT, ts LONG, rank INT, vec ARRAY<FLOAT>, img BINARY, doc STRUCT<scan: BINARY>"
        blobs = {"img": {"inline.threshold": "0"}, "doc.scan": {"inline.threshold": "1KB" if first else "0"}}
        frame = spark.createDataFrame(rows, kind).coalesce(1)
        hv.write(frame, str(made), record_key="id", ordering="ts", vectors={"vec": 1}, blobs=blobs, options=QUICK)
    return made


def test_blobs_follow_their_rows(spark, path, clean_session):
    before = answers(spark, path)
    schema = spark.read.format("hudi").load(str(path)).schema.json()
    spark.conf.set("hoodie.storage.blob.inline.threshold", "100")
    done = services.cluster(spark, str(path), order_by="rank", options=QUICK)
    assert len(done.instants) == 1
    assert (done.moved_out, done.moved_in, done.restored_rows) == (7, 7, 0)
    assert done.is_well
    assert answers(spark, path) == before
    assert hv.blobs.verify(spark, str(path)).collect() == []
    assert spark.read.format("hudi").load(str(path)).schema.json() == schema
    frame = spark.read.format("hudi").load(str(path))
    (name,) = {row[0] for row in frame.select("_hoodie_file_name").distinct().collect()}
    table = pq.read_table(path / name, columns=["id", "rank", "img", "doc"]).to_pylist()
    assert [row["rank"] for row in table] == list(range(30))
    places = [(row["img"]["reference"]["external_path"], row["img"]["reference"]["offset"]) for row in table]
    assert len({place[0] for place in places}) == 1
    assert [place[1] for place in places] == [3000 * number for number in range(30)]
    kinds = {row["id"]: row["doc"]["scan"]["data"] is not None for row in table}
    assert kinds == {i: i % 2 == 1 for i in range(30)}
    again = services.cluster(spark, str(path), options=QUICK)
    assert (again.moved_out, again.moved_in, again.compaction.candidates) == (0, 0, [])


def test_refusals(spark, path):
    with pytest.raises(UnknownColumnError, match="nope"):
        services.cluster(spark, str(path), order_by="nope")
    with pytest.raises(InvalidArgumentError, match="order by a column that holds the cluster of each row"):
        services.cluster(spark, str(path), order_by=["rank", "vec"])
    with pytest.raises(InvalidArgumentError, match="holds a comma"):
        services.cluster(spark, str(path), options={"a": "b,c"})
