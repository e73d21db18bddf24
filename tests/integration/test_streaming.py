"""Streaming search on real streams: each row equals brute force on the snapshot it names."""

from __future__ import annotations

import os
import runpy
import shutil
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812
from support import streams, tables
from support.quick import QUICK
from support.streams import CONFIG, assert_nearest, events, vector

import hudi_vector as hv
from hudi_vector.errors import HudiVectorError

K = 3
MOR = {"datasource__write__table__type": "MERGE_ON_READ"}


@pytest.fixture(scope="module")
def table(spark, workspace):
    """A merge-on-read table whose states are noted."""
    path = tables.fresh_path(workspace, "searched")
    tables.write(tables.frame(spark, range(90)), path, **MOR)
    states = streams.States(spark, path)
    states.note()
    return str(path), states


@pytest.fixture
def source(spark, workspace):
    return streams.Files(spark, tables.fresh_path(workspace, "events"))


@pytest.fixture
def running(spark):
    """Starts queries, and stops them at the end."""
    begun = []

    def start(frame, *more, **options):
        begun.append(streams.started(frame, *more, **options))
        return begun[-1]

    yield start
    for query in begun:
        query.stop()


def test_a_stream_of_files_sees_the_commits_of_a_table_that_changes(spark, table, source, running):
    path, states = table
    found = hv.vector_search(source.frame(), path, "emb", "v", K, config=CONFIG)
    assert found.isStreaming
    query = running(found)
    compact = {"compact__inline": "true", "compact__inline__max__delta__commits": "1"}
    changes = [
        lambda: None,
        lambda: tables.write(tables.frame(spark, range(80, 120), seed=5), path),
        lambda: tables.write(tables.frame(spark, range(20)), path, datasource__write__operation="delete"),
        lambda: tables.write(tables.frame(spark, range(200, 210), seed=6), path, **compact),
    ]
    for number, change in enumerate(changes):
        change()
        newest = states.note()
        source.add(events(range(10 * number, 10 * number + 5)))
        rows = streams.rows_of(spark, query)
        mine = [row for row in rows if row["number"] >= 10 * number]
        assert {row["seen"] for row in mine} == {newest}
        assert len(mine) == 5 * K
    assert len({row["seen"] for row in rows}) == len(changes)
    assert_nearest(rows, states)


