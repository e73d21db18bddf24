"""The metric hamming in every kind of search, beside Python's own counts."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.errors import IllegalArgumentException
from support import tables
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors, options

ROWS, K = 60, 5
QUERIES = np.random.default_rng(8).integers(-128, 128, (2, 4))
TYPES = "id INT, price DOUBLE, ts LONG, floats ARRAY<FLOAT>, bits ARRAY<BYTE>"


def bits_of(seed, count):
    return np.random.default_rng(seed).integers(-128, 128, (count, 4))


@pytest.fixture(scope="module")
def path(spark, workspace):
    """A merge-on-read table of two files; a third of its rows is changed in log files."""
    made = str(tables.fresh_path(workspace, "hamming"))
    for seed, ids in ((1, range(ROWS)), (2, range(0, ROWS, 3))):
        rows = [(i, float(i), seed, [1.0, 2.0], bits_of(seed, ROWS)[i].tolist()) for i in ids]
        frame = spark.createDataFrame(rows, TYPES).repartition(2)
        how = {"operation": "bulk_insert"} if seed == 1 else {}
        layout = {"record_key": "id", "ordering": "ts", "table_type": "mor", "options": QUICK}
        hv.write(frame, made, vectors={"bits": (4, "int8")}, **layout, **how)
    return made


def nearest(query, keep=lambda _: True):
    first, second = bits_of(1, ROWS), bits_of(2, ROWS)
    vectors = {i: second[i] if i % 3 == 0 else first[i] for i in range(ROWS) if keep(i)}
    counts = {
        i: sum(((int(a) ^ int(b)) & 0xFF).bit_count() for a, b in zip(v, query, strict=True))
        for i, v in vectors.items()
    }
    return sorted((count, str(i)) for i, count in counts.items())[:K]


def pairs(rows, distance="_distance"):
    return [(row[distance], str(row["id"])) for row in rows]


def test_every_kind_of_search(spark, path, clean_session):
    query = QUERIES[0]
    for execution in ("local", "distributed"):
        found = hv.search(
            spark, path, "bits", query.tolist(), K, metric="hamming", filter="price < 50", execution=execution
        )
        assert pairs(found.collect()) == nearest(query, lambda i: i < 50)
    strange = "sha1(cast(id AS STRING)) IS NOT NULL"  # only Spark knows this one
    assert pairs(
        hv.search(spark, path, "bits", query.tolist(), K, metric="hamming", filter=strange).collect()
    ) == nearest(query)
    numbers = ", ".join(map(str, query.tolist()))
    sql = f"SELECT id, _distance FROM hudi_vector_search('{path}', 'bits', ARRAY({numbers}), {K}, 'hamming')"
    assert pairs(spark.sql(sql).collect()) == nearest(query)

    asked = spark.createDataFrame([(n, q.tolist()) for n, q in enumerate(QUERIES)], "n INT, q ARRAY<BYTE>")
    asked.createOrReplaceTempView("hamming_asked")
    batch = spark.sql(f"SELECT * FROM hudi_vector_search_batch('{path}', 'bits', 'hamming_asked', 'q', {K}, 'hamming')")
    joined = {
        "batch": batch.collect(),
        "stream": hv.vector_search(asked, path, "bits", "q", K, metric="hamming").collect(),
    }
    for route in ("search", "broadcast", "crossjoin"):
        spark.conf.set(options.JOIN_PATH.key, route)
        joined[route] = hv.knn_join(asked, path, "q", "bits", K, metric="hamming").collect()
    for name, rows in joined.items():
        for number, each in enumerate(QUERIES):
            mine = sorted((row for row in rows if row["n"] == number), key=lambda row: row["_rank"])
            assert pairs(mine) == nearest(each), name

    best = hv.hybrid_search(
        spark,
        path,
        ["bits", "floats"],
        [query.tolist(), [1.0, 2.0]],
        k=K,
        metrics=["hamming", "l2"],
        weights=[1.0, 0.0],
    ).collect()
    assert pairs(best, "_distance_bits") == nearest(query)
    assert [row["score"] for row in best] == [1.0 / (1.0 + count) for count, _ in nearest(query)]


def test_what_holds_no_bits(spark, path):
    for ask in (
        lambda: hv.search(spark, path, "floats", [1.0, 2.0], K, metric="hamming"),
        lambda: hv.hybrid_search(spark, path, ["floats"], [[1.0, 2.0]], k=K, metrics="hamming"),
        lambda: hv.vector_search(
            spark.range(1).selectExpr("array(1f, 2f) AS q"), path, "floats", "q", K, metric="hamming"
        ),
        lambda: hv.knn_join(spark.range(1).selectExpr("array(1f, 2f) AS q"), path, "q", "floats", K, metric="hamming"),
    ):
        with pytest.raises(
            errors.InvalidArgumentError, match="hamming compares vectors of INT8, and column 'floats' holds FLOAT"
        ):
            ask()
    with pytest.raises(IllegalArgumentException, match="the metric hamming compares bits"):  # as Spark plans the rows
        hv.search(spark, path, "bits", [0.5, 0, 0, 0], K, metric="hamming").collect()
    with pytest.raises(errors.InvalidArgumentError, match="no kind of index serves the metric hamming"):
        hv.index.create(spark, path, "bits", metric="hamming")
