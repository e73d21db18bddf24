"""Drivers that SIGKILL ends at a step of a job: nothing is lost, and a second run, or the upkeep, ends what was begun.

The reader shares no code with the package: Hudi's own reader on Spark gives the rows, their bytes are read from the
files that they name.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from support import killed, tables
from support.blobs import content
from support.clean_life import retained_rows
from support.prepared import Prepared

import hudi_vector as hv

IDS = range(12)
EVENTS = 6
EVERY = 4
BESIDE = (".events", ".found", ".checkpoint")
COLUMNS = ("id", "ts", "part", "img", "emb")
# How many steps the jobs have; where the package needs fewer the test says so, and the number is to be lowered.
STEPS = {"write": 31, "clean": 60, "compact": 49, "cluster": 92, "index": 16, "stream": 49, "backfill": 15}

State = dict[int, tuple[Any, ...]]


class Table:
    """A table with dead bytes in its containers, and what every retained version of it holds."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark, self.path = spark, path
        little = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "2"}
        self.model: State = {}
        known = {}
        for ts, ids in ((1, IDS), (2, IDS), (3, IDS[::5]), (4, IDS[::3])):
            killed.write(spark, str(path), ids, ts, **little)
            self.model |= state(ids, ts)
            known[self.instants()[-1]] = dict(self.model)
        self.versions = {instant: known[instant] for instant in list(known)[-2:]}  # Hudi's clean has kept these
        assert self.read(*self.versions) == list(self.versions.values())
        events = Path(f"{path}.events")
        events.mkdir()
        for number in range(EVENTS):
            vectors = pa.array([killed.vector(number, 2)], pa.list_(pa.float32()))
            pq.write_table(pa.table({"number": [number], "v": vectors}), events / f"{number}.parquet")
        self._prepared = Prepared.of(spark, path)

    def restore(self) -> None:
        """As it was before any job."""
        for name in BESIDE[1:]:
            shutil.rmtree(f"{self.path}{name}", ignore_errors=True)
        self._prepared.again()

    def instants(self) -> list[str]:
        """The instants of all completed commits, in the order of their completion."""
        names = [file.name for file in (self.path / ".hoodie/timeline").iterdir()]
        done = [name for name in names if name.endswith((".commit", ".replacecommit")) and "_" in name]
        return [name.partition("_")[0] for name in sorted(done, key=lambda name: name.partition("_")[2])]

    def read(self, *instants: str | None) -> list[State]:
        """The rows as of some instants, None for the newest ones: one job of Spark for all of them."""
        frames = [self.rows(instant).selectExpr(f"{n} AS n", *COLUMNS) for n, instant in enumerate(instants)]
        rows = reduce(DataFrame.union, frames).collect()
        read: list[State] = [{} for _ in instants]
        for row in rows:
            read[row["n"]][row["id"]] = (row["ts"], row["part"], blob_bytes(row["img"]), list(row["emb"]))
        assert sum(map(len, read)) == len(rows), "a key came twice"
        return read

    def rows(self, instant: str | None = None) -> DataFrame:
        """The rows as of an instant, or the newest ones, by Hudi's own reader."""
        reader = self.spark.read.format("hudi")
        return (reader.option("as.of.instant", instant) if instant else reader).load(str(self.path))

    def check(self, *newest: State) -> None:
        """The newest rows are those of one of the states, and every retained version is what it was."""
        now, *older = self.read(None, *self.versions)
        assert now in newest
        for (instant, expected), found in zip(self.versions.items(), older, strict=True):
            assert found == expected, instant
        for row in retained_rows(self.path):
            found = blob_bytes(row["img"])
            size = killed.size(row["id"])
            assert found == (None if size is None else content(row["id"] + 1000 * row["ts"], size)), row["id"]


def state(ids: Any, ts: int) -> State:
    """The rows of a version as they were given."""
    sizes = {i: killed.size(i) for i in ids}
    return {
        i: (ts, f"p{i % 2}", None if size is None else content(i + 1000 * ts, size), killed.vector(i, ts))
        for i, size in sizes.items()
    }


