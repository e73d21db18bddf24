"""An indexed table answers in joins, in sessions with a recall target and for every element type as without an index."""

from __future__ import annotations

from operator import itemgetter

import numpy as np
import pytest
from support import streams, tables

import hudi_vector as hv
from hudi_vector import options

DIMENSION, ROWS, K = 16, 1200, 5


def clustered(count: int, seed: int, dimension: int = DIMENSION) -> np.ndarray:
    """Vectors in twelve clusters."""
    numbers = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((12, dimension)) * 3
    return (centres[numbers.integers(0, 12, count)] + numbers.standard_normal((count, dimension))).astype(np.float32)


def nearest(vectors, query, k=K):
    """The row numbers of the nearest by l2, of a brute force in double precision."""
    apart = vectors.astype(np.float64) - np.asarray(query, np.float64)
    return np.argsort(np.einsum("ij,ij->i", apart, apart), kind="stable")[:k].tolist()


VECTORS, QUERIES = clustered(ROWS, 1), clustered(40, 2)[:24]
ASKING = clustered(40, 2)[24:]


def made(spark, workspace, vectors, element="float"):
    rows = [(i, f"n{i}", float(i), f"c{i % 2}", vector.tolist()) for i, vector in enumerate(vectors)]
    path = str(tables.fresh_path(workspace, "everywhere"))
    frame = spark.createDataFrame(rows, tables.schema(vectors.shape[1], element))
    tables.write(frame, path, datasource__write__partitionpath__field="category")
    hv.index.create(spark, path, "emb", metric="l2")
    return path


@pytest.fixture(scope="module")
def indexed(spark, workspace):
    return made(spark, workspace, VECTORS)


@pytest.fixture
def uncached(clean_session):
    """A session whose searches hold no vectors in memory, so that the index is read."""
    clean_session.conf.set("hoodie.vector.cache.max.bytes", "0")
    yield clean_session
    clean_session.conf.unset("hoodie.vector.cache.max.bytes")


def ids(found):
    return [row["id"] for row in found.select("_rank", "id").orderBy("_rank").collect()]


def test_a_search_with_the_sessions_recall_target_uses_the_index(uncached, indexed):
    for query in QUERIES[:5]:
        assert ids(hv.search(uncached, indexed, "emb", query, K, metric="l2")) == nearest(VECTORS, query)
        assert hv.last_reports()[0].slices == {"index": 2}
    uncached.conf.set("hoodie.vector.search.recall.target", "0.95")
    found = [ids(hv.search(uncached, indexed, "emb", query, K, metric="l2")) for query in QUERIES]
    assert hv.last_reports()[0].slices == {"index": 2}
    shares = [len(set(got) & set(nearest(VECTORS, q))) / K for got, q in zip(found, QUERIES, strict=True)]
    assert np.mean(shares) >= 0.9


@pytest.mark.parametrize("most", [None, "10"])
@pytest.mark.parametrize("target", [None, 0.95])
def test_a_join_with_an_indexed_table_finds_the_nearest(uncached, indexed, most, target):
    if most:  # above the limit the index is taken, below it a small table is read whole
        uncached.conf.set(options.JOIN_BROADCAST_MAX_BYTES.key, most)
    uncached.conf.set("hoodie.vector.index.exact.max.queries", "1000")  # more left rows are usually scanned for
    left = uncached.createDataFrame([(i, q.tolist()) for i, q in enumerate(QUERIES)], "lid LONG, v ARRAY<FLOAT>")
    asked = {"metric": "l2", "recall_target": target}
    text = hv.explain(hv.knn_join, left, indexed, "v", "emb", K, **asked)
    assert ("ivf_sq8 for l2" in text) == bool(most or target), text
    pairs = hv.knn_join(left, indexed, "v", "emb", K, **asked).select("lid", "_rank", "id").collect()
    found = [[row["id"] for row in sorted(pairs) if row["lid"] == i] for i in range(len(QUERIES))]
    truth = [nearest(VECTORS, query) for query in QUERIES]
    if target is None:
        assert found == truth
    assert np.mean([len(set(got) & set(true)) / K for got, true in zip(found, truth, strict=True)]) >= 0.9


