"""Blob compaction on real tables: the same answers from fewer containers, whatever others write and wherever it dies."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from support import tables
from support.blobs import QUICK, ROWS, content, got, rows, stored, write
from support.frames import planned
from support.hostile import body_of, write_body
from support.prepared import Prepared
from support.swept import Killed, dying

import hudi_vector as hv
from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.uploads.manifest import ABORTED, COMMITTED, OPEN, UPLOADS, list_uploads
from hudi_vector.command.main import main
from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    RefusedError,
    UnknownColumnError,
    WriteError,
)
from hudi_vector.spark.blobs import table as blob_table
from hudi_vector.storage.side_files import is_side_file
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.plans.compaction import CompactionPlan
from hudi_vector.table_services.plans.compaction_files import (
    COMPACTIONS,
    RESIZING,
    PendingCommit,
    begun_runs,
    publish_plan,
    publish_run,
    unended_runs,
)
from hudi_vector.table_services.plans.plan_files import RUNNING
from hudi_vector.table_services.service_lease import LEASES, ServiceLease
from hudi_vector.writing.client import hudi_client
from hudi_vector.writing.rewriting.repack import _spread

services = hv.table_services
OUT = {"img": {"inline.threshold": "0"}}
NESTED = StructType(
    [
        StructField("id", IntegerType()),
        StructField("ts", LongType()),
        StructField("part", StringType()),
        StructField("img", BinaryType()),
        StructField("doc", StructType([StructField("page", IntegerType()), StructField("scan", BinaryType())])),
        StructField("outside", StringType()),
        StructField("vec", ArrayType(FloatType())),
    ]
)


def nested(spark, ids, ts, file):
    """Rows with a blob, a blob in a struct (NULL, inline or not), and a file that the table does not own."""
    made = [
        (i, ts, f"p{i % 2}", bytearray(content(i + 1000 * ts, 3000)),
         None if i % 5 == 4 else (i, bytearray(content(i, 10 if i % 5 == 3 else 2000))), str(file), [float(i), i + 0.5])
        for i in ids
    ]  # fmt: skip
    return planned(spark, made, NESTED).coalesce(1)


def columns(spark, path):
    """All that a row says, by id, with blobs as bytes; and the containers that rows refer to."""
    frame = spark.read.format("hudi").load(str(path))
    asked = frame.selectExpr(
        "id", "ts", "part", "read_blob(img) img", "doc.page page", "read_blob(doc.scan) scan", "doc IS NULL none",
        "outside.reference.external_path outside", "vec",
        "array(img.reference.external_path, doc.scan.reference.external_path) places",
    )  # fmt: skip
    found = [row.asDict() for row in asked.collect()]
    places = {place for row in found for place in row.pop("places") if place}
    return {row["id"]: row for row in found}, places


def containers(path):
    """The containers that rows refer to, counted without Spark."""
    found = hv.blobs.inventory(None, str(path)).to_pylist()
    return {row["container"] for row in found if row["kind"] == "managed" and row["blobs"]}


def wrong(path, deep=False):
    """What is wrong with a table's blobs, found without Spark."""
    return hv.blobs.verify(None, str(path), deep=deep).to_pylist()


def files_of(path):
    """The files of a table but those of services."""
    files = (file.relative_to(path) for file in path.rglob("*"))
    return {str(file) for file in files if file.parts[:2] != (".hoodie", "blob_service")}


