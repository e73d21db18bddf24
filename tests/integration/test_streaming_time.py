"""Streaming search as of each row's time, and micro-batches that run again at the snapshot they had."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from support import streams, tables
from support.streams import CONFIG, assert_nearest, events, vector

import hudi_vector as hv
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, InvalidTypeError
from hudi_vector.streaming.snapshots import batch_snapshots as moments
from hudi_vector.table.instants import as_timeline_time, zone_info
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

MILLISECOND = timedelta(milliseconds=1)


def moment_of(spark, completed):
    """The time of a completion as the session's clock shows it, which is in UTC."""
    zone = str(spark._jvm.java.util.TimeZone.getDefault().getID())
    local = datetime.strptime(completed[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone_info(zone))
    moment = local.astimezone(timezone.utc) + timedelta(milliseconds=int(completed[14:]))
    assert as_timeline_time(int(moment.timestamp() * 1000) * 1000, zone) == completed
    return moment.replace(tzinfo=None)


@pytest.fixture(scope="module")
def history(spark, workspace):
    """A table of five states, none of them cleaned away."""
    path = tables.fresh_path(workspace, "history")
    states = streams.States(spark, path)
    for number in range(5):
        tables.write(
            tables.frame(spark, range(10 * number, 10 * number + 20), seed=number), path, clean__automatic="false"
        )
        states.note()
    return str(path), states


def asked(spark, states):
    """Rows at the boundaries of every state, one before all of them and one without a time."""
    rows = [(100, vector(100), None, None, None)]
    expected = {100: None}
    known = [None, *states.rows]
    for number, completed in enumerate(states.rows):
        time = moment_of(spark, completed)
        rows.append((2 * number, vector(2 * number), None, None, time - MILLISECOND))
        rows.append((2 * number + 1, vector(2 * number + 1), None, None, time))
        expected |= {2 * number: known[number], 2 * number + 1: completed}
    return rows, expected


def test_each_row_is_answered_as_of_its_time(spark, history):
    path, states = history
    rows, expected = asked(spark, states)
    frame = spark.createDataFrame(rows, streams.SCHEMA)
    for stream in (frame, frame.withColumn("at", F.to_timestamp_ntz(F.col("at").cast("string")))):
        found = hv.vector_search(stream, path, "emb", "v", 3, on_time="AT", join_type="left_outer", config=CONFIG)
        assert found.columns[-2:] == ["rowtime", "seen"]
        assert found.schema["rowtime"].dataType == stream.schema["at"].dataType
        got = found.collect()
        assert {row["number"]: row["seen"] for row in got} == expected
        assert all(row["rowtime"] == row["at"] for row in got)
        assert_nearest([row for row in got if row["seen"]], states)
        assert {row["number"]: row["_rank"] for row in got if row["seen"] is None} == {100: None, 0: None}


def test_a_stream_keeps_its_watermark_as_rowtime(spark, workspace, history):
    path, states = history
    rows, expected = asked(spark, states)
    source = streams.Memory(spark)
    stream = source.frame().withWatermark("at", "0 seconds")
    found = hv.vector_search(stream, path, "emb", "v", 2, on_time="at", columns=["id"], config=CONFIG)
    found = found.dropDuplicatesWithinWatermark(["number", "_rank"])
    query = streams.started(found, outputMode="append")
    try:
        for number, vector_, _, _, time in rows:
            source.add([{"number": number, "v": vector_, "at": time}])
        got = streams.rows_of(spark, query)
        assert {row["number"]: row["seen"] for row in got} == {n: seen for n, seen in expected.items() if seen}
        assert_nearest(sorted(got, key=lambda row: row["_rank"]), states, k=2)
        assert query.lastProgress["eventTime"]["watermark"].startswith(f"{rows[-1][4]:%Y-%m-%dT%H:%M:%S}")
    finally:
        query.stop()


def test_snapshots_that_were_cleaned_away(spark, workspace):
    path = tables.fresh_path(workspace, "cleaned")
    states = streams.States(spark, path)
    for number in range(4):
        clean = {"clean__automatic": "true", "cleaner__commits__retained": "1"} if number == 3 else {}
        tables.write(tables.frame(spark, range(20), seed=number), path, **{"clean__automatic": "false", **clean})
        states.note()
    kept = list(states.rows)
    times = [moment_of(spark, completed) for completed in kept]
    rows = [(n, vector(n), None, None, time) for n, time in enumerate([times[0] - MILLISECOND, *times])]
    frame = spark.createDataFrame(rows, streams.SCHEMA)

    def search(unavailable, wanted="true"):
        config = {**CONFIG, "unavailable-snapshot": unavailable}
        return hv.vector_search(frame.where(wanted), str(path), "emb", "v", 2, on_time="at", config=config).collect()

    with pytest.raises(PySparkException) as failed:
        search("fail", "number < 2")
    assert "at the time of the row with number = 1, category = None, least = None were cleaned away; " in str(
        failed.value
    )
    assert "; set the config key 'unavailable-snapshot' to nearest or none" in str(failed.value)
    oldest = next(completed for completed in kept if _is_there(path, completed))
    assert oldest > kept[0]
    nearest = search("nearest")
    assert {row["number"]: row["seen"] for row in nearest} == {
        number + 1: max(completed, oldest) for number, completed in enumerate(kept)
    }
    assert_nearest(nearest, states, k=2)
    none = search("none")
    assert {row["number"]: row["seen"] for row in none} == {
        number + 1: completed for number, completed in enumerate(kept) if completed >= oldest
    }
    assert_nearest(none, states, k=2)


def _is_there(path, completed):
    from hudi_vector.errors import InstantNotAvailableError
    from hudi_vector.table.instants import Moment

    try:
        NativeTable(Source(f"file://{path}", "t")).snapshot(Moment(completed).as_of)
    except InstantNotAvailableError:
        return False
    return True


@pytest.mark.parametrize("pins", [True, False])
def test_a_batch_that_runs_again_has_the_snapshot_it_had(spark, workspace, pins):
    path, checkpoint = tables.fresh_path(workspace, "pinned"), tables.fresh_path(workspace, "checkpoint")
    source = streams.Files(spark, tables.fresh_path(workspace, "events"))
    tables.write(tables.frame(spark, range(10)), path)
    states = streams.States(spark, path)
    first = states.note()
    source.add(events(range(3)))
    seen = []

    def run():
        found = hv.vector_search(source.frame(), str(path), "emb", "v", 2, config={**CONFIG, "pin-snapshot": pins})
        writer = found.writeStream.foreachBatch(lambda batch, _: seen.append(batch.collect()))
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    run()
    tables.write(tables.frame(spark, range(10, 20), seed=3), path)
    second = states.note()
    shutil.rmtree(checkpoint / "commits")  # the driver died before the batch was noted as done
    moments._OF_BATCHES.forget(lambda _: True)  # and with it what it had in memory
    run()
    before, after = seen
    assert {row["seen"] for row in before} == {first}
    assert {row["seen"] for row in after} == {first if pins else second}
    assert (sorted(before) == sorted(after)) is pins
    assert_nearest(after, states, k=2)
    if pins:
        name = tables.fresh_name("pinned")
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        commits = NativeTable(Source(f"file://{path}", "t")).timeline().commits
        for commit in reversed(commits):
            spark.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{commit.requested}')").collect()
        tables.write(tables.frame(spark, range(5)), path)
        shutil.rmtree(checkpoint / "commits")
        moments._OF_BATCHES.forget(lambda _: True)
        with pytest.raises(
            Exception, match=f"batch 0 was searched in '.*' with the commit {commits[0].requested}, which"
        ):
            run()


def test_times_that_are_none(spark, history, workspace):
    path, _ = history
    stream = streams.Files(spark, tables.fresh_path(workspace, "events")).frame()
    for column, error, said in [
        (
            "at",
            InvalidArgumentError,
            "on_time takes the stream's event time, and its column 'at' has no watermark; call",
        ),
        ("number", InvalidTypeError, "on_time takes a TIMESTAMP, and the stream's column 'number' is BIGINT; cast it"),
        ("when", InvalidArgumentError, "column 'when' does not exist in 'the stream'"),
    ]:
        with pytest.raises(error, match=said):
            hv.vector_search(stream, path, "emb", "v", 1, on_time=column)
    batch = spark.createDataFrame([], streams.SCHEMA)
    with pytest.raises(HudiVectorError, match="the config key 'pin-snapshot' is for streams"):
        hv.vector_search(batch, path, "emb", "v", 1, config={"pin-snapshot": True})


@pytest.mark.soak
def test_a_driver_that_is_killed_again_and_again(spark, workspace):
    """Every row is written once, however often the driver dies, and as the snapshot of its micro-batch has it."""
    path = tables.fresh_path(workspace, "searched")
    tables.write(tables.frame(spark, range(40)), path)
    source = streams.Files(spark, tables.fresh_path(workspace, "events"))
    numbers = range(60)
    for number in numbers[::2]:
        source.add(events([number, number + 1]))
    target, checkpoint = tables.fresh_path(workspace, "found"), tables.fresh_path(workspace, "checkpoint")
    command = [sys.executable, str(Path(streams.__file__).with_name("stream_driver.py"))]
    command += [str(source.folder), str(path), str(target), str(checkpoint)]
    killed = 0
    while True:
        driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path(hv.__file__).parents[1])})
        begun = len(list(checkpoint.glob("offsets/[0-9]*")))
        while driver.poll() is None:
            time.sleep(0.05)
            if killed < 3 and len(list(checkpoint.glob("offsets/[0-9]*"))) > begun + killed + 1:
                driver.kill()
                killed += 1
        if driver.wait() == 0:
            break
    assert killed == 3
    rows = spark.read.parquet(str(target)).collect()
    assert sorted((row["number"], row["_rank"]) for row in rows) == [(n, rank) for n in numbers for rank in (1, 2)]
    states = streams.States(spark, path)
    newest = states.note()
    for number in numbers:
        got = sorted((row["_rank"], row["id"]) for row in rows if row["number"] == number)
        assert [one for _, one in got] == [one for one, _ in states.nearest(newest, vector(number), 2)]
