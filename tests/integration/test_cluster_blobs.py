"""Clustering: rows in the order that was asked for, blobs in the order of their rows, and where thresholds want them."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support import tables
from support.blobs import QUICK, content
from support.frames import planned
from support.swept import Killed

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, RefusedError, UnknownColumnError, WriteError
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.storage import Storage
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.plans.clustering_files import (
    begun_clusterings,
    publish_clustering,
    read_clustering,
)
from hudi_vector.table_services.plans.compaction_files import begun_runs
from hudi_vector.table_services.plans.plan_files import RUNNING
from hudi_vector.writing.blobs.plan import session_settings
from hudi_vector.writing.client import hudi_client
from hudi_vector.writing.rewriting.by_size import _flags, _with_inline

services = hv.table_services
ROWS = {i: (i * 7 % 30, content(i, 3000), content(i, 50 if i % 2 else 500)) for i in range(30)}
"""What `answers` finds in the table `path` until a test writes to it: rank and blobs, by id."""


def answers(spark, path):
    read = spark.read.format("hudi").load(str(path)).selectExpr("id", "rank", "read_blob(img)", "read_blob(doc.scan)")
    return {row[0]: tuple(row[1:]) for row in read.collect()}


@pytest.fixture(scope="module")
def path(spark, workspace):
    """Thirty rows in the order of their ids, which is not that of their ranks."""
    made = tables.fresh_path(workspace, "clustered")
    for first in (0, 15):
        rows = [
            (i, 1, rank, [float(i)], bytearray(img), (bytearray(scan),))
            for i, (rank, img, scan) in list(ROWS.items())[first : first + 15]
        ]
        kind = "id INT, ts LONG, rank INT, vec ARRAY<FLOAT>, img BINARY, doc STRUCT<scan: BINARY>"
        blobs = {"img": {"inline.threshold": "0"}, "doc.scan": {"inline.threshold": "1KB" if first else "0"}}
        frame, operation = planned(spark, rows, kind).coalesce(1), "upsert" if first else "bulk_insert"
        hv.write(frame, str(made), record_key="id", ordering="ts", vectors={"vec": 1}, blobs=blobs,
                 operation=operation, options=QUICK)  # fmt: skip
    return made


def test_blobs_follow_their_rows(spark, path, clean_session):
    schema = spark.read.format("hudi").load(str(path)).schema.json()
    spark.conf.set("hoodie.storage.blob.inline.threshold", "100")
    timeline = sorted(file.name for file in (path / ".hoodie/timeline").iterdir())
    dry = services.cluster(spark, str(path), order_by="rank", dry_run=True, options=QUICK)
    assert (dry.moved_out, dry.moved_in, dry.instants, dry.refusal) == (7, 7, (), None)
    assert sorted(file.name for file in (path / ".hoodie/timeline").iterdir()) == timeline
    assert any("containers would become about" in line for line in dry.lines())
    spark.conf.unset("hoodie.storage.blob.inline.threshold")
    done = services.cluster(spark, str(path), plan=dry.plan_id, options=QUICK)
    spark.conf.set("hoodie.storage.blob.inline.threshold", "100")
    assert len(done.instants) == 1
    assert done.rows() == dry.rows()
    assert [line for line in done.lines() if line.startswith("plan: ")] == [f"plan: {dry.plan_id}"]
    assert (done.candidates, done.kept, done.deleted, done.bytes) == (dry.candidates, dry.kept, [], dry.bytes)
    groups = [row for row in done.rows() if row["action"] == "cluster"]
    assert sum(row["bytes"] for row in groups) == done.bytes > 0
    assert (done.moved_out, done.moved_in, done.restored_rows) == (7, 7, 0)
    assert done.is_well
    assert answers(spark, path) == ROWS
    assert hv.blobs.verify(None, str(path)).to_pylist() == []
    assert spark.read.format("hudi").load(str(path)).schema.json() == schema
    newest = max(path.glob("*.parquet"), key=lambda file: file.stem.rpartition("_")[2])
    table = pq.read_table(newest, columns=["id", "rank", "img", "doc"]).to_pylist()
    assert [row["rank"] for row in table] == list(range(30))
    places = [(row["img"]["reference"]["external_path"], row["img"]["reference"]["offset"]) for row in table]
    assert len({place[0] for place in places}) == 1
    assert [place[1] for place in places] == [3000 * number for number in range(30)]
    kinds = {row["id"]: row["doc"]["scan"]["data"] is not None for row in table}
    assert kinds == {i: i % 2 == 1 for i in range(30)}
    again = services.cluster(spark, str(path), dry_run=True, options=QUICK)
    assert (again.moved_out, again.moved_in) == (0, 0)
    assert {each.column for each in again.compaction.candidates} == {"doc.scan"}, "what left its rows is joined later"
    once_more = services.cluster(spark, str(path), plan=dry.plan_id, options=QUICK)
    assert (once_more.instants, once_more.rows()) == (done.instants, dry.rows())
    assert (once_more.moved_out, once_more.moved_in, once_more.compaction.commits) == (0, 0, ())


def kill_at(beginning):
    """A report of progress under which the process dies."""

    def progress(sentence):
        if sentence.startswith(beginning):
            raise Killed

    return progress


def test_a_run_goes_on_with_its_plan_and_no_other_plan_holds_then(spark, path, clean_session):
    """First Hudi gives its clustering up, which is not left pending; then the run is killed."""
    spark.conf.set("hoodie.storage.blob.inline.threshold", "100")
    first, second = (
        services.cluster(spark, str(path), order_by=by, dry_run=True, options=QUICK) for by in ("id", "rank")
    )
    (group,) = first.groups
    file, aside = path / group.files[0], path.parent / "aside"

    def vanish(sentence):
        if sentence.startswith("scheduled"):
            file.rename(aside)

    with pytest.raises(WriteError, match=rf"instant \d+ of the clustering of '{path}' failed: ") as failed:
        services.cluster(spark, str(path), plan=first.plan_id, options=QUICK, progress=vanish)
    assert "\n" not in str(failed.value)
    aside.rename(file)
    assert pending(path) == frozenset()
    assert begun_clusterings(f"file://{path}") == []

    with pytest.raises(Killed):
        services.cluster(spark, str(path), plan=first.plan_id, options=QUICK, progress=kill_at("scheduled"))
    (begun,) = begun_clusterings(f"file://{path}")
    assert (begun.plan.plan_id, begun.plan.order_by) == (first.plan_id, ("id",))
    done = services.cluster(spark, str(path), plan=first.plan_id, options=QUICK)
    assert done.instants == begun.instants[-1:]
    assert done.rows() == first.rows()
    assert f"in its clustering {begun.instants[-1]}, which was completed" in done.compaction.notes[0]
    assert begun_clusterings(f"file://{path}") == []
    assert answers(spark, path) == ROWS
    (name,) = path.glob(f"*_{begun.instants[-1]}.parquet")
    assert pq.read_table(name, columns=["id"])["id"].to_pylist() == list(range(30))
    timeline = sorted(file.name for file in (path / ".hoodie/timeline").iterdir())
    with pytest.raises(RefusedError, match=rf"changed since plan '{second.plan_id}' was made; run it without a plan"):
        services.cluster(spark, str(path), plan=second.plan_id, options=QUICK)
    dry = services.cluster(spark, str(path), plan=second.plan_id, dry_run=True, options=QUICK)
    assert dry.rows() == second.rows()
    assert "or make another by a dry run" in dry.refusal
    assert sorted(file.name for file in (path / ".hoodie/timeline").iterdir()) == timeline


def pending(path):
    return NativeTable(Source(f"file://{path}", str(path))).timeline().pending


def test_writers_are_told_of_a_killed_clustering_and_maintain_ends_it(spark, path, clean_session):
    with pytest.raises(Killed):
        services.cluster(spark, str(path), order_by="rank", options=QUICK, progress=kill_at("scheduled"))
    (begun,) = begun_clusterings(f"file://{path}")
    made = [(4, 1, 99, [3.0], bytearray(content(3, 70)), (bytearray(content(3, 60)),))]
    kind = "id INT, ts LONG, rank INT, vec ARRAY<FLOAT>, img BINARY, doc STRUCT<scan: BINARY>"
    rows = planned(spark, made, kind)

    def write():
        hv.write(rows, str(path), record_key="id", ordering="ts", blobs=["img", "doc.scan"], options=QUICK)

    with pytest.raises(WriteError, match=r"a clustering of .* has been scheduled and has not completed") as refused:
        write()
    assert f"hudi-vector maintain --table file:{path}" in str(refused.value).replace("file://", "file:")
    assert "\n" not in str(refused.value)
    assert pending(path) == {*begun.instants}, "the refused write left an instant"
    ended, _ = services.maintain(spark, str(path), steps=["figures"]).steps
    assert (ended.step, ended.state) == ("end_killed_runs", "done"), ended.text
    assert f"in its clustering {begun.instants[0]}, which was completed" in ended.text
    assert answers(spark, path) == ROWS
    write()
    assert answers(spark, path) == {**ROWS, 4: (99, content(3, 70), content(3, 60))}


def test_no_clustering_completes_after_a_write_that_was_killed(spark, path, clean_session, caplog):
    """Hudi rolls back no write that was killed before a commit of others, and refuses every later write then."""

    def kill_write():
        with hudi_client(spark, f"file:{path}", QUICK) as client:
            return client.startCommit("commit")

    def write(number):
        made = [(number, 1, 99, [3.0], bytearray(b"new"), (bytearray(b"scan"),))]
        kind = "id INT, ts LONG, rank INT, vec ARRAY<FLOAT>, img BINARY, doc STRUCT<scan: BINARY>"
        frame = planned(spark, made, kind)
        hv.write(frame, str(path), record_key="id", ordering="ts", blobs=["img", "doc.scan"], options=QUICK)

    def maintained(**more):
        return {each.step: each for each in services.maintain(spark, str(path), steps=["cluster"], **more).steps}

    with pytest.raises(Killed):
        services.cluster(spark, str(path), order_by="rank", options=QUICK, progress=kill_at("scheduled"))
    (clustering,) = pending(path)
    killed = kill_write()
    sentence = f"commit '{killed}' of .* has not completed, .* this job do not take turns by a lock; run again when"
    with pytest.raises(RefusedError, match=sentence):
        services.cluster(spark, str(path), order_by="rank", options=QUICK)
    refused = maintained()["end_killed_runs"]
    assert (refused.state, f"'{killed}'" in refused.text) == ("refused", True), refused.text
    assert pending(path) == {clustering, killed}, "the clustering completed first"
    ended = maintained(assume_single_writer=True)["end_killed_runs"]
    assert ended.state == "done", ended.text
    assert f"in its clustering {clustering}, which was completed" in ended.text
    assert pending(path) == frozenset()
    write(4)
    killed = kill_write()
    spark.sql(f"CALL run_clustering(path => '{path}')").collect()
    write(5)
    assert f"write {killed} of '{path}', which had failed or was killed, is rolled back" in caplog.text
    assert pending(path) == frozenset()
    assert answers(spark, path) == {**ROWS, **dict.fromkeys((4, 5), (99, b"new", b"scan"))}


@pytest.mark.soak
def test_a_run_killed_after_its_thresholds_is_looked_after(spark, path, clean_session):
    spark.conf.set("hoodie.storage.blob.inline.threshold", "10KB")
    before = answers(spark, path)

    def meanwhile():
        made = [(3, 1, 99, [3.0], bytearray(content(3, 70)), (bytearray(content(3, 60)),))]
        kind = "id INT, ts LONG, rank INT, vec ARRAY<FLOAT>, img BINARY, doc STRUCT<scan: BINARY>"
        frame = planned(spark, made, kind)
        hv.write(frame, str(path), record_key="id", ordering="ts", blobs=["img", "doc.scan"], options=QUICK)

    def progress(sentence):
        if sentence == "committing thresholds":
            meanwhile()
        elif sentence.startswith("committed"):
            raise Killed

    with pytest.raises(Killed):
        services.cluster(spark, str(path), options=QUICK, progress=progress)
    assert answers(spark, path)[3] == before[3], "our commit stands over a newer row"
    assert len(begun_runs(f"file://{path}")) == 1
    done = services.cluster(spark, str(path), options=QUICK)
    assert "after its commit" in done.compaction.notes[0]
    assert "1 row of other writers was restored" in done.compaction.notes[0]
    assert (done.moved_out, done.moved_in) == (0, 0)
    assert answers(spark, path) == {**before, 3: (99, content(3, 70), content(3, 60))}
    assert begun_runs(f"file://{path}") == []
    assert not any((path / ".hoodie/blob_service/v1/staging").iterdir())


def test_a_run_killed_once_it_removed_what_it_staged_has_ended(spark, path, clean_session, monkeypatch):
    spark.conf.set("hoodie.storage.blob.inline.threshold", "2KB")
    before, removed = answers(spark, path), Storage.remove_folder

    def remove_and_die(storage, folder):
        holds_list = (Path(folder.removeprefix("file://")) / "by-size").is_dir()
        removed(storage, folder)
        if holds_list:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "remove_folder", remove_and_die)
        with pytest.raises(Killed):
            services.cluster(spark, str(path), options=QUICK)
    assert services.cluster(spark, str(path), options=QUICK).is_well
    assert begun_runs(f"file://{path}") == []
    assert answers(spark, path) == before


def test_a_blob_that_was_lost_stays_where_it_is(spark, workspace):
    made = tables.fresh_path(workspace, "lost")
    for ids in ((0, 1), (2,)):
        frame = planned(spark, [(i, 1, bytearray(content(i, 3000))) for i in ids], "id INT, ts LONG, img BINARY")
        hv.write(frame, made, record_key="id", ordering="ts", blobs={"img": {"inline.threshold": "0"}}, options=QUICK)
    lost = spark.read.format("hudi").load(str(made)).where("id = 2").selectExpr("img.reference.external_path").first()
    os.remove(lost[0].removeprefix("file://"))
    assert services.cluster(spark, made, assume_single_writer=True, options=QUICK).moved_in == 3
    found = spark.read.format("hudi").load(str(made)).selectExpr("id", "img.type", "try_read_blob(img)").collect()
    kinds = {row[0]: (row[1], None if row[2] is None else bytes(row[2])) for row in found}
    assert kinds == {0: ("INLINE", content(0, 3000)), 1: ("INLINE", content(1, 3000)), 2: ("OUT_OF_LINE", None)}


def test_a_plan_names_a_blob_that_moves_into_its_row_a_few_times(spark, path):
    """Spark plans in proportion: named by each of the places where `read_blob` needs it, it was there 3,309 times."""
    table, settings = BlobTable.of(spark, str(path)), replace(session_settings(spark), inline_threshold=2048)
    _, into = _flags(table, settings)
    rows = _with_inline(table.frame, table, into)
    assert (list(into), rows.schema) == (["img", "doc.scan"], table.frame.schema)
    assert rows._jdf.queryExecution().analyzed().toString().count("element_at(") < 500


CENTRES = np.eye(4, 8, dtype=np.float32) * 20
LOCK = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def vector_rows(spark, ids, ts):
    """Rows whose vectors lie near one of four points, at random, some without a vector."""
    chance = np.random.default_rng(ts)
    label = chance.integers(0, 4, len(ids))
    vectors = CENTRES[label] + chance.normal(size=(len(ids), 8)).astype(np.float32)
    made = [
        (
            i,
            ts,
            f"p{i % 2}",
            int(at),
            None if i % 50 == 7 else vector.tolist(),
            bytearray(content(i + ts, 40 + i % 200)),
        )
        for i, at, vector in zip(ids, label, vectors, strict=True)
    ]
    kind = "id INT, ts LONG, part STRING, label INT, vec ARRAY<FLOAT>, img BINARY"
    return planned(spark, made, kind).coalesce(1)


def put(spark, path, ids, ts, **more):
    blobs = {"img": {"inline.threshold": "100"}}
    frame = vector_rows(spark, ids, ts)
    options = {**QUICK, **more.pop("options", {})}
    operation = "upsert" if path.exists() else "bulk_insert"
    hv.write(frame, str(path), record_key="id", ordering="ts", partition_by="part", vectors={"vec": 8}, blobs=blobs,
             operation=operation, options=options, **more)  # fmt: skip


def whole_rows(spark, path, as_of=None):
    """Everything that rows say, Hudi's own columns among it, by id; vectors and blobs as their bytes."""
    reader = spark.read.format("hudi")
    frame = (reader.option("as.of.instant", as_of) if as_of else reader).load(str(path)).drop("_hoodie_file_name")
    found = {}
    for row in frame.selectExpr("*", "read_blob(img) content").collect():
        assert row["id"] not in found
        vector = None if row["vec"] is None else np.asarray(row["vec"], np.float32).tobytes()
        found[row["id"]] = {**row.asDict(recursive=True), "vec": vector}
    return found