def blob_bytes(blob: Any) -> bytes | None:
    """The bytes of a blob as Hudi stores it, read by hand; Parquet's reader gives its kind as bytes."""
    if blob is None:
        return None
    if blob["type"] in ("INLINE", b"INLINE"):
        return bytes(blob["data"])
    reference = blob["reference"]
    with Path(reference["external_path"].removeprefix("file://")).open("rb") as file:
        file.seek(reference["offset"])
        found = file.read(reference["length"])
    assert len(found) == reference["length"]
    return found


@pytest.fixture(scope="module")
def table(spark: SparkSession, workspace: Path) -> Table:
    return Table(spark, tables.fresh_path(workspace, "killed"))


def ended_write(table: Table) -> None:
    """The rows are there; of what was staged nothing is left but what the dead write's lease still holds."""
    assert table.read(None) == [table.model | state(range(0, 12, 3), 9)]
    assert len(list((table.path / ".hoodie/blob_service/v1/staging").iterdir())) <= 1


def ended_clean(table: Table) -> None:
    """What no row names is gone, and everything else is there."""
    named = {row["img"]["reference"]["external_path"] for row in retained_rows(table.path) if refers(row)}
    assert {f"file://{file}" for file in containers(table)} == named


def ended_compact(table: Table) -> None:
    """No container of the newest rows has a dead byte."""
    assert all(live == file.stat().st_size for file, live in live_bytes(table).items())


def ended_cluster(table: Table) -> None:
    """Each partition is one file in the order of the ids; blobs of up to 4 KB are in their rows, others behind them."""
    rows = table.rows().select("_hoodie_file_name", "part", "id", "img")
    found = rows.collect()
    assert len({row[0] for row in found}) == len({row[1] for row in found}) == 2
    assert all(
        row["img"] is None or (row["img"]["type"] == "INLINE") == (killed.size(row["id"]) < 4096) for row in found
    )
    for part in ("p0", "p1"):
        (name,) = {row[0] for row in found if row[1] == part}
        stored = pq.read_table(table.path / part / name, columns=["id", "img"]).to_pylist()
        assert [row["id"] for row in stored] == [i for i in IDS if f"p{i % 2}" == part]
        places = [row["img"]["reference"]["offset"] for row in stored if refers(row)]
        assert places == sorted(places)


def ended_index(table: Table) -> None:
    """The index answers, as a brute force does."""
    hits = {}
    for number in range(4):
        query = np.array(killed.vector(number, 5))
        found = hv.search(table.spark, str(table.path), "emb", query, 3, metric="l2", execution="distributed").collect()
        hits[number] = hv.last_reports()[0].slices.get("index", 0)
        far = {i: float(np.linalg.norm(np.array(row[3]) - query)) for i, row in table.model.items()}
        wanted = sorted(far.values())[:3]
        assert np.allclose([row["_distance"] for row in found], wanted, rtol=1e-6)
        assert np.allclose([far[row["id"]] for row in found], wanted, rtol=1e-6)
    assert all(hits.values()), hits


def ended_backfill(table: Table) -> None:
    """Every row has the vector that the new model makes of it."""
    rows = table.rows().select("id", "ts", "new").collect()
    assert {row["id"]: row["new"] for row in rows} == {i: killed.model(i, row[0]) for i, row in table.model.items()}


def ended_stream(table: Table) -> None:
    """Every event was answered once, by the rows that are nearest to it."""
    rows = table.spark.read.parquet(f"{table.path}.found").collect()
    assert sorted((row["number"], row["_rank"]) for row in rows) == [
        (n, rank) for n in range(EVENTS) for rank in (1, 2)
    ]
    for row in rows:
        query = np.array(killed.vector(row["number"], 2))
        far = {i: float(np.linalg.norm(np.array(known[3]) - query)) for i, known in table.model.items()}
        assert np.isclose(far[row["id"]], sorted(far.values())[row["_rank"] - 1], rtol=1e-6)


def refers(row: Any) -> bool:
    return bool(row["img"] and row["img"]["reference"])


def containers(table: Table) -> list[Path]:
    return [file for file in (table.path / ".hoodie/blobs").rglob("*") if file.is_file()]