def test_batches_filters_views_and_rows_without_a_match(spark, table, clean_session):
    path, states = table
    newest = states.note()
    asked = [*events(range(6)), {"number": 6, "category": "c0", "least": 1.0, "v": None, "at": None}]
    asked += [*events([7], least=5000.0), {**events([8])[0], "v": [float("nan"), *vector(8)[1:]]}]
    rows = spark.createDataFrame(
        [[e["number"], e["v"], e["category"], e["least"], None] for e in asked], streams.SCHEMA
    )
    vectors = {8: None, 6: None}

    def search(**how):
        made = hv.vector_search(rows, how.pop("table", path), "emb", "v", how.pop("k", K), config=CONFIG, **how)
        return made, made.collect()

    def query(number):
        return vectors.get(number, vector(number))

    # A correlated filter beside one that is not; those without a match stay.
    made, got = search(
        join_type="left_outer", metric="l2", filter="price >= l.least AND category = l.category", clash="suffix"
    )
    added = ["score", "_distance", "_rank", "seen"]
    assert made.columns[:5] == ["number", "v", "category", "least", "at"]
    assert made.columns[5:] == [n if n != "category" else "category0" for n in spark.read.format("hudi").load(path).columns
                                if n != "emb"] + added  # fmt: skip
    assert {row["number"] for row in got} == set(range(9))
    assert {row["seen"] for row in got} == {newest}
    assert [row["number"] for row in got if row["_rank"] is None] == [6, 7, 8]
    assert_nearest(
        got,
        states,
        metric="l2",
        query=query,
        wanted=lambda event, row: row["price"] >= event["least"] and row["category"] == event["category"],
    )
    assert all(row["score"] == 1 / (1 + row["_distance"]) for row in got if row["_rank"])

    # A view that renames and filters is the prefilter; `columns` chooses.
    spark.read.format("hudi").load(path).createOrReplaceTempView("whole")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW some AS SELECT id AS i, price AS p, emb FROM "
        "(SELECT * FROM whole WHERE category <> 'c1') WHERE price < 700"
    )
    made, got = search(
        table="some", metric="dot_product", filter="p > 100", columns=["p", "i", "emb"], max_distance=0.5
    )
    assert made.columns == ["number", "v", "category", "least", "at", "p", "i", "emb", *added]
    assert {row["number"] for row in got} <= {0, 1, 2, 3, 4, 5, 7}
    for number in (0, 3, 5):
        mine = [row for row in got if row["number"] == number]
        expected = states.nearest(
            newest, vector(number), K, "dot_product", lambda row: row["category"] != "c1" and 100 < row["price"] < 700
        )
        assert [row["i"] for row in mine] == [i for i, distance in expected if distance <= 0.5]
        assert all(row["score"] == -row["_distance"] for row in mine)

    # The same in SQL, and a map and a list as arguments.
    rows.createOrReplaceTempView("asked")
    sql = spark.sql(
        "SELECT * FROM hudi_vector_search_stream(TABLE(SELECT * FROM asked), 'some', 'emb', 'v', 3, filter => 'p > 100', "
        "metric => 'dot_product', columns => array('p', 'i', 'emb'), max_distance => 0.5, "
        "config => map('snapshot-column', 'seen', 'async', 'true'))"
    )
    assert sql.columns == made.columns
    assert sorted(sql.collect()) == sorted(got)
    for arguments, said in [
        ("asked, 'some', 'emb', 'v', 3", "A column or function parameter with name `asked` cannot be resolved"),
        (
            "TABLE(asked), 'some', 'emb', 'v', 3, config => 'async'",
            "the argument 'config' must be map('key', 'value', …)",
        ),
        ("TABLE(asked), 'some', 'emb', 'v', 3, mode => TABLE(asked)", "the argument 'mode' must be a constant, not a"),
        ("'asked', 'some', 'emb', 'v', 3", "the argument 'input' must be TABLE(a view or query), whose rows ask"),
    ]:
        with pytest.raises(AnalysisException) as refused:
            spark.sql(f"SELECT * FROM hudi_vector_search_stream({arguments})")
        assert said in str(refused.value)

    # The clash of names, the vector among all columns, and a DataFrame as the table.
    made = hv.vector_search(rows, spark.table("whole"), "EMB", "V", 1, include_vector=True)
    assert made.columns[5] == "_hoodie_commit_time"
    assert "_hudi_search_category" in made.columns
    assert "emb" in made.columns
    assert made.select("number", "id").orderBy("number").count() == 7


def test_memory_watermarks_aggregates_and_foreach_batch(spark, table, running):
    path, states = table
    newest = states.note()
    source = streams.Memory(spark)
    stream = source.frame().withWatermark("at", "10 seconds")
    found = hv.vector_search(stream, path, "emb", "v", 2, config={"async": "true", "max-concurrent-operations": 2})
    windows = found.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("rows"), F.max("_rank").alias("k"))
    query = running(windows, outputMode="append")
    seen = []

    def keep(batch, number):
        near = hv.vector_search(batch, path, "emb", "v", 1, config=CONFIG)
        seen.extend(near.select("number", "id", "seen", "_rank", "_distance", "score").collect())

    each = source.frame().writeStream.foreachBatch(keep).start()
    try:
        for seconds in (0, 25, 5, 60):  # the third is late: its window was closed by then
            source.add(
                events([seconds], at=f"2026-01-01 00:00:{seconds:02d}" if seconds < 60 else "2026-01-01 00:01:00")
            )
            query.processAllAvailable()
        each.processAllAvailable()
    finally:
        each.stop()
    rows = spark.table(query.name).orderBy("window").collect()
    assert [(row["window"]["start"].second, row["rows"], row["k"]) for row in rows] == [(0, 2, 2), (20, 2, 2)]
    assert sorted(row["number"] for row in seen) == [0, 5, 25, 60]
    assert {row["seen"] for row in seen} == {newest}
    assert_nearest(seen, states, k=1)


def kept_by_workers(spark, folder):
    """What each of both Python workers may keep, and what it keeps; the empty folder is where they meet."""
    folder.mkdir()

    def cached(batches):
        from hudi_vector.read.cache import process_cache

        (folder / str(os.getpid())).touch()
        end = time.monotonic() + 60
        while len(list(folder.iterdir())) < 2:
            assert time.monotonic() < end, "the other worker was not asked"
            time.sleep(0.01)
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"budget": [process_cache().budget], "held": [process_cache().nbytes]})

    return spark.range(0, 8, 1, 2).mapInArrow(cached, "budget LONG, held LONG").collect()


