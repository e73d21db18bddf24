"""Batch search: every query its own nearest rows, whichever way the query set takes."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.errors import PySparkException
from support import oracle, tables

import hudi_vector as hv
from hudi_vector import options

QUERIES = "n INT, v ARRAY<FLOAT>"
K = 5
METRICS = ["cosine", "l2", "dot_product"]


@pytest.fixture(scope="module")
def corpus_path(spark, workspace):
    path = tables.fresh_path(workspace, "corpus")
    tables.write(tables.frame(spark, range(120)), path, datasource__write__table__type="MERGE_ON_READ")
    tables.write(tables.frame(spark, range(0, 120, 10), seed=8), path)
    return path


@pytest.fixture(scope="module")
def corpus(spark, corpus_path):
    name = tables.fresh_name("corpus")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{corpus_path}'")
    return name


@pytest.fixture(scope="module")
def asked(spark, workspace):
    frame = tables.frame(spark, range(1000, 1017), seed=21)
    with_null = frame.unionByName(frame.limit(1).selectExpr("9999L AS id", "name", "price", "category", "NULL AS emb"))
    path = tables.fresh_path(workspace, "asked")
    tables.write(with_null.to(tables.schema()), path, datasource__write__operation="bulk_insert")
    name = tables.fresh_name("asked")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name


@pytest.fixture(scope="module")
def vectors(spark, asked):
    """The queries by their ids."""
    return {row["id"]: row["emb"] for row in spark.table(asked).collect()}


@pytest.fixture(scope="module")
def singles(corpus_path, vectors):
    """The id, the distance and the rank of what a single search without Spark finds, by metric and query."""
    with hv.open(corpus_path, column="emb") as opened:
        return {
            (metric, number): [
                (row["id"], row["_distance"], rank)
                for rank, row in enumerate(opened.search(vector, K, metric=metric, columns=["id"]).rows(), 1)
            ]
            for metric in METRICS
            for number, vector in vectors.items()
            if vector is not None
        }


@pytest.fixture(params=["collected", "spread"])
def way(request, spark, clean_session):
    if request.param == "spread":
        spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, "0")
    return request.param


@pytest.mark.parametrize("metric", METRICS)
def test_a_batch_equals_its_single_queries(spark, corpus, asked, vectors, singles, way, metric):
    found = spark.sql(
        f"SELECT * FROM hudi_vector_search_batch('{corpus}', 'emb', '{asked}', 'emb', {K}, '{metric}')"
    ).collect()
    assert {row["_hudi_query_id"] for row in found} == {number for number, v in vectors.items() if v is not None}
    for number, vector in vectors.items():
        if vector is None:
            continue
        mine = sorted((row for row in found if row["_hudi_query_id"] == number), key=lambda row: row["_rank"])
        assert [(row["id"], row["_distance"], row["_rank"]) for row in mine] == singles[metric, number]
        assert all(row["_hudi_distance"] == row["_distance"] for row in mine)
        assert len({row["_hudi_query_index"] for row in mine}) == 1
    number = min(vectors)
    by_spark = hv.search(spark, corpus, "emb", vectors[number], K, metric=metric).select("id", "_distance", "_rank")
    assert [tuple(row) for row in by_spark.collect()] == singles[metric, number]
    indices = {row["_hudi_query_id"]: row["_hudi_query_index"] for row in found}
    assert len(set(indices.values())) == len(indices)


def test_a_small_set_of_queries_is_small_whatever_spark_believes_of_it(spark, corpus):
    numbers = np.arange(5)
    made = spark.createDataFrame(
        [(int(n), v.tolist()) for n, v in zip(numbers, tables.vectors(5, 6), strict=True)], QUERIES
    )
    assert int(str(made._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())) > 1 << 62
    for asking in (made, made.repartition(2).persist(), made.where("n >= 0").selectExpr("n", "v")):
        found = hv.search_batch(spark, corpus, "emb", asking, "v", 3)
        assert "MapInArrow" not in found._jdf.queryExecution().toString()
        rows = [(row["_hudi_query_index"], row["_rank"]) for row in found.collect()]
        assert rows == [(n, rank) for n in range(5) for rank in (1, 2, 3)]
    many = made.crossJoin(spark.range(3)).drop("id")
    assert "MapInArrow" in hv.search_batch(spark, corpus, "emb", many, "v", 3)._jdf.queryExecution().toString()


def test_the_rows_of_a_set_of_queries_are_counted_no_further_than_they_may_be_many(spark, corpus, clean_session):
    read = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    rows = [(n, [float(n)] * tables.DIMENSION) for n in range(400)]
    slow = spark.createDataFrame(rows, QUERIES).repartition(4).mapInArrow(counted, QUERIES)
    spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, "4KB")
    lazy = spark.createDataFrame(slow.rdd, QUERIES)
    found = hv.search_batch(spark, corpus, "emb", lazy, "v", 1)
    assert "MapInArrow" in found._jdf.queryExecution().toString()
    assert read.value < 400
    assert found.count() == 400


def test_it_equals_hudis_own_batch(spark, corpus, asked):
    arguments = f"'{corpus}', 'emb', '{asked}', 'emb', {K}, 'l2'"
    ours = spark.sql(f"SELECT _hudi_query_id, id, _hudi_distance FROM hudi_vector_search_batch({arguments})").collect()
    native = spark.sql(
        f"SELECT _hudi_query_id, id, _hudi_distance FROM hudi_vector_search_batch_native({arguments})"
    ).collect()
    assert {(row[0], row[1]) for row in ours} == {(row[0], row[1]) for row in native}
    distances = {(row[0], row[1]): row[2] for row in native}
    for row in ours:
        oracle.assert_close(row[2], distances[row[0], row[1]])


def test_columns_and_their_order(spark, corpus, asked, way):
    frame = spark.sql(f"SELECT * FROM hudi_vector_search_batch('{corpus}', 'emb', '{asked}', 'emb', 2)")
    own = [name for name in spark.table(corpus).columns if name != "emb"]
    queries = ["_hudi_query_" + name for name in spark.table(asked).columns if name != "emb"]
    assert frame.columns == [*own, *queries, "_hudi_query_index", "_distance", "_rank", "_hudi_distance"]


def test_arrays_of_queries(spark, corpus, way):
    queries = tables.vectors(9, 4).astype(float)
    queries[4, 2] = np.nan
    found = hv.search_batch(spark, corpus, "emb", queries, k=3).orderBy("_hudi_query_index", "_rank").collect()
    assert sorted({row["_hudi_query_index"] for row in found}) == [0, 1, 2, 3, 5, 6, 7, 8]
    for number in (0, 3, 8):
        single = [row["id"] for row in hv.search(spark, corpus, "emb", queries[number], 3).collect()]
        assert [row["id"] for row in found if row["_hudi_query_index"] == number] == single


def test_filter_distance_and_small_query_blocks(spark, corpus, asked, way, clean_session):
    spark.conf.set(options.BATCH_BLOCK_QUERIES.key, "4")
    found = hv.search_batch(
        spark, corpus, "emb", asked, "emb", 50, metric="l2", filter="category = 'c1'", max_distance=3.0
    ).collect()
    rows = spark.table(corpus).filter("category = 'c1'").collect()
    corpus_vectors = np.array([row["emb"] for row in rows], float)
    for query in spark.table(asked).filter("emb IS NOT NULL").collect():
        expected = oracle.distances(corpus_vectors, np.array(query["emb"]), "l2")
        wanted = {row["id"] for row, distance in zip(rows, expected, strict=True) if distance <= 3.0}
        assert {row["id"] for row in found if row["_hudi_query_id"] == query["id"]} == wanted


def test_distributed_batches(spark, corpus, asked):
    def answer(execution):
        rows = hv.search_batch(spark, corpus, "emb", asked, "emb", 3, execution=execution).collect()
        return [(row["_hudi_query_id"], row["id"], row["_distance"]) for row in rows]

    assert answer("distributed") == answer("local")


def test_a_query_set_that_is_any_plan(spark, corpus, way):
    spark.range(3).createOrReplaceTempView("three")
    found = spark.sql(
        f"SELECT n, _rank, id FROM hudi_vector_search_batch('{corpus}', 'emb', "
        "TABLE(SELECT id AS n, transform(sequence(1, 8), x -> double(x * id)) AS v FROM three WHERE id > 0), 'v', 2)"
    ).collect()
    assert sorted((row["n"], row["_rank"]) for row in found) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    by_query = {n: [row["id"] for row in found if row["n"] == n] for n in (1, 2)}
    assert by_query[1] == by_query[2]  # cosine does not see the length


def test_empty_query_set(spark, corpus, way):
    assert (
        spark.sql(
            f"SELECT * FROM hudi_vector_search_batch('{corpus}', 'emb', TABLE(SELECT id, emb FROM {corpus} WHERE false), "
            "'emb', 2)"
        ).collect()
        == []
    )


def test_query_vectors_of_several_lengths_are_one_sentence(spark, corpus, way):
    mixed = f"TABLE(SELECT array(1D, 2D) AS v UNION ALL SELECT array_repeat(1D, {tables.DIMENSION}) AS v)"
    with pytest.raises(PySparkException) as refused:
        spark.sql(f"SELECT * FROM hudi_vector_search_batch('{corpus}', 'emb', {mixed}, 'v', 2)").collect()
    assert f"of other lengths (such as 2) than {tables.DIMENSION}; give vectors" in str(refused.value)
    assert "query_vectors(" not in str(refused.value)  # no frame of ours
