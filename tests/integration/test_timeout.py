"""The time limit of a search: one sentence in every kind of search, and the same answer where there is time enough."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import IllegalArgumentException, PythonException
from support import tables
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors, events, options
from hudi_vector.metrics.recorder import Recorder
from hudi_vector.read.cache import process_cache

K, ROWS = 3, 20_000
QUERY = [1.0, 0.0, 0.0, 0.0]
STRANGE = "sha1(cast(id AS STRING)) IS NOT NULL"  # only Spark knows this one
SLOW = "aggregate(sequence(1, 5000000 + id), 0L, (a, x) -> a + x) > 0"  # some seconds for a few rows
LATE = (errors.SearchTimeoutError, IllegalArgumentException, PythonException)


@pytest.fixture(scope="module")
def path(spark, workspace):
    made = str(tables.fresh_path(workspace, "timed"))
    vector = "transform(sequence(1, 4), n -> CAST(sin(id * n) AS FLOAT)) emb"
    frame = spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS INT) id", "1L ts", vector)
    hv.write(frame, made, record_key="id", ordering="ts", vectors={"emb": 4}, options=QUICK)
    return made


@pytest.fixture(scope="module")
def asking(spark):
    return spark.createDataFrame([(n, [1.0, float(n), 0.0, 0.0]) for n in range(4)], "n INT, q ARRAY<FLOAT>")


@pytest.fixture
def heard(monkeypatch):
    """What metrics count in a test."""
    recorder = Recorder()
    monkeypatch.setattr(events, "_listener", recorder)
    return recorder.registry


def failures(registry):
    """Searches that failed, by execution, access, the class of the error, and whether their table has a name."""
    found = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name == "hudi_vector_search_failures_total":
                label = sample.labels
                found[label["execution"], label["access"], label["error"], label["table"] != "other"] = sample.value
    return found


RAN = {
    "local": ("local", "parquet"),
    "distributed": ("distributed", "parquet"),
    "by Spark": ("spark", "spark"),
    "over a plan": ("spark", "none"),
    "batch": ("local", "parquet"),
    "hybrid": ("local", "parquet"),
    "hybrid, distributed": ("distributed", "parquet"),
    "join": ("local", "parquet"),
}

SEARCHES = {
    "local": lambda s, p, a, **t: hv.search(s, p, "emb", QUERY, K, execution="local", **t),
    "distributed": lambda s, p, a, **t: hv.search(s, p, "emb", QUERY, K, execution="distributed", **t),
    "by Spark": lambda s, p, a, **t: hv.search(s, p, "emb", QUERY, K, filter=STRANGE, **t),
    "over a plan": lambda s, p, a, **t: hv.search(s, s.read.format("hudi").load(p).distinct(), "emb", QUERY, K, **t),
    "batch": lambda s, p, a, **t: hv.search_batch(s, p, "emb", a, "q", K, **t),
    "hybrid": lambda s, p, a, **t: hv.hybrid_search(s, p, ["emb"], [QUERY], K, **t),
    "hybrid, distributed": lambda s, p, a, **t: hv.hybrid_search(
        s, p, ["emb"], [QUERY], K, execution="distributed", **t
    ),
    "join": lambda s, p, a, **t: hv.knn_join(a, p, "q", "emb", K, **t),
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_that_takes_too_long_ends_with_one_sentence(spark, path, asking, kind, clean_session, heard):
    search = SEARCHES[kind]
    whole = sorted(map(str, search(spark, path, asking).collect()))
    assert sorted(map(str, search(spark, path, asking, timeout="1h").collect())) == whole
    assert sorted(map(str, search(spark, path, asking, timeout=0).collect())) == whole
    process_cache().clear()  # with all in memory a search may end in less than a millisecond
    with pytest.raises(LATE) as late:
        search(spark, path, asking, timeout=1).collect()
    how_far = "" if kind == "over a plan" else r"; \d of \d file slices? and [\d,]+ rows were searched until then"
    assert re.search(rf"did not end within 0\.001 seconds{how_far}; give it more time", str(late.value))
    spark.conf.set(options.TIMEOUT.key, "1ms")
    process_cache().clear()
    with pytest.raises(LATE, match=r"did not end within 0\.001 seconds"):
        search(spark, path, asking).collect()
    assert sorted(map(str, search(spark, path, asking, timeout="1h").collect())) == whole, "the argument counts"
    assert failures(heard) == {(*RAN[kind], "SearchTimeoutError", kind != "over a plan"): 2}, "none runs twice"


def test_in_sql(spark, path, asking, clean_session):
    asking.createOrReplaceTempView("timed_asking")
    call = f"'{path}', 'emb', ARRAY(1.0, 0.0, 0.0, 0.0), {K}"
    stream = f"TABLE(timed_asking), '{path}', 'emb', 'q', {K}"
    assert spark.sql(f"SELECT id FROM hudi_vector_search({call}, timeout => '1h')").count() == K
    assert spark.sql(f"SELECT id FROM hudi_vector_search_stream({stream}, timeout => '1h')").count() == 4 * K
    for statement in (
        f"SELECT id FROM hudi_vector_search({call}, timeout => 1)",
        f"SELECT id FROM hudi_vector_search_batch('{path}', 'emb', 'timed_asking', 'q', {K}, timeout => '1 ms')",
        f"SELECT id FROM hudi_knn_join('timed_asking', '{path}', 'q', 'emb', {K}, timeout => '1 ms')",
        f"SELECT id FROM hudi_hybrid_search('{path}', ARRAY('emb'), ARRAY(ARRAY(1.0, 0.0, 0.0, 0.0)), top_k => {K}, "
        "timeout => '1 ms')",
    ):
        process_cache().clear()
        with pytest.raises(LATE, match=r"did not end within 0\.001 seconds"):
            spark.sql(statement).collect()


def test_jobs_of_spark_are_cancelled(spark, path, clean_session):
    with pytest.raises(LATE, match=r"did not end within 0\.5 seconds"):
        hv.search(spark, path, "emb", QUERY, K, filter=SLOW, timeout="500ms").collect()
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup()]
    assert max(jobs, key=lambda job: job.jobId).status == "FAILED"


@pytest.mark.parametrize("wrong", ["soon", "-1", 1.5, True, -3])
def test_what_is_no_duration_is_refused(spark, path, wrong):
    with pytest.raises(errors.InvalidArgumentError, match="timeout must be a duration such as '30s' or '500 ms'"):
        hv.search(spark, path, "emb", QUERY, K, timeout=wrong)
