"""KNN joins with a Lance dataset, and with a right side that is written to temporary files, equal comparing all pairs."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from support import join_oracle

import hudi_vector as hv
from hudi_vector import errors, options

DIMENSION = 4
LEFT = "id LONG, budget DOUBLE, v ARRAY<FLOAT>"
PATH, DIRECTORY = options.JOIN_PATH.key, options.JOIN_TEMP_DIR.key


def rows_of(count, seed, first=0):
    """Rows with few different vectors, so that distances tie; some without a vector, some without a number."""
    numbers = np.random.default_rng(seed)
    found = []
    for i in range(first, first + count):
        vector = None if i % 11 == 3 else [float(x) for x in numbers.integers(-2, 3, DIMENSION)]
        found.append({"id": i, "price": None if i % 7 == 2 else float(numbers.integers(0, 100)), "emb": vector})
    return found


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Rows in several fragments, some deleted, some changed and so moved to the end."""
    path = str(tmp_path_factory.mktemp("right") / "d.lance")
    kind = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("emb", pa.list_(pa.float32(), DIMENSION))])
    lance.write_dataset(pa.Table.from_pylist(rows_of(90, 1), kind), path, max_rows_per_file=25)
    lance.dataset(path).delete("id % 13 = 5")
    lance.dataset(path).update({"price": "7"}, where="id >= 30 AND id < 33")
    return path


@pytest.fixture(scope="module")
def held(dataset):
    return lance.dataset(dataset).to_table().to_pylist()


@pytest.fixture(scope="module")
def left(spark):
    """More rows than the driver would ask for."""
    return spark.createDataFrame([(row["id"], row["price"], row["emb"]) for row in rows_of(80, 2, 1000)], LEFT)


def check(found, left, right, k, metric="l2", **how):
    places = {row["id"]: place for place, row in enumerate(right)}
    how.setdefault("tie", lambda row: places[row["id"]])
    mine = [row.asDict() for row in left.collect()]
    expected = join_oracle.joined(mine, right, k, metric, **how)
    got = [tuple(row) for row in found.select("id", "right_id", "_rank", "_distance").collect()]
    join_oracle.compare(got, expected, "id")


def cheaper(mine, other):
    return None if mine["budget"] is None or other["price"] is None else other["price"] < mine["budget"]


def test_other_routes_to_a_lance_dataset(spark, left, dataset, held, clean_session, tmp_path):
    spark.conf.set(DIRECTORY, str(tmp_path))
    by_columns = lambda row: (row["id"],)  # noqa: E731 - the first column tells all rows apart
    for route in ("broadcast", "temp"):
        spark.conf.set(PATH, route)
        with hv.knn_join(left, dataset, "v", "emb", 3, metric="l2") as found:
            check(found, left, held, 3, tie=by_columns)
    spark.conf.set(PATH, "search")
    with pytest.raises(
        errors.InvalidArgumentError, match="'search' was asked for, and the right side is a Lance dataset"
    ):
        hv.knn_join(left, dataset, "v", "emb", 3)


def test_a_computed_side_is_written_once_and_removed(spark, left, held, clean_session, tmp_path):
    spark.conf.set(PATH, "temp")
    spark.conf.set(DIRECTORY, str(tmp_path))
    rows = [(row["price"], row["emb"], row["id"]) for row in held]
    calls = spark.sparkContext.accumulator(0)
    counted = F.udf(lambda value: (calls.add(1), value)[1], "long").asNondeterministic()
    right = spark.createDataFrame(rows, "price DOUBLE, emb ARRAY<FLOAT>, id LONG").withColumn("id", counted("id"))
    shown = hv.explain(hv.knn_join, left, right, "v", "emb", 3)
    assert "route       temp: as asked" in shown
    assert "Written when the join is made" in shown
    assert not list(tmp_path.iterdir())
    ties = lambda row: (row["price"] is not None, row["price"] or 0, tuple(row["emb"]), row["id"])  # noqa: E731
    found = hv.knn_join(left, right, "v", "emb", 3, metric="l2", condition="price < l.budget OR l.budget IS NULL")
    wanted = {"holds": lambda a, b: True if a["budget"] is None else cheaper(a, b), "tie": ties}
    check(found, left, held, 3, **wanted)
    seen = calls.value
    derived = found.where("_rank = 1").selectExpr("id", "right_id")
    assert derived.count() > 0
    assert calls.value == seen, "the right side is not computed again"
    (folder,) = tmp_path.glob("hudi-vector-temp-*")
    assert list(folder.rglob("*.parquet"))
    found.release()
    assert not list(tmp_path.glob("hudi-vector-temp-*"))
    found.release()