def test_storage_that_is_away_that_hangs_and_that_is_gone(spark, workspace, source, running):
    path = tables.fresh_path(workspace, "flaky")
    tables.write(tables.frame(spark, range(30)), path)
    away = path.with_name(path.name + "_away")
    patient = {"max-attempts": "40", "retry-delay": "200", "cache-memory": "1KB"}

    def search(**config):
        stream = source.frame().repartition(2)
        return running(hv.vector_search(stream, str(path), "emb", "v", 1, config={**CONFIG, **patient, **config}))

    query = search()
    source.add(events([0]))
    assert len(streams.rows_of(spark, query)) == 1
    path.rename(away)
    back = threading.Timer(1.5, lambda: away.rename(path))
    back.start()
    source.add(events([1]))
    assert [row["number"] for row in streams.rows_of(spark, query)] == [0, 1]
    back.join()
    budgets = kept_by_workers(spark, tables.fresh_path(workspace, "workers"))
    assert 1024 in {row["budget"] for row in budgets}
    assert all(row["held"] <= row["budget"] for row in budgets)
    query.stop()

    # Opening a pipe waits for somebody who writes to it; every worker has listed the files by then.
    waiting = search(timeout="1 s")
    for number in (2, 4, 6):
        source.add(events([number, number + 1]))
        waiting.processAllAvailable()
    files = [file for file in path.iterdir() if file.name.endswith(".parquet")]
    for file in files:
        file.rename(f"{file}.away")
        os.mkfifo(file)
    source.add(events([8]))
    with pytest.raises(StreamingQueryException) as failed:
        waiting.processAllAvailable()
    told = "the search for the row with number = 8, category = 'c2', least = 500.0 "
    assert told + "did not end within 1 seconds; set the config key 'timeout' to a longer time" in str(failed.value)
    for file in files:
        os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))

    hasty = search(**{"max-attempts": 2, "retry-delay": 0})
    path.rename(away)
    source.add(events([9]))
    with pytest.raises(StreamingQueryException) as failed:
        hasty.processAllAvailable()
    assert " failed 2 times: " in str(failed.value)


def test_the_example_of_digits(spark, tmp_path):
    example = runpy.run_path(str(Path(__file__).parents[2] / "docs/examples/streaming_digits.py"))
    rounds = example["classify"](spark, tmp_path, rounds=2)
    assert [(row["labelled"], row["asked"]) for row in rounds] == [(10, 50), (70, 50)]
    assert rounds[0]["right"] + 0.2 < rounds[1]["right"] < 1
    assert example["draw"](rounds, tmp_path / "chart.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "how", "said"),
    [
        (("emb", "number", 1), {}, "column 'number' of 'the stream' is BIGINT; a search needs a VECTOR or an array"),
        (("emb", "nothing", 1), {}, "column 'nothing' does not exist in 'the stream'"),
        (("embs", "v", 1), {}, "column 'embs' does not exist in "),
        (("emb", "v", 0), {}, "k must be a whole number from 1 to 100000, not 0"),
        (("emb", "v", 1), {"config": {"retries": 1}}, "unknown config key 'retries'; the keys are "),
        (("emb", "v", 1), {"join_type": "outer"}, "unknown join_type 'outer'; give 'inner' or 'left_outer'"),
        (("emb", "v", 1), {"clash": "none"}, "unknown clash 'none'; give 'prefix' or 'suffix'"),
        (("emb", "v", 1), {"metric": "manhattan"}, "unknown metric 'manhattan'"),
        (("emb", "v", 1), {"mode": "fast"}, "unknown mode 'fast'"),
        (("emb", "v", 1), {"nprobes": 0, "mode": "approximate"}, "nprobes must be a whole number, 1 or more, not 0"),
        (("emb", "v", 1), {"nprobes": 4}, "nprobes gives up exactness, and nothing asked for that"),
        (("emb", "v", 1), {"refine_factor": "2"}, "refine_factor must be a whole number, 1 or more, not '2'"),
        (("emb", "v", 1), {"recall_target": 1.5}, "recall_target must be a number above 0, up to 1, not 1.5"),
        (("emb", "v", 1), {"columns": ["nme"]}, "column 'nme' does not exist in "),
        (("emb", "v", 1), {"group_by": "v"}, "column 'v' does not exist in "),
        (("emb", "v", 1), {"group_nulls": "drop"}, "group_nulls needs group_by"),
        (("emb", "v", 1), {"filter": "price > l.most"}, "No such struct field `most` in `number`, `v`"),
        (("emb", "v", 1), {"filter": "l IS NULL"}, "names the rows that ask as a whole; name a column of theirs"),
        (("emb", "v", 1), {"filter": "hash(id) = 1"}, "cannot be used in a stream: "),
    ],
)
def test_wrong_input_is_one_sentence(spark, table, source, arguments, how, said):
    with pytest.raises(HudiVectorError) as refused:
        hv.vector_search(source.frame(), table[0], *arguments, **how)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_filtered_table_is_searched_as_it_is_never_as_it_was(spark, table):
    path, _ = table
    asked = spark.createDataFrame(
        [[e["number"], e["v"], e["category"], e["least"], None] for e in events([1])], streams.SCHEMA
    )
    whole = spark.read.format("hudi").load(path)
    assert hv.vector_search(asked, whole.where("1 = 2"), "emb", "v", 1).count() == 0
    assert hv.vector_search(asked, whole.where("1 = 1"), "emb", "v", 1).count() == 1
    then = spark.read.format("hudi").option("as.of.instant", "20990101000000000").load(path)
    for side in (then, then.where("price > 1")):
        with pytest.raises(
            HudiVectorError, match="is read as of 20990101000000000, and a stream searches what is there"
        ):
            hv.vector_search(asked, side, "emb", "v", 1)