def contents(found):
    """The rows without what tells where and when they were written."""
    gone = ("_hoodie_commit_time", "_hoodie_commit_seqno", "img")
    return {i: {name: value for name, value in row.items() if name not in gone} for i, row in found.items()}


def label_changes(files):
    """How often the label changes from row to row, over all files; rows without a vector come first."""
    changes = 0
    for file in files:
        table = pq.read_table(file, columns=["label", "vec"]).to_pylist()
        there = [row["vec"] is not None for row in table]
        assert there == sorted(there)
        labels = [row["label"] for row in table if row["vec"] is not None]
        changes += sum(a != b for a, b in itertools.pairwise(labels))
    return changes


@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.hudi_defaults), "mor"])
def test_rows_lie_in_the_order_of_their_vectors(spark, workspace, table_type):
    path = tables.fresh_path(workspace, "by_vector")
    put(spark, path, range(400), 1, table_type=table_type)
    put(spark, path, range(0, 400, 3), 2)
    gone = spark.read.format("hudi").load(str(path)).where("id % 40 = 5").drop("img", "vec")
    hv.write(gone, str(path), record_key="id", operation="delete", options=QUICK)
    assert bool(list(path.glob("p*/.*.log.*"))) == (table_type == "mor")
    before = whole_rows(spark, path)
    schema = spark.read.format("hudi").load(str(path)).schema.json()

    def meanwhile():
        put(spark, path, [1, 4, 1000], 3, options=LOCK)
        before.update(whole_rows(spark, path))

    told = []
    waiting = [meanwhile]

    def progress(sentence):
        told.append(sentence)
        if sentence == "committing the order" and waiting:
            waiting.pop()()

    done = services.cluster(spark, str(path), order_by="vec", options={**QUICK, **LOCK}, progress=progress)
    assert told.count("committing the order") == 2, "another writer came in between"
    assert (len(done.instants), done.is_well) == (1, True)
    assert whole_rows(spark, path, done.instants[0]) == before
    assert spark.read.format("hudi").load(str(path)).schema.json() == schema
    ordered = list(path.glob(f"p*/*_{done.instants[0]}.parquet"))
    assert len(ordered) == 2
    assert label_changes(ordered) < 50
    assert hv.blobs.verify(None, str(path)).to_pylist() == []
    # Containers were repacked in the order of the rows, by an upsert that changed nothing else, and rows can be written.
    put(spark, path, [2, 1001], 4)
    after, before = contents(whole_rows(spark, path)), contents(before)
    assert after.keys() == {*before, 1001}
    assert {i for i in after if after[i] != before.get(i)} == {2, 1001}