def test_a_single_search_by_the_index_starts_no_spark_job(uncached, indexed):
    context = uncached.sparkContext
    sql = (
        f"SELECT id FROM hudi_vector_search('{indexed}', 'emb', "
        f"array({', '.join(f'{x}D' for x in QUERIES[0].tolist())}), {K}, 'l2')"
    )
    asked = {
        "python": lambda: hv.search(uncached, indexed, "emb", QUERIES[0], K, metric="l2").select("id").collect(),
        "sql": lambda: uncached.sql(sql).collect(),
    }
    for name, ask in asked.items():
        context.setJobGroup(f"single {name}", "a single indexed search")
        seen = hv.last_reports(100)
        found = [row["id"] for row in ask()]
        assert [report.slices for report in hv.last_reports(100) if report not in seen] == [{"index": 2}]
        context.setLocalProperty("spark.jobGroup.id", None)
        assert sorted(found) == sorted(nearest(VECTORS, QUERIES[0]))
        # The answer is a local relation: to collect its rows and columns needs no job either.
        assert list(context.statusTracker().getJobIdsForGroup(f"single {name}")) == []
    context.setJobGroup("counted", "a job that is seen")
    uncached.range(10).repartition(2).count()
    context.setLocalProperty("spark.jobGroup.id", None)
    assert context.statusTracker().getJobIdsForGroup("counted")


@pytest.mark.parametrize(("element", "dimension"), [("double", 16), ("int8", 16), ("float", 2048)])
def test_every_element_type_and_a_long_vector_are_found_by_the_index(uncached, workspace, element, dimension):
    vectors = clustered(300, 4, dimension)
    vectors = np.clip(vectors * 8, -128, 127).astype(np.int8) if element == "int8" else vectors
    path = made(uncached, workspace, vectors.astype(np.float64) if element == "double" else vectors, element)
    for query in clustered(3, 5, dimension).astype(np.float64) * (8 if element == "int8" else 1):
        answers = []
        for mode in ("exact", "auto"):
            found = hv.search(uncached, path, "emb", query, K, metric="l2", mode=mode)
            answers.append([tuple(row) for row in found.select("_rank", "_distance", "id").collect()])
        assert hv.last_reports()[0].slices == {"index": 2}
        assert answers[0] == answers[1]
        true = nearest(vectors, query)
        far = np.linalg.norm(vectors[true].astype(np.float64) - query, axis=1)
        assert np.allclose([row[1] for row in answers[1]], far)


def by_row(rows):
    """What each row that asked found, by rank."""
    return [
        [row["id"] for row in sorted(rows, key=itemgetter("_rank")) if row["number"] == i] for i in range(len(ASKING))
    ]


def test_a_stream_and_a_dataframe_that_ask_are_answered_by_the_index(clean_session, workspace, indexed):
    spark = clean_session
    source = streams.Files(spark, tables.fresh_path(workspace, "asking"))
    for first in range(0, len(ASKING), 8):  # not more rows in a micro-batch than an index answers exactly
        source.add([{"number": first + i, "v": v.tolist()} for i, v in enumerate(ASKING[first : first + 8])])

    def streamed(**asked):
        rows = source.frame(maxFilesPerTrigger=1)
        query = streams.started(hv.vector_search(rows, indexed, "emb", "v", K, metric="l2", columns=["id"], **asked))
        try:
            return by_row(streams.rows_of(spark, query))
        finally:
            query.stop()

    def at_once(first, **asked):
        rows = spark.read.schema(streams.SCHEMA).parquet(str(source.folder)).where(f"number < {first}").coalesce(1)
        return by_row(hv.vector_search(rows, indexed, "emb", "v", K, metric="l2", columns=["id"], **asked).collect())

    truth = [nearest(VECTORS, query) for query in ASKING]

    def recall(found):
        return np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth, strict=False) if a])

    assert streamed() == truth
    assert at_once(8)[:8] == truth[:8]
    assert recall(streamed(recall_target=0.9)) >= 0.9
    assert recall(at_once(len(ASKING), recall_target=0.9)) >= 0.9
    # Only an index misses rows, and the fewer the more of it is looked at.
    little = {"mode": "approximate", "nprobes": 1, "refine_factor": 1}
    assert 0.1 < recall(streamed(**little)) < 1
    spark.read.schema(streams.SCHEMA).parquet(str(source.folder)).where("number < 8").createOrReplaceTempView("asking")
    found = spark.sql(
        f"SELECT * FROM hudi_vector_search_stream(TABLE(asking), '{indexed}', 'emb', 'v', {K}, metric => 'l2', "
        "columns => array('id'), mode => 'approximate', nprobes => 1, refine_factor => 1, recall_target => 0.9)"
    )
    assert by_row(found.collect()) == at_once(8, **little)