def test_wrong_tables_and_vectors_are_one_sentence(spark, table, source, running, clean_session):
    path, _ = table
    spark.read.format("hudi").load(path).createOrReplaceTempView("whole")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW joined AS SELECT a.* FROM whole a JOIN whole b ON a.id = b.id")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW odd AS SELECT * FROM whole WHERE hash(id) = 1")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW computed AS SELECT id + 1 AS id, emb FROM whole")
    stream = source.frame()
    for name, said in [
        ("joined", "'joined' cannot be searched by a stream: a Join is between the name and the table; name the "
                   "table itself, or join the stream's rows with hudi_vector.knn_join in foreachBatch"),
        ("odd", "'odd' cannot be searched by a stream: Murmur3Hash is evaluated by Spark only; filter by comparisons"),
        ("computed", "'computed' cannot be searched by a stream: the view computes "),
        ("nowhere", "there is no table, view or path 'nowhere'"),
    ]:  # fmt: skip
        with pytest.raises(HudiVectorError, match=said.replace("(", r"\(")):
            hv.vector_search(stream, name, "emb", "v", 1)
    with pytest.raises(
        HudiVectorError, match="the stream has a column 'score', the name of a column that the search adds"
    ):
        hv.vector_search(stream.withColumnRenamed("least", "score"), path, "emb", "v", 1)

    query = running(hv.vector_search(stream, path, "emb", "v", 1))
    source.add([*events([1]), {**events([2])[0], "v": [1.0, 2.0]}])
    with pytest.raises(StreamingQueryException) as failed:
        query.processAllAvailable()
    assert (
        "the query vector of the row with number = 2, category = 'c2', least = 500.0 has 2 elements, and column 'emb' of"
        in str(failed.value)
    )
    assert "1.0, 2.0" not in str(failed.value)


def test_a_restart_writes_every_row_once(spark, workspace, table, source):
    path, _ = table
    target, checkpoint = tables.fresh_path(workspace, "found"), tables.fresh_path(workspace, "checkpoint")
    options = {
        "hoodie.table.name": "found",
        "hoodie.datasource.write.recordkey.field": "key",
        "hoodie.datasource.write.operation": "insert",
        **QUICK,
    }

    def run():
        found = hv.vector_search(source.frame(), path, "emb", "v", 2, columns=["id"])
        found = found.withColumn("key", F.concat_ws("-", "number", "_rank"))
        writer = found.writeStream.format("hudi").options(**options).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(str(target))
        query.awaitTermination()

    source.add(events(range(4)))
    run()
    source.add(events(range(4, 9)))
    # The driver died after the batch was planned and written, before it was noted as done.
    shutil.rmtree(checkpoint / "commits")
    run()
    rows = spark.read.format("hudi").load(str(target)).collect()
    assert sorted((row["number"], row["_rank"]) for row in rows) == [(n, rank) for n in range(9) for rank in (1, 2)]