def test_an_order_of_vectors_that_was_killed_in_its_commit_is_rolled_back(spark, workspace):
    path = tables.fresh_path(workspace, "by_vector_killed")
    put(spark, path, range(40), 1)
    before, table = whole_rows(spark, path), f"file://{path}"
    planned = services.cluster(spark, str(path), order_by="vec", dry_run=True, options={**QUICK, **LOCK}).plan_id
    with hudi_client(spark, table, {**QUICK, **LOCK}) as client:
        instant = client.startCommit("replacecommit")
    publish_clustering(replace(read_clustering(table, planned), state=RUNNING, instants=(instant,)))

    def ended():
        step, _ = services.maintain(spark, str(path), steps=["figures"]).steps
        assert (step.step, step.state) == ("end_killed_runs", "done"), step.text
        return step.text, NativeTable(Source(table, str(path))).timeline().pending, len(begun_clusterings(table))

    text, *left = ended()
    assert f"in its clustering {instant}, which stays until a writer of the table rolls it back" in text
    assert left == [{instant}, 1]
    beat = path / ".hoodie/.heartbeat" / instant
    os.utime(beat, (beat.stat().st_mtime - 121,) * 2)
    text, *left = ended()
    assert f"in its clustering {instant}, which was rolled back" in text
    assert left == [frozenset(), 0]
    assert whole_rows(spark, path) == before


