"""Exactness and order: bit-equal distances and one order, whatever the files, threads and execution."""

from __future__ import annotations

import numpy as np
import pytest
from support import oracle, tables

import hudi_vector as hv
from hudi_vector import options


def answer(spark, path, query, k=30, **arguments):
    frame = hv.search(spark, str(path), "emb", query, k, **arguments)
    return [tuple(row) for row in frame.select("_distance", "_hoodie_record_key", "_hoodie_partition_path").collect()]


@pytest.fixture(scope="module")
def same_vectors(spark, workspace):
    """Five vectors, each in many rows of several files and two partitions."""
    path = tables.fresh_path(workspace, "same")
    frame = tables.frame(spark, range(200)).toDF("id", "name", "price", "category", "emb")
    five = tables.vectors(5, 40).tolist()
    rows = [(row["id"], row["name"], row["price"], f"p{row['id'] % 2}", five[row["id"] % 5]) for row in frame.collect()]
    tables.write(
        spark.createDataFrame(rows, tables.schema()).repartition(4),
        path,
        datasource__write__operation="bulk_insert",
        datasource__write__partitionpath__field="category",
        bulkinsert__sort__mode="NONE",
    )
    return path


@pytest.mark.parametrize("metric", ["cosine", "l2", "dot_product"])
def test_identical_vectors_come_in_the_order_of_their_keys(spark, same_vectors, metric, clean_session):
    query = tables.vectors(1, 3)[0].astype(float)
    expected = oracle.nearest(spark.read.format("hudi").load(str(same_vectors)), "emb", query, 30, metric)
    answers = []
    for threads in ("1", "2"):
        spark.conf.set(options.LOCAL_THREADS.key, threads)
        answers += [answer(spark, same_vectors, query, metric=metric, execution=e) for e in ("local", "distributed")]
    assert all(found == answers[0] for found in answers)
    assert [row[1] for row in answers[0]] == [key for _, key, _ in expected]
    spark.conf.set(options.CACHE_MAX_BYTES.key, "0")
    assert answer(spark, same_vectors, query, metric=metric) == answers[0]


def test_clustering_changes_no_bit(spark, same_vectors):
    query = tables.vectors(1, 3)[0].astype(float)
    before = [answer(spark, same_vectors, query, metric=metric) for metric in ("cosine", "l2")]
    spark.sql(f"CALL run_clustering(path => '{same_vectors}', op => 'scheduleAndExecute', order => 'price')").collect()
    after = [answer(spark, same_vectors, query, metric=metric) for metric in ("cosine", "l2")]
    assert after == before


def test_vectors_with_a_large_common_offset(spark, workspace):
    numbers = np.random.default_rng(9)
    vectors = (1e6 + numbers.standard_normal((300, 8))).astype(np.float32)
    rows = [(i, f"name {i}", 1.0, "c", vector.tolist()) for i, vector in enumerate(vectors)]
    path = tables.fresh_path(workspace, "offset")
    tables.write(spark.createDataFrame(rows, tables.schema()), path, datasource__write__operation="bulk_insert")
    query = (1e6 + numbers.standard_normal(8)).astype(float)
    for metric in ("l2", "cosine", "dot_product"):
        exact = oracle.distances(vectors, query, metric)
        found = hv.search(spark, str(path), "emb", query, 10, metric=metric).collect()
        squares = float((query**2).sum() * 2)
        for row, wanted in zip(found, np.sort(exact)[:10], strict=True):
            oracle.assert_close(row["_distance"], wanted, squares)
        if metric == "l2":
            assert [row["id"] for row in found] == np.argsort(exact)[:10].tolist()


def test_zero_vectors_and_null_vectors(spark, workspace):
    rows = [(0, "zero", 1.0, "c", [0.0] * 8), (1, "null", 1.0, "c", None), (2, "one", 1.0, "c", [1.0] * 8)]
    path = tables.fresh_path(workspace, "zero")
    tables.write(spark.createDataFrame(rows, tables.schema()), path, datasource__write__operation="bulk_insert")
    found = hv.search(spark, str(path), "emb", [1.0] * 8, 10).collect()
    assert [(row["id"], round(row["_distance"], 12)) for row in found] == [(2, 0.0), (0, 1.0)]
    report = hv.last_reports()[0]
    assert (report.rows_seen, report.nulls, report.reached_k) == (3, 1, False)
    assert "1 row has no vector" in report.why_fewer
    zero = hv.search(spark, str(path), "emb", [0.0] * 8, 10).collect()
    assert [(row["id"], row["_distance"]) for row in zero] == [(0, 1.0), (2, 1.0)]


def test_secrets_are_absent_from_explain_and_reports(spark, workspace, caplog, clean_session):
    path = tables.fresh_path(workspace, "secret")
    tables.write(tables.frame(spark, range(3)), path)
    spark.conf.set("spark.hadoop.fs.s3a.secret.key", "TOPSECRET")
    spark.conf.set("fs.s3a.secret.key", "TOPSECRET")
    text = hv.explain(hv.search, spark, str(path), "emb", [1.0] * 8)
    frame = hv.search(spark, str(path), "emb", [1.0] * 8)
    frame.collect()
    plan = frame._jdf.queryExecution().toString()
    assert "TOPSECRET" not in text + plan + str(hv.last_reports()[0]) + caplog.text


def test_hudis_statistics_leave_out_no_file_with_rows_that_pass(spark, workspace, clean_session):
    """By default Hudi keeps the least and the greatest text of a file, here B and a, and compares their upper case."""
    path = tables.fresh_path(workspace, "statistics")
    mixed = [(row["id"], "aB"[row["id"] % 2], *row[2:]) for row in tables.frame(spark, range(6)).collect()]
    tables.write(spark.createDataFrame(mixed, tables.schema()), path, metadata__enable="true")
    rows = spark.read.format("hudi").load(str(path))
    condition, query = "upper(name) = 'A'", tables.vectors(1, 3)[0].tolist()
    assert rows.where(condition).count() == 0, "Hudi has mended it"
    rows.where("id >= 0").createOrReplaceTempView("chosen")
    left = spark.createDataFrame([(query,)], "v ARRAY<DOUBLE>")
    found = [hv.search(spark, table, "emb", query, 5, filter=condition) for table in (str(path), "chosen")]
    found += [hv.knn_join(left, right, "v", "emb", 5, condition=condition) for right in (str(path), rows, "chosen")]
    assert [{row["id"] for row in each.collect()} for each in found] == [{0, 2, 4}] * 5
