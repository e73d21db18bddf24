"""What a task of a streaming search does, over tables written by hand."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest
from pyspark.accumulators import INT_ACCUMULATOR_PARAM, Accumulator
from support.stream_tasks import answered, asking, now, stream_search
from support.written_table import WrittenTable, brute_force, rows_of

from hudi_vector.errors import (
    DataFileError,
    DimensionMismatchError,
    InstantNotAvailableError,
    SearchTimeoutError,
    UnsupportedTableError,
)
from hudi_vector.query.asking.values import LEFT_MARK
from hudi_vector.read.cache import process_cache
from hudi_vector.read.predicate.nodes import Column, Compare

ROWS = [*rows_of(40, "a", 1), *rows_of(30, "b", 2, first=40)]


@pytest.fixture
def table(tmp_path):
    written = WrittenTable(tmp_path / "t")
    written.commit({("a", "f1"): ROWS[:20], ("a", "f2"): ROWS[20:40], ("b", "f3"): ROWS[40:]})
    return written


def events(numbers, **more):
    vectors = np.random.default_rng(5).standard_normal((1000, 4)).astype(np.float32)
    return [{"number": n, "v": vectors[n].tolist(), **more} for n in numbers]


def expected(event, k=2, rows=ROWS, metric="l2"):
    return [int(key) for _, key, _ in brute_force(rows, event["v"], k, metric)] if event["v"] else []


def ids(answer, number):
    return [row["id"] for row in answer if row["number"] == number and row["_rank"]]


@pytest.mark.parametrize(
    "config",
    [{}, {"async": "true"}, {"async": "true", "max-concurrent-operations": 1}, {"async": True, "output-mode": "ALLOW_UNORDERED"}],
)  # fmt: skip
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
def test_every_row_gets_its_nearest(table, config, metric):
    asked = [*events(range(130)), {"number": 130, "v": None}, {"number": 131, "v": [1.0, float("nan"), 0.0, 0.0]}]
    answer = answered(stream_search(table, metric=metric, **config), asked, now(table))
    numbers = [row["number"] for row in answer]
    if "output-mode" not in config:
        assert numbers == sorted(numbers)
    for event in asked[:-1]:
        assert ids(answer, event["number"]) == expected(event, metric=metric)
    assert [row["_rank"] for row in answer if row["number"] >= 130] == [None, None]
    assert {row["seen"] for row in answer} == {now(table).completed}


def test_rows_of_several_tasks_do_not_matter(table):
    search, asked = stream_search(table, outer=False), events(range(9))
    whole = answered(search, asked, now(table))
    parts = [
        row for start in (0, 4, 5) for row in answered(search, asked[start : {0: 4, 4: 5, 5: 9}[start]], now(table))
    ]
    assert whole == parts
    assert list(search([])) == []
    assert list(search([asking([], now(table))])) == []


def test_what_completed_after_the_moment_is_not_seen(table):
    moment, search = now(table), stream_search(table)
    late = table.next_instant()
    table.begin(late)
    moment_with_pending = now(table)
    table.write_base("a", "f9", late, rows_of(20, "a", 9, first=100))
    table.complete(late)
    [event] = events([3])
    assert ids(answered(search, [event], moment), 3) == expected(event)
    assert ids(answered(search, [event], moment_with_pending), 3) == expected(event)
    both = [*ROWS, *rows_of(20, "a", 9, first=100)]
    assert ids(answered(search, [event], now(table)), 3) == expected(event, rows=both)


def test_a_table_without_commits_has_no_matches(tmp_path):
    empty = WrittenTable(tmp_path / "t")
    assert [row["id"] for row in answered(stream_search(empty), events([1]), now(empty))] == [None]
    assert answered(stream_search(empty, outer=False), events([1]), now(empty)) == []


def test_a_filter_that_depends_on_the_row_that_asks(table):
    least = Column(LEFT_MARK + "least", pa.float64())
    search = stream_search(table, k=3, predicate=Compare(">=", Column("price", pa.float64()), least))
    asked = [
        event for n, least in enumerate([0.0, 50.0, 95.0, 50.0, 1000.0, None]) for event in events([n], least=least)
    ]
    answer = answered(search, asked, now(table))
    for event in asked:
        rows = [row for row in ROWS if event["least"] is not None and row.price >= event["least"]]
        assert ids(answer, event["number"]) == expected(event, 3, rows)
    assert len(answer) == sum(max(1, len(ids(answer, n))) for n in range(6))


def test_nothing_is_read_twice(table, tmp_path):
    search = stream_search(table, **{"max-attempts": 1})
    first = answered(search, events(range(3)), now(table))
    moment = now(table)
    table.path.rename(tmp_path / "away")
    assert answered(search, events(range(3)), moment) == first


def test_the_cache_is_bounded(table):
    answered(stream_search(table, **{"cache-memory": "300"}), events(range(3)), now(table))
    assert process_cache().budget == 300
    assert process_cache().nbytes <= 300


def test_storage_that_is_away_for_a_moment(table, tmp_path):
    moment, away = now(table), tmp_path / "away"
    table.path.rename(away)
    threading.Timer(0.3, lambda: away.rename(table.path)).start()
    patient = stream_search(table, **{"max-attempts": 50, "retry-delay": 50})
    [event] = events([4])
    assert ids(answered(patient, [event], moment), 4) == expected(event)
    table.path.rename(away)
    unread = replace(moment, unseen=("00000000000000000",))  # of the same state, and in no cache
    hasty = stream_search(table, **{"max-attempts": 2, "retry-delay": 0, "cache-memory": 0})
    with pytest.raises(DataFileError, match=r"the row with number = 4, least = None, .* failed 2 times"):
        answered(hasty, [event], unread)


def test_storage_that_never_answers(table):
    moment = now(table)
    search = stream_search(table, **{"cache-memory": 0, "timeout": "300 ms"})
    answered(search, events([1]), moment)
    files = list(table.path.rglob("*.parquet"))
    for file in files:
        file.rename(f"{file}.away")
        os.mkfifo(file)
    begun = time.monotonic()
    with pytest.raises(SearchTimeoutError) as failed:
        answered(search, events([1, 2]), moment)
    assert 0.3 <= time.monotonic() - begun < 5
    said = "the search for 2 rows, the first of them the row with number = 1, least = None, at = None did not end within 0.3"
    assert str(failed.value).startswith(said)
    for file in files:
        os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))


def test_a_vector_of_another_length_is_named_by_its_row(table):
    with pytest.raises(DimensionMismatchError) as refused:
        answered(stream_search(table), [*events([1]), {"number": 2, "v": [1.0], "least": 7.5}], now(table))
    assert str(refused.value) == (
        "the query vector of the row with number = 2, least = 7.5, at = None has 1 element, and column 'emb' of 'written' "
        "has 4; give 4"
    )


def test_a_table_that_only_spark_reads_is_refused(tmp_path):
    written = WrittenTable(tmp_path / "t", properties={"hoodie.datasource.write.drop.partition.columns": "true"})
    written.commit({("a", "f1"): ROWS[:20]})
    with pytest.raises(UnsupportedTableError) as refused:
        answered(stream_search(written), events([1]), now(written))
    assert str(refused.value) == (
        "'written' cannot be searched by a stream now, since it must be read by Spark's own Hudi reader (the table leaves "
        "its partition columns out of the files); compact the table, or search in foreachBatch with hudi_vector.search_batch"
    )


@pytest.fixture
def cleaned(tmp_path):
    """A table of three states, the first of which was cleaned away, and their completion times."""
    written = WrittenTable(tmp_path / "t", partitioned=False)
    states = [rows_of(10, "a", seed) for seed in range(3)]
    instants = [written.commit({("a", "f1"): rows}) for rows in states]
    done = [path.name[18:35] for path in sorted(written.timeline.glob("*_*.commit"))]
    written.remove("a", "f1", instants[0])
    written.complete(written.next_instant(), "clean", earliest=instants[1])
    return written, states, done


def moment_of(digits):
    return datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(("unavailable", "first"), [("nearest", 1), ("none", None)])
def test_snapshots_that_were_cleaned_away(cleaned, unavailable, first):
    written, states, done = cleaned
    asked = [event for n, time in enumerate(done) for event in events([n], at=moment_of(time))]
    lost = Accumulator(0, 0, INT_ACCUMULATOR_PARAM)
    search = stream_search(written, on_time=True, lost=lost, **{"unavailable-snapshot": unavailable})
    answer = answered(search, asked, now(written))
    for event, state in zip(asked, (first, 1, 2), strict=True):
        wanted = [] if state is None else expected(event, rows=states[state])
        assert ids(answer, event["number"]) == wanted
        assert {row["seen"] for row in answer if row["number"] == event["number"]} == {
            None if state is None else done[state]
        }
    assert lost.value == (1 if first is None else 0)


def test_a_snapshot_that_was_cleaned_away_names_the_row(cleaned):
    written, _, done = cleaned
    with pytest.raises(InstantNotAvailableError) as refused:
        answered(stream_search(written, on_time=True), events([0], at=moment_of(done[0])), now(written))
    assert "the files of 'written' at the time of the row with number = 0, least = None, at = 2026-01-01" in str(
        refused.value
    )
    assert (
        answered(stream_search(written, on_time=True), [{"number": 0, "at": moment_of(done[0])}], now(written))[0]["id"]
        is None
    )