def live_bytes(table: Table) -> dict[Path, int]:
    """How many bytes the newest rows refer to in each container that they name."""
    found: dict[Path, int] = {}
    for row in table.rows().select("img").collect():
        if refers(row):
            reference = row["img"]["reference"]
            file = Path(reference["external_path"].removeprefix("file://"))
            found[file] = found.get(file, 0) + reference["length"]
    return found


ENDED: dict[str, Callable[[Table], None]] = {
    "write": ended_write,
    "clean": ended_clean,
    "compact": ended_compact,
    "cluster": ended_cluster,
    "index": ended_index,
    "stream": ended_stream,
    "backfill": ended_backfill,
}
UPKEEP = {
    "write": "clean_blobs",
    "clean": "clean_blobs",
    "compact": "compact_blobs",
    "cluster": "cluster",
    "index": "index",
}


def recover(table: Table, job: str, by_upkeep: bool) -> None:
    """What whoever comes next does: run the job again, and the upkeep, in either order."""
    # What held the leases is dead: a real successor waits until they run out, and Hudi's heartbeats run out before.
    shutil.rmtree(table.path / ".hoodie/blob_service/v1/leases", ignore_errors=True)
    for beat in (table.path / ".hoodie/.heartbeat").glob("*"):
        os.utime(beat, (beat.stat().st_mtime - 600,) * 2)

    def again() -> None:
        killed.JOBS[job](table.spark, str(table.path))

    def upkeep() -> None:
        if job not in UPKEEP:
            return
        more = {killed.INLINE: "4KB"} if job == "cluster" else {}
        with killed.conf(table.spark, more):
            done = hv.table_services.maintain(table.spark, str(table.path), steps=[UPKEEP[job]])
        assert done.is_well, done.rows()

    newest = table.model | state(range(0, 12, 3), 9) if job == "write" else table.model
    for act in (upkeep, again) if by_upkeep else (again, upkeep):
        act()
        table.check(table.model, newest)


def kill_and_recover(
    table: Table, job: str, step: float | None, by_upkeep: bool, folder: Path, may_end: bool = False
) -> list[str]:
    """Kill a job at a step, or let it end; look at the table, recover and look again."""
    table.restore()
    steps = killed.run(job, str(table.path), step, folder, may_end)
    table.spark.catalog.refreshByPath(str(table.path))
    told = f"{job}, step {step}: {steps[-1]}"
    try:
        table.check(table.model, table.model | state(range(0, 12, 3), 9) if job == "write" else table.model)
        with killed.conf(table.spark, killed.CONF):
            recover(table, job, by_upkeep)
        ENDED[job](table)
    except Exception as problem:
        problem.add_note(told)
        raise
    return steps


@pytest.mark.parametrize("job", killed.JOBS)
def test_a_killed_driver_loses_nothing(table: Table, tmp_path: Path, job: str) -> None:
    """One kill of each job, and not always at the same step: the seed is in the variable of `make soak`."""
    choice = random.Random(f"{killed.seed()} {job}")
    kill_and_recover(table, job, choice.randint(1, STEPS[job]), choice.random() < 0.5, tmp_path / "driver")


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1, EVERY + 1))
@pytest.mark.parametrize("job", killed.JOBS)
def test_killed_at_every_step(table: Table, tmp_path: Path, job: str, first: int) -> None:
    """Each test has every fourth step: a job of two hours is four of half an hour."""
    steps = kill_and_recover(table, job, None, False, tmp_path / "whole")
    assert len(steps) >= STEPS[job]
    surely = len(steps) - killed.by_chance(steps)
    for step in range(first, len(steps) + 1, EVERY):
        kill_and_recover(table, job, step, (step + step // EVERY) % 2 == 0, tmp_path / str(step), step > surely)


@pytest.mark.soak
@pytest.mark.parametrize("job", killed.JOBS)
def test_killed_at_random(table: Table, tmp_path: Path, soak: Any, job: str) -> None:
    """At any moment between two steps, also while Hudi or Spark write on their own."""
    for seed in soak.seeds(5):
        choice = random.Random(seed)
        step, later = choice.randint(1, STEPS[job]), choice.random()
        kill_and_recover(table, job, step + later, choice.random() < 0.5, tmp_path / str(seed))
