"""Watched queries on real Structured Streaming: each commit's changes are those of recomputing both rankings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from support import oracle, tables

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

QUERIES = np.array([[0.0] * 8, [1.0] * 8, [-1.0, 1.0] * 4])
K = 5
OPTIONS = {"datasource__write__table__type": "MERGE_ON_READ", "datasource__write__partitionpath__field": "category"}


def write(spark, path, ids, seed, **more):
    tables.write(tables.frame(spark, ids, seed), path, **{**OPTIONS, "compact__inline": "false", **more})


def commits_of(path):
    commits = NativeTable(Source(f"file://{path}", "t")).timeline().commits
    return sorted(commits, key=lambda entry: entry.completed)


def rankings(spark, path, instant):
    """What Spark reads at an instant, ranked by brute force."""
    frame = spark.read.format("hudi").option("as.of.instant", instant.requested).load(str(path)).cache()
    found = [oracle.nearest(frame, "emb", query, K, "l2") for query in QUERIES]
    frame.unpersist()
    return [{(key, part): (rank, far) for rank, (far, key, part) in enumerate(rows, 1)} for rows in found]


def differences(before, after):
    """What changed from one ranking to another, by the words of the documentation: (change, key, ranks)."""
    for row in before.keys() | after.keys():
        (was, far), (now, near) = before.get(row, (None, None)), after.get(row, (None, None))
        if was is None or now is None:
            yield "entered" if was is None else "left", row[0], was, now
        elif was != now or abs(far - near) > 1e-9:
            yield "moved", row[0], was, now


def wanted(spark, path):
    """The changes of every commit after the first, by brute force."""
    commits = commits_of(path)
    ranked = [rankings(spark, path, instant) for instant in commits]
    return [
        (instant.requested, query, *change)
        for (before, after), instant in zip(itertools.pairwise(ranked), commits[1:], strict=True)
        for query in range(len(QUERIES))
        for change in differences(before[query], after[query])
    ]


@pytest.fixture(scope="module")
def watched(spark, workspace):
    """A stream through commits, updates, deletes and a compaction, stopped and started again from its checkpoint."""
    path, sink, checkpoint = (tables.fresh_path(workspace, name) for name in ("watched", "changes", "checkpoint"))
    write(spark, path, range(90), 1)

    def start():
        changes = hv.watch_search(
            spark, str(path), "emb", QUERIES, K, metric="l2", checkpoint=str(checkpoint), unchanged=True
        )
        assert changes.isStreaming
        written = changes.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        return written.trigger(processingTime="200 milliseconds").start(str(sink))

    query = start()
    try:
        write(spark, path, range(20, 50, 3), 2)
        query.processAllAvailable()
        nearest = [int(key) for key, _ in rankings(spark, path, commits_of(path)[-1])[0]]
        write(spark, path, nearest[:2], 3, datasource__write__operation="delete")
        write(spark, path, range(100, 110), 4, compact__inline="true", compact__inline__max__delta__commits="2")
        query.processAllAvailable()
    finally:
        query.stop()
    write(spark, path, range(0, 100, 9), 5)
    query = start()
    try:
        query.processAllAvailable()
        write(spark, path, range(1, 100, 7), 7)
        query.processAllAvailable()
    finally:
        query.stop()
    return path, spark.read.parquet(str(sink)).collect()


def test_every_change_is_that_of_recomputing_both_rankings(spark, watched):
    path, rows = watched
    assert "commit" in {instant.action for instant in commits_of(path)}, "no compaction ran"
    got = [
        (row["instant"], row["query"], row["change"], row["_hoodie_record_key"], row["from_rank"], row["to_rank"])
        for row in rows
        if row["change"] != "unchanged"
    ]
    assert sorted(got, key=repr) == sorted(wanted(spark, path), key=repr)


def test_distances_are_those_of_a_search_at_that_instant(spark, watched):
    path, rows = watched
    last = commits_of(path)[-1]
    found = hv.search(spark, str(path), "emb", QUERIES[1], K, metric="l2").select("_hoodie_record_key", "_distance")
    now = {row[0]: row[1] for row in found.collect()}
    mine = [row for row in rows if row["instant"] == last.requested and row["query"] == 1 and row["to_rank"]]
    assert mine
    assert all(now[row["_hoodie_record_key"]] == row["to_distance"] for row in mine)


def test_every_commit_and_query_is_told_once_and_how(watched):
    path, rows = watched
    told = {(row["instant"], row["query"]): row["computed"] for row in rows}
    assert set(told) == {(c.requested, query) for c in commits_of(path)[1:] for query in range(len(QUERIES))}
    assert set(told.values()) == {"changed files", "search"}
    assert len({tuple(row) for row in rows}) == len(rows)
    compacted = next(c.requested for c in commits_of(path)[1:] if c.action == "commit")
    assert {row["change"] for row in rows if row["instant"] == compacted} == {"unchanged"}


@pytest.mark.soak  # what is a gap has unit tests
def test_a_gap_ends_the_stream_in_one_sentence_or_gives_whole_rankings(spark, workspace):
    path = tables.fresh_path(workspace, "gap")
    cleaning = {"clean__automatic": "true", "clean__commits__retained": "1", "keep__min__commits": "2"}
    for seed in range(4):
        tables.write(tables.frame(spark, range(30), seed), path, **{**cleaning, "keep__max__commits": "3"})

    def stream(**more):
        changes = hv.watch_search(spark, str(path), "emb", QUERIES, 2, metric="l2", start="earliest", **more)
        return changes.writeStream.format("memory").queryName("gap").trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match=r"what the instant \d+ changed in .* cannot be computed"):
        stream().awaitTermination()
    stream(on_gap="snapshot").awaitTermination()
    rows = spark.table("gap").collect()
    first = min(row["instant"] for row in rows)
    assert {row["change"] for row in rows if row["instant"] == first} == {"snapshot"}
    held = {}
    for _, group in itertools.groupby(sorted(rows, key=lambda row: row["completed"]), key=lambda row: row["completed"]):
        found = list(group)
        if found[0]["change"] == "snapshot":
            held = {}
        for row in sorted(found, key=lambda row: row["change"] != "left"):
            key = (row["query"], row["_hoodie_record_key"])
            if row["change"] == "left":
                del held[key]
            else:
                held[key] = row["to_rank"]
    now = rankings(spark, path, commits_of(path)[-1])
    assert held == {(q, key): rank for q in range(3) for (key, _), (rank, _) in now[q].items() if rank <= 2}


def test_wrong_arguments_get_one_sentence(spark, watched):
    path = str(watched[0])
    for more, error, words in (
        ({}, InvalidArgumentError, "start is missing"),
        ({"start": "20010101000000000"}, InvalidArgumentError, "is no completed commit"),
        ({"start": "earliest", "on_gap": "skip"}, InvalidArgumentError, "give fail or snapshot"),
        ({"start": "earliest", "unchanged": 1}, InvalidTypeError, "unchanged must be true or false"),
        ({"start": "earliest", "commits_per_batch": 0}, InvalidArgumentError, "commits_per_batch must be"),
        ({"start": "earliest", "queries": np.ones((2, 3))}, InvalidArgumentError, "has 3 elements"),
        ({"start": "earliest", "queries": np.ones((0, 8))}, InvalidArgumentError, "queries holds no query"),
    ):
        arguments = {"queries": QUERIES, **more}
        with pytest.raises(error, match=words):
            hv.watch_search(spark, path, "emb", **arguments)