@pytest.mark.hudi_defaults
def test_a_table_is_repacked_as_planned(spark, workspace, clean_session, tmp_path, capsys):
    path, file = tables.fresh_path(workspace, "repacked"), tmp_path / "outside.bin"
    file.write_bytes(b"outside")
    blobs = {
        "img": {"inline.threshold": "0", "checksum": "crc32"},
        "doc.scan": {"inline.threshold": "100"},
        "outside": {},
    }
    write(nested(spark, range(12), 1, file), path, blobs=blobs, vectors={"vec": 2})
    write(nested(spark, range(8), 2, file), path, blobs=blobs)
    before, _ = columns(spark, path)
    schema = spark.read.format("hudi").load(str(path)).schema.json()
    file.write_bytes(b"another content")

    whole = files_of(path)
    given = ["--table", str(path), "--format", "json", "--target-size", "20000", "--small-threshold", "0"]
    assert main(["compact-blobs", *given, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    planned = [json.loads(line) for line in out.splitlines()]
    assert {row["action"] for row in planned} == {"repack", "keep"}
    assert files_of(path) == whole

    plan = err.partition("plan: ")[2].strip()
    report = tmp_path / "report.jsonl"
    done = services.compact_blobs(spark, str(path), plan=plan, report=str(report), options=QUICK)
    assert (done.rows(), done.doubts, done.notes) == (planned, (), ())
    assert [json.loads(line) for line in report.read_text().splitlines()] == planned
    low = [row for row in planned if row["action"] == "repack"]
    assert all(row["live"] * 2 < row["bytes"] for row in low)
    assert done.bytes == sum(row["live"] for row in low) == 4 * 3000 + 2 * 2000
    assert (done.blobs, done.references, done.containers_before, done.containers_after) == (6, 6, 4, 4)
    assert done.reclaimable_bytes == sum(row["bytes"] for row in low)
    assert len(done.commits) == 1

    found, new = columns(spark, path)
    assert found == before
    assert spark.read.format("hudi").load(str(path)).schema.json() == schema
    assert {row["path"] for row in low} == {each.path for each in done.released}
    assert not {f"file://{path}/{row['path']}" for row in low} & new
    (upload,) = [each for each in list_uploads(f"file://{path}") if each.instant == done.commits[0]]
    assert (upload.state, len(upload.containers)) == (COMMITTED, 4)
    assert upload.checksums is not None
    problems = wrong(path, deep=True)
    assert {(row["column"], row["problem"]) for row in problems} == {("outside", "changed")}
    assert len(problems) == 12
    assert not list((path / ".hoodie/blob_service/v1/staging").iterdir())

    joined = services.compact_blobs(spark, str(path), columns="img", target_size="64KB", options=QUICK)
    assert joined.containers_after == 2
    found, places = columns(spark, path)
    assert len(places) == len(new) - joined.containers_before + 2
    assert found == before
    again = services.compact_blobs(spark, str(path), target_size="64KB", columns=["img"], options=QUICK)
    assert (again.candidates, again.commits, again.plan_id) == ([], (), "")
    assert (path / ".hoodie/metadata").is_dir()


EQUAL = {i: content(i % 4, 1000 + i % 2) for i in range(16)}
"""The blobs of the table `shared`, as it is at the beginning of each test."""


@pytest.fixture(scope="module")
def equal(spark, workspace):
    """A table without partitions, whose four containers have the same four blobs each."""
    path, made = tables.fresh_path(workspace, "shared"), [(i, 1, "p", bytearray(EQUAL[i])) for i in EQUAL]
    four = {"img": {**OUT["img"], "container.maxElementSize": "2000", "container.maxFileSize": "4002"}}
    write(planned(spark, made, ROWS).coalesce(1), path, blobs=four, table_type="mor", partition_by=None)
    assert len(containers(path)) == 4
    assert stored(spark, path) == EQUAL
    return Prepared.of(spark, path)


@pytest.fixture
def shared(equal):
    return equal.again()


def change(spark, path, versions):
    """Another writer gives rows new blobs: `versions` has the ordering value of each, by its id."""
    made = [(i, ts, "p", bytearray(content(i + 500, 700))) for i, ts in versions.items()]
    write(planned(spark, made, ROWS).coalesce(1), path, blobs=OUT, partition_by=None)


def die():
    raise Killed


def acting(step, act, told=None):
    """A progress that keeps what it is told, and does something else once, when a step begins."""
    waiting = [act]

    def progress(sentence):
        if told is not None:
            told.append(sentence)
        if step in sentence and waiting:
            waiting.pop()()

    return progress


def test_equal_blobs_are_stored_once_and_others_win(spark, shared):
    read = spark.read.format("hudi")

    def meanwhile():
        change(spark, shared, {0: 1, 5: 2})
        gone = read.load(str(shared)).where("id = 10").drop("img")
        hv.write(gone, str(shared), record_key="id", operation="delete", options=QUICK)

    changed = {**EQUAL, 0: content(500, 700), 5: content(505, 700)}
    del changed[10]
    done = services.compact_blobs(
        spark, str(shared), deduplicate=True, options=QUICK, progress=acting("committing", meanwhile)
    )
    assert stored(spark, shared) == changed
    assert wrong(shared) == []
    assert (done.bytes, done.blobs, done.deduplicated_bytes) == (2 * 2001, 4, 6 * 2001)
    assert (done.containers_before, done.containers_after, done.restored_rows) == (4, 1, 2)
    assert done.doubts == ()
    assert len(containers(shared)) == 2, "the new one and that of the other writer"


def begin(path):
    """An instant that another writer leaves unfinished, as one that lost a conflict does."""
    files = [path / ".hoodie/timeline" / f"20260101000000000.{state}" for state in ("commit.requested", "inflight")]
    for file in files:
        file.touch()
    return files


@pytest.mark.parametrize(("step", "changed"), [("committing", 99), ("looking at the rows once more", 3)])
def test_rows_that_were_read_or_lie_apart_need_no_earlier_state(spark, shared, step, changed):
    """Hudi reads none behind an unfinished instant."""
    lock = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }

    def meanwhile():
        rows = planned(spark, [(changed, 1, "p", bytearray(content(changed + 500, 700)))], ROWS).coalesce(1)
        apart = {"hoodie.parquet.small.file.limit": "0"}
        write(rows, shared, blobs=OUT, partition_by=None, options={**QUICK, **apart})
        begin(shared)

    done = services.compact_blobs(
        spark, str(shared), live_threshold=100, options={**QUICK, **lock}, progress=acting(step, meanwhile)
    )
    assert (len(done.commits), done.restored_rows, done.is_well) == (1, 0, True)
    assert stored(spark, shared) == {**EQUAL, changed: content(changed + 500, 700)}


def test_a_killed_run_is_ended_when_no_earlier_instant_is_unfinished(spark, shared):
    begun = []

    def progress(sentence):
        if "committing" in sentence:
            change(spark, shared, {3: 1})
        if "committed" in sentence:
            begun.extend(begin(shared))
            raise Killed

    with pytest.raises(Killed):
        services.compact_blobs(spark, str(shared), live_threshold=100, options=QUICK, progress=progress)
    with pytest.raises(RefusedError, match="an earlier instant of another writer is unfinished"):
        services.compact_blobs(spark, str(shared), options=QUICK)
    for file in begun:
        file.unlink()
    assert services.compact_blobs(spark, str(shared), options=QUICK).is_well
    assert stored(spark, shared) == {**EQUAL, 3: content(503, 700)}


@pytest.mark.parametrize("step", ["nothing", "counting references", "copying", "looking at the rows once more"])
def test_the_table_is_loaded_again_only_after_others_wrote(spark, shared, monkeypatch, step):
    """Once before the commit and once behind it: Hudi loads a table by many requests, one after another.

    If others wrote, once more when their commit is seen: ours hides no row of theirs, since its rows were read after that.
    """
    loaded, load = [], blob_table._newest
    monkeypatch.setattr(blob_table, "_newest", lambda *given: loaded.append(given) or load(*given))
    others = acting(step, lambda: change(spark, shared, {0: 1}))
    done = services.compact_blobs(spark, str(shared), options=QUICK, progress=others)
    assert len(loaded) == (2 if step == "nothing" else 3)
    assert stored(spark, shared) == ({**EQUAL, 0: content(500, 700)} if step != "nothing" else EQUAL)
    assert (len(done.commits), wrong(shared)) == (1, [])


def test_equal_blobs_are_stored_once_in_all_groups(spark, shared):
    done = services.compact_blobs(
        spark, str(shared), deduplicate=True, group_size=8004, assume_single_writer=True, options=QUICK
    )
    assert stored(spark, shared) == EQUAL
    assert wrong(shared, deep=True) == []
    assert (done.bytes, done.blobs, done.deduplicated_bytes) == (2 * 2001, 4, 6 * 2001)
    assert (done.containers_before, done.containers_after, len(done.commits), done.references) == (4, 1, 2, 16)
    assert len(containers(shared)) == 1
    assert not list(shared.rglob(f"staging/{done.plan_id}"))


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_containers_are_spread_evenly(spark, tasks):
    places = "struct(concat('c', id % 2) AS column, 'p' AS partition, id div 8 AS chunk) AS place"
    spread = _spread(spark.range(0, 8 * 8 * 3, 1, 5).selectExpr(places), tasks)
    found = spread.selectExpr("place.column", "place.chunk", "spark_partition_id()").distinct().collect()
    assert len(found) == 2 * 8 * 3, "a container is filled by one task"
    for column in ("c0", "c1"):
        each = Counter(task for named, _, task in found if named == column)
        assert set(each) == set(range(tasks))
        assert max(each.values()) - min(each.values()) <= 1


def test_whoever_comes_after_a_killed_run_ends_it(spark, shared):
    now, table = dict(EQUAL), f"file://{shared}"
    known = {each.write_id for each in list_uploads(table)}
    ended = {
        "copying": "before its commit, and nothing refers to what it copied",
        "committing": "before its commit, and nothing refers to what it copied",
        "committed": "after its commit",
    }
    told = []
    for step in ended:
        if told:
            change(spark, shared, {1: 1})
            now[1] = content(501, 700)
        with pytest.raises(Killed):
            services.compact_blobs(spark, str(shared), options=QUICK, progress=acting(step, die, told))
        assert got(shared) == now
        assert len(begun_runs(table)) == 1
    old = publish_plan(CompactionPlan(new_write_id(0), table, 0, ("img",), (), 1, 1)).plan.plan_id
    done = services.compact_blobs(spark, str(shared), options=QUICK, progress=told.append)
    assert old not in {each.name for each in Path(shared, COMPACTIONS).iterdir()}
    assert [sentence.partition("killed ")[2] for sentence in told if "killed" in sentence][:2] == [
        ended["copying"],
        ended["committing"],
    ]
    assert len(done.notes) == 1
    assert "killed after its commit" in done.notes[0]
    assert stored(spark, shared) == now
    assert wrong(shared) == []
    assert begun_runs(table) == []
    assert {each.state for each in list_uploads(table) if each.write_id not in known} == {COMMITTED, ABORTED}
    assert not any(Path(shared, ".hoodie/blob_service/v1/staging").iterdir())


@pytest.fixture(scope="module")
def copying(spark, equal):
    """The same table, and a compaction of it that was killed when it began to copy."""
    path = equal.again()
    with pytest.raises(Killed):
        services.compact_blobs(spark, str(path), options=QUICK, progress=acting("copying", die))
    return Prepared.of(spark, path, "copying")


@pytest.mark.parametrize("gone", [("list",), ("manifest",), ("list", "manifest"), ("note",)], ids=" ".join)
def test_a_run_that_was_killed_before_all_it_begins_with_was_durable(spark, equal, copying, gone):
    """On an object store, its list, its manifest and its note are sent at once, and any of them may be there."""
    shared, table = equal.again(), f"file://{equal.path}"
    known = {each.write_id for each in list_uploads(table)}

    def begin():
        copying.again()
        (run,) = begun_runs(table)
        home = Path(shared, COMPACTIONS, run.plan.plan_id)
        places = {
            "list": home / run.containers.name,
            "manifest": Path(shared, UPLOADS, run.pending.write_id),
            "note": next(file for file in home.iterdir() if is_side_file(file.name)),
        }
        for name in gone:
            shutil.rmtree(places[name]) if places[name].is_dir() else places[name].unlink()

    def ended():
        left = {each.state for each in list_uploads(table) if each.write_id not in known}
        assert unended_runs(table) == begun_runs(table) == []
        assert left <= {COMMITTED, ABORTED, *([OPEN] if "note" in gone else [])}

    begin()
    marked = services.clean_blobs(spark, str(shared), dry_run=True, grace="0s")
    assert any("compactions" in doubt for doubt in marked.doubts) == ("list" in gone), "in doubt nothing is taken"
    timeline = sorted(Path(shared, ".hoodie/timeline").iterdir())
    services.maintain(spark, str(shared), steps=["index"])
    ended()
    assert sorted(Path(shared, ".hoodie/timeline").iterdir()) == timeline, "no row was changed"
    assert services.compact_blobs(spark, str(shared), live_threshold=0, small_threshold=0).notes == ()

    begin()
    services.compact_blobs(spark, str(shared), options=QUICK)
    ended()
    assert stored(spark, shared) == EQUAL
    assert wrong(shared) == []


def test_maintain_ends_a_run_that_was_killed_behind_its_commit(spark, shared):
    """Until then the row that another writer put there at the last moment is hidden."""

    def progress(sentence):
        if "committing" in sentence:
            change(spark, shared, {3: 1})
        if "committed" in sentence:
            raise Killed

    with pytest.raises(Killed):
        services.compact_blobs(spark, str(shared), live_threshold=100, options=QUICK, progress=progress)
    assert got(shared) == EQUAL
    with ServiceLease(str(shared), "compact"):
        (other,) = services.maintain(spark, str(shared), steps=["index"]).steps
    assert (other.step, len(begun_runs(f"file://{shared}"))) == ("index", 1), "one that is at work is left alone"
    planned, *_ = services.maintain(spark, str(shared), steps=["index"], dry_run=True).steps
    assert (planned.step, planned.state) == ("end_killed_runs", "due")
    ended, _ = services.maintain(spark, str(shared), steps=["index"]).steps
    assert (ended.step, ended.state) == ("end_killed_runs", "done"), ended.text
    assert "which was looked after; 1 row of other writers was restored" in ended.text
    assert not (shared / ".hoodie/metadata").exists(), "a table without a metadata table stays without it"
    assert stored(spark, shared) == {**EQUAL, 3: content(503, 700)}
    assert begun_runs(f"file://{shared}") == []
    assert [step.step for step in services.maintain(spark, str(shared), steps=["index"]).steps] == ["index"]


def test_a_run_that_was_killed_while_hudi_committed_is_ended(spark, shared, equal):
    """A writer whose heartbeat has run out is dead; one that still has a heartbeat, or never had one, may yet commit."""
    table, told, beats = Source(f"file://{shared}", str(shared)), [], shared / ".hoodie/.heartbeat"

    def compact(act=None):
        progress = acting("committing", act, told) if act else told.append
        return services.compact_blobs(spark, str(shared), live_threshold=100, options=QUICK, progress=progress)

    def begin(policy):
        """A commit that Hudi has begun, and nobody goes on with."""
        with hudi_client(spark, table.uri, {**QUICK, "hoodie.clean.failed.writes.policy": policy}) as client:
            return client.startCommit("deltacommit")

    def let_run_out(instant):
        os.utime(beats / instant, ((beats / instant).stat().st_mtime - 121,) * 2)

    def refused_for(instant):
        with pytest.raises(RefusedError, match=f"deltacommit '{instant}' of .* has not completed"):
            compact()
        assert NativeTable(table).timeline().pending == {instant}

    with pytest.raises(Killed):
        compact(die)
    ours = begin("LAZY")
    let_run_out(ours)
    alive = begin("LAZY")
    refused_for(alive)
    assert f"deltacommit '{ours}', whose writer had been killed, was rolled back" in told
    assert [each.name for each in beats.iterdir() if each.suffix != ".crc"] == [alive]
    let_run_out(alive)
    assert compact().is_well
    assert NativeTable(table).timeline().pending == frozenset()
    assert got(shared) == EQUAL
    equal.again()
    refused_for(begin("EAGER"))
    change(spark, shared, {4: 1})  # a writer without a lock rolls back whatever is pending
    assert compact().is_well
    assert stored(spark, shared) == {**EQUAL, 4: content(504, 700)}


@pytest.mark.parametrize("field", ["plan_id", "write_id"])
def test_a_killed_run_that_a_stranger_wrote_removes_nothing(spark, shared, field):
    """Whoever ends a run removes what it staged: not what a name with dots leads to."""
    table, victim = f"file://{shared}", shared.parent / f"{shared.name}-victim-{field}"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep" / "ledger").write_bytes(b"precious")
    run = publish_plan(CompactionPlan(new_write_id(0), table, 0, ("img",), (), 1, 1))
    pending = None if field == "plan_id" else PendingCommit(new_write_id(0), "token", (), RESIZING)
    publish_run(replace(run, state=RUNNING, pending=pending))
    folder = Path(shared, COMPACTIONS, run.plan.plan_id)
    newest = max(folder.glob("0*-*"))
    body = body_of(newest)
    (body if field == "plan_id" else body["pending"])[field] = f"../../../../../{victim.name}"
    write_body(newest, "compaction", body)
    for service in (services.compact_blobs, services.cluster):
        with pytest.raises(DataFileError, match="is damaged, or somebody changed it"):
            service(spark, str(shared), options=QUICK)
    assert (victim / "deep" / "ledger").read_bytes() == b"precious"
    assert got(shared) == EQUAL


@pytest.mark.soak
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_it_may_die_at_any_step(spark, workspace, after):
    path, step = tables.fresh_path(workspace, "dying"), 0
    write(rows(spark, [1000] * 4).coalesce(1), path, blobs=OUT, table_type="mor", partition_by=None)
    alive = True
    while alive:
        step += 1
        change(spark, path, {step % 4: 1})
        expected = stored(spark, path)
        with dying(step, after) as death:
            services.compact_blobs(spark, str(path), options=QUICK)
        alive = death.steps >= step
        assert stored(spark, path) == expected, step
        # What held the lease is dead: a real successor waits until it runs out.
        shutil.rmtree(path / LEASES, ignore_errors=True)
    assert step > 10
    done = services.compact_blobs(spark, str(path), options=QUICK)
    assert done.is_well
    assert stored(spark, path) == expected
    assert hv.blobs.verify(spark, str(path)).collect() == []
    assert begun_runs(f"file://{path}") == []


UNORDERED = {"blobs": OUT, "ordering": None, "partition_by": None, "options": {"hoodie.clean.automatic": "false"}}


@pytest.fixture(scope="module")
def unordered(spark, workspace):
    """A table without an ordering field, with one container."""
    path = tables.fresh_path(workspace, "unordered")
    write(rows(spark, [1000] * 4).coalesce(1), path, **UNORDERED)
    return path


def test_refusals(spark, shared, unordered):
    with pytest.raises(InvalidArgumentError, match="has no compaction plan 'x'; a dry run publishes one"):
        services.compact_blobs(spark, str(shared), plan="x")
    with pytest.raises(InvalidArgumentError, match="leave columns, thresholds and sizes out with plan"):
        services.compact_blobs(spark, str(shared), plan="x", live_threshold=3)
    with pytest.raises(InvalidArgumentError, match=r"live.threshold = '101' is not allowed: .* 0 to 100"):
        services.compact_blobs(spark, str(shared), live_threshold=101)
    with pytest.raises(InvalidArgumentError, match="small_threshold = 2048 is above the target size"):
        services.compact_blobs(spark, str(shared), target_size="1KB", small_threshold="2KB")
    with pytest.raises(UnknownColumnError, match="nope"):
        services.compact_blobs(spark, str(shared), columns="nope")
    with ServiceLease(str(shared), "compact"), pytest.raises(RefusedError, match="another compact of"):
        services.compact_blobs(spark, str(shared))
    with pytest.raises(RefusedError, match=r"has not an ordering field.*give assume_single_writer"):
        services.compact_blobs(spark, str(unordered))
    assert "an ordering field" in services.compact_blobs(spark, str(unordered), dry_run=True).refusal
    assert services.compact_blobs(spark, str(unordered), assume_single_writer=True).is_well


def test_a_lock_is_as_good_as_a_promise(spark, unordered, clean_session):
    spark.conf.set("hoodie.write.concurrency.mode", "optimistic_concurrency_control")
    lock = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    assert services.compact_blobs(spark, str(unordered), options=lock).is_well


def test_maintain_is_refused_only_what_there_is_to_do(spark, unordered, clean_session, capsys):
    path = unordered

    def step(**arguments):
        (told,) = services.maintain(spark, str(path), steps=["compact_blobs"], **arguments).steps
        return told.state, told.text

    assert step()[0] == "nothing to do"
    write(rows(spark, [1000] * 3).coalesce(1), path, **UNORDERED)
    state, text = step()
    assert state == "refused"
    assert "give assume_single_writer" in text
    assert step(dry_run=True, assume_single_writer=True)[0] == "due"
    spark.conf.set("hoodie.blob.maintain.assume.single.writer", "true")
    assert step(dry_run=True)[0] == "due"
    assert step(assume_single_writer=False)[0] == "refused", "an argument goes before a setting"
    spark.conf.unset("hoodie.blob.maintain.assume.single.writer")
    job = ["maintain", "--table", str(path), "--step", "compact-blobs"]
    assert main(job) == 3
    assert main([*job, "--assume-single-writer"]) == 0
    assert "compact_blobs  done" in capsys.readouterr().out
    assert got(path) == {i: content(i + 1000, 1000) for i in range(4)}
    assert step()[0] == "nothing to do"


def test_groups_under_a_lock_with_relative_paths(spark, workspace, clean_session):
    """Merge-on-read with partitions and log files, a lock of Hudi's own, a relative name, paths from the table."""
    path = tables.fresh_path(workspace, "forms")
    lock = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    blobs = {"img": {"inline.threshold": "0", "paths": "relative"}}
    for ts, count in ((1, 12), (2, 8)):
        frame = rows(spark, [2000] * count, ts).coalesce(1)
        write(frame, path, blobs=blobs, table_type="mor", ordering=None, options=lock)

    def images():
        """The bytes of the rows, and where they are."""
        frame = spark.read.format("hudi").load(str(path)).selectExpr("id", "img", "img.reference.external_path place")
        found = hv.read_blobs(frame, "img", table=str(path)).collect()
        return {row["id"]: bytes(row["img"]) for row in found}, {row["place"] for row in found if row["place"]}

    before, _ = images()
    name = os.path.relpath(path)  # Spark's own process works where this one does
    done = services.compact_blobs(spark, name, group_size=4000, options={**QUICK, **lock})
    assert (done.containers_before, done.containers_after, len(done.commits), done.doubts) == (2, 2, 2, ())
    found, places = images()
    assert found == before
    assert wrong(path, deep=True) == []
    assert all(place.startswith(".hoodie/blobs/") for place in places)
    assert not {row["path"] for row in done.rows() if row["action"] == "repack"} & places
    spark.conf.set("hoodie.storage.blob.inline.threshold", "10KB")
    assert services.cluster(spark, name, options={**QUICK, **lock}).moved_in == 12
    assert got(path) == before


WRONG = [
    ("compact_blobs", {"columns": 7}, "columns are the name of a column or a list of names, not 7"),
    ("compact_blobs", {"options": ["a"]}, "options is a mapping of Hudi's settings, such as"),
    ("compact_blobs", {"report": 7, "dry_run": True}, "report is the path of a local file, not 7"),
    ("cluster", {"order_by": 7}, "order_by is a text or a list of texts, not 7"),
    ("maintain", {"steps": 7}, "steps is a text or a list of texts, not 7"),
    ("maintain", {"other_tables": [7]}, r"other_tables is a text or a list of texts, not \[7\]"),
    ("clean_blobs", {"other_tables": 7}, "other_tables is a text or a list of texts, not 7"),
    ("mark_blobs", {"managed_roots": b"a"}, "managed_roots is a text or a list of texts, not b'a'"),
    ("check_erasure", {"keys": 7}, "keys is a text or a list of texts, not 7"),
    ("erase", {"keys": [7]}, r"keys is a text or a list of texts, not \[7\]"),
    ("register_tables", {"others": 7}, "others is a text or a list of texts, not 7"),
]


@pytest.mark.parametrize(("service", "arguments", "sentence"), WRONG)
def test_arguments_of_wrong_types(spark, equal, service, arguments, sentence):
    with pytest.raises(InvalidTypeError, match=sentence):
        getattr(services, service)(spark, str(equal.path), **arguments)


@pytest.mark.soak
def test_what_hudi_refuses_is_one_sentence(spark, shared):
    change(spark, shared, {2: 3})
    before = stored(spark, shared)
    lock = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "no.such.Lock",
    }
    with pytest.raises(WriteError, match=r"the rewrite of references of '.*' failed: [^\n]*no\.such\.Lock[^\n]*$"):
        services.compact_blobs(spark, str(shared), options={**QUICK, **lock})
    assert stored(spark, shared) == before
    assert begun_runs(f"file://{shared}") == []