def test_rows_stay_in_the_buckets_of_their_index(spark, workspace):
    path = str(tables.fresh_path(workspace, "buckets"))
    buckets = {**QUICK, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    rows = [(i, 10 - i, [float(i)]) for i in range(10)]
    frame = planned(spark, rows, "id INT, rank INT, vec ARRAY<FLOAT>")
    hv.write(frame, path, record_key="id", vectors={"vec": 1}, options=buckets)
    for order in ("rank", "vec"):
        with pytest.raises(
            RefusedError, match=rf"by '{order}' would take rows out of the buckets .*; order by nothing"
        ):
            services.cluster(spark, path, order_by=order, assume_single_writer=True, options=buckets)
    assert services.cluster(spark, path, assume_single_writer=True, options=QUICK).instants == ()
    assert hv.write(frame, path, record_key="id", vectors={"vec": 1}, options=buckets).updated == 10


def test_refusals(spark, path):
    with pytest.raises(UnknownColumnError, match="nope"):
        services.cluster(spark, str(path), order_by="nope")
    with pytest.raises(InvalidArgumentError, match="rows are ordered by columns of plain values and by VECTOR columns"):
        services.cluster(spark, str(path), order_by=["rank", "doc"])
    with pytest.raises(InvalidArgumentError, match=f"{path}' has no clustering plan 'x'; a dry run publishes one"):
        services.cluster(spark, str(path), plan="x")
    with pytest.raises(InvalidArgumentError, match="has no clustering plan '7'; a dry run publishes one"):
        services.cluster(spark, str(path), plan=7)
    with pytest.raises(InvalidArgumentError, match="a plan says how rows are put in order; leave order_by out"):
        services.cluster(spark, str(path), plan="x", order_by="rank")
    with pytest.raises(RefusedError, match=r"by the vectors of 'vec' replaces .* no lock .* give assume_single_writer"):
        services.cluster(spark, str(path), order_by=["rank", "vec"])
