"""Columns with names that SQL has to quote: searched, joined, filtered, written, and read as blobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType
from support import tables
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import options
from hudi_vector.errors import HudiVectorError

ROWS, K = 6, 2
VECTORS = tables.vectors(ROWS, 5, 3).astype(np.float64)
NAMES = st.lists(
    st.text(st.sampled_from("ab`. -é漢'\"%"), min_size=1, max_size=5).filter(str.strip),
    min_size=3,
    max_size=3,
    unique_by=str.lower,
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture(scope="module")
def path(spark, workspace):
    path = tables.fresh_path(workspace, "odd")
    rows = [(i, 10 * i, vector.tolist()) for i, vector in enumerate(VECTORS)]
    frame = spark.createDataFrame(rows, "id LONG, c LONG, emb ARRAY<DOUBLE>")
    tables.write(frame, path, datasource__write__operation="bulk_insert")
    return str(path)


def views(spark, path, names):
    """The table's columns under these names: as they are stored, and computed, so that Spark has to read them."""
    stored = spark.read.format("hudi").load(path)
    shown = [f"{column} AS {quoted(name)}" for column, name in zip(("id", "c", "emb"), names, strict=True)]
    stored.selectExpr(*shown).createOrReplaceTempView("odd_stored")
    stored.where("id + 0 >= 0").selectExpr(*shown).createOrReplaceTempView("odd_computed")
    return "odd_stored", "odd_computed"


def nearest(key: int, fewest: int = 0) -> list[int]:
    order = np.argsort(np.linalg.norm(VECTORS - VECTORS[key], axis=1), kind="stable")
    return [int(other) for other in order if other >= fewest][:K]


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(names=NAMES, spread=st.booleans())
@example(names=["a.b", "c`d e", "é'"], spread=True)
def test_searches_and_joins(spark, clean_session, path, names, spread):
    spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, "0" if spread else "1g")
    key, value, vector = names
    for view in views(spark, path, names):
        condition = f"{quoted(value)} >= 20"
        found = hv.search(spark, view, vector, VECTORS[3], K, metric="l2", filter=condition, columns=[value, key])
        assert found.columns == [value, key, "_distance"]
        assert [row[1] for row in found.collect()] == nearest(3, 2)
        many = hv.search_batch(spark, view, vector, view, vector, K, metric="l2")
        rows = many.select(quoted("_hudi_query_" + key), "_rank", quoted(key), quoted(value)).collect()
        assert sorted((row[0], row[1], row[2], row[3]) for row in rows) == [
            (asking, rank, near, 10 * near) for asking in range(ROWS) for rank, near in enumerate(nearest(asking), 1)
        ]
        joined = hv.knn_join(
            view, view, vector, vector, K, metric="l2", condition=f"r.{condition} AND l.{quoted(value)} >= 0",
            rank_column="rank #", distance_column="far `away`",
        )  # fmt: skip
        rows = joined.select(quoted(key), "`rank #`", quoted("right_" + key)).collect()
        assert sorted(tuple(row) for row in rows) == [
            (asking, rank, near) for asking in range(ROWS) for rank, near in enumerate(nearest(asking, 2), 1)
        ]


@pytest.mark.parametrize("route", ["broadcast", "crossjoin", "search"])
def test_routes_of_a_join(spark, clean_session, path, route):
    names = ["a.b", "c`d", "é f"]
    spark.conf.set(options.JOIN_PATH.key, route)
    stored, _ = views(spark, path, names)
    found = hv.knn_join(stored, stored, "é f", "é f", K, metric="l2", exclude_self=["a.b"], join_type="left_outer")
    rows = found.select("`a.b`", "`right_a.b`", "`right_c``d`").collect()
    assert all(row[0] != row[1] and row[2] == 10 * row[1] for row in rows)
    assert len(rows) == K * ROWS


def test_parquet_files(spark, clean_session, workspace):
    folder = str(tables.fresh_path(workspace, "odd_files"))
    names = ["k y", "v`l", "é.漢"]
    fields = [StructField(name, LongType()) for name in names[:2]] + [StructField(names[2], ArrayType(DoubleType()))]
    rows = [(i, 10 * i, vector.tolist()) for i, vector in enumerate(VECTORS)]
    spark.createDataFrame(rows, StructType(fields)).coalesce(1).write.parquet(folder)
    files = spark.read.parquet(folder)
    found = hv.knn_join(files, files, names[2], names[2], K, metric="l2", condition="r.`v``l` >= 20")
    rows = found.select("`k y`", "`_rank`", "`right_k y`").collect()
    assert sorted(tuple(row) for row in rows) == [
        (asking, rank, near) for asking in range(ROWS) for rank, near in enumerate(nearest(asking, 2), 1)
    ]
    asked = hv.vector_search(files, views(spark, _of(spark, workspace), ["id", "c", "emb"])[0], "emb", names[2], 1)
    assert asked.count() == ROWS


def _of(spark, workspace):
    path = tables.fresh_path(workspace, "odd_streamed")
    rows = [(i, 10 * i, vector.tolist()) for i, vector in enumerate(VECTORS)]
    tables.write(spark.createDataFrame(rows, "id LONG, c LONG, emb ARRAY<DOUBLE>"), path)
    return str(path)


def test_blobs_of_a_dataframe(spark):
    names = ["a b", "a`b", "a.b", "é漢"]
    rows = spark.createDataFrame([(1, b"one"), (2, b"two"), (3, None)], "id INT, bytes BINARY").coalesce(1)
    rows = rows.select("id", *(hv.to_blob(F.col("bytes")).alias(name) for name in names))
    named = {name: f"b`y.tes {name}" for name in names}
    inner = rows.select("id", F.struct(F.col(quoted("a.b")).alias("in `side`")).alias("doc"))
    for found, shown in (
        (hv.read_blobs(rows, names), names),
        (hv.read_blobs(rows, names, as_=named), list(named.values())),
        (hv.read_blobs(inner, "doc.in `side`").select("id", "doc.*"), ["in `side`"]),
    ):
        read = sorted(found.collect(), key=lambda row: row["id"])
        for name in shown:
            assert [row[name] for row in read] == [b"one", b"two", None]


@pytest.mark.parametrize("name", ["größe", "a b", "a`b", "a.b"])
def test_a_write_takes_a_name_or_says_why_not(spark, workspace, name):
    path = str(tables.fresh_path(workspace, "odd_written"))
    fields = [StructField("id", LongType()), StructField(name, ArrayType(DoubleType()))]
    frame = spark.createDataFrame([(i, v.tolist()) for i, v in enumerate(VECTORS)], StructType(fields))
    try:
        hv.write(frame, path, record_key="id", vectors={name: 3}, operation="bulk_insert", options=QUICK)
    except HudiVectorError as refused:
        assert name != "größe"
        assert name in str(refused)
        assert "\n" not in str(refused)
        return
    found = hv.search(spark, path, name, VECTORS[2], K, metric="l2", columns=["id"])
    assert [row["id"] for row in found.collect()] == nearest(2)