_TYPES = (
    "id % 2 = 0 AS flag", "CAST(id AS SMALLINT) AS short", "CAST(id AS DECIMAL(38, 10)) / 3 AS ratio",
    "IF(id % 3 = 0, NULL, encode(id, 'UTF-8')) AS bytes", "date_add(DATE'1500-01-01', CAST(id AS INT)) AS day",
    "TIMESTAMP'1066-10-14 00:00:00.123456' AS at", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' AS local",
    "make_dt_interval(id, 1, 2, 3.5) AS span", "NULL AS nothing", "array(NULL) AS nothings",
    "named_struct('x', id, 'y', array(named_struct('z', IF(id % 2 = 0, NULL, id)))) AS nested",
    "map(CAST(id AS DECIMAL(12, 3)), array(TIMESTAMP'2001-01-01 00:00:00', NULL)) AS mapped",
)  # fmt: skip


@pytest.mark.parametrize("element", ["FLOAT", "DOUBLE", "TINYINT"])
def test_columns_of_every_type_come_back_as_they_were(spark, left, clean_session, tmp_path, element):
    spark.conf.set(DIRECTORY, str(tmp_path))
    vector = f"transform(sequence(1, {DIMENSION}), n -> CAST((id * n) % 7 - 3 AS {element}))"
    right = spark.range(60).selectExpr("id", f"IF(id % 9 = 4, NULL, {vector}) AS emb", *_TYPES)
    rows = {}
    for route in ("broadcast", "temp"):
        spark.conf.set(PATH, route)
        with hv.knn_join(left, right, "v", "emb", 5, metric="l2") as found:
            rows[route] = found.orderBy("id", "_rank").collect()
    assert len(rows["temp"]) > 300
    assert rows["temp"] == rows["broadcast"]


def test_a_first_vector_without_elements_matches_nothing(spark, left, held, clean_session, tmp_path):
    spark.conf.set(PATH, "temp")
    spark.conf.set(DIRECTORY, str(tmp_path))
    rows = [(-1, []), *((row["id"], row["emb"]) for row in held)]
    right = spark.createDataFrame(rows, "id LONG, emb ARRAY<FLOAT>").coalesce(1)
    with hv.knn_join(left, right, "v", "emb", 3, metric="l2") as found:
        check(found, left, held, 3, tie=lambda row: row["id"])


def test_a_temporary_dataset_that_is_refused(spark, left, clean_session, tmp_path):
    spark.conf.set(PATH, "temp")
    spark.conf.set(DIRECTORY, str(tmp_path))
    right = spark.createDataFrame([(1, [1.0, 2.0, 3.0, 4.0])], "id LONG, emb ARRAY<DOUBLE>")
    empty = right.withColumn("e", F.from_json(F.lit("{}"), "struct<>"))
    with pytest.raises(
        errors.InvalidArgumentError, match=r"'temp' was asked for, and Parquet cannot keep column 'e': Parquet"
    ):
        hv.knn_join(left, empty, "v", "emb", 3)
    spark.conf.set(options.JOIN_TEMP_MAX_BYTES.key, "10")
    with pytest.raises(errors.RefusedError, match=r"more than hoodie.vector.join.temp.max.bytes = 10 bytes"):
        hv.knn_join(left, right, "v", "emb", 3)
    spark.conf.set(DIRECTORY, "viewfs://name/tmp")
    with pytest.raises(errors.UnsupportedTableError, match="'viewfs://' is a scheme that only Spark can read"):
        hv.knn_join(left, right, "v", "emb", 3)
