"""Plans of blob compactions on storage, and how far runs of them are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.blob_states import BlobTable, write_id

from hudi_vector.blobs.names import new_write_id
from hudi_vector.errors import DataFileError, InvalidArgumentError
from hudi_vector.storage import normalise
from hudi_vector.table.timeline import Instant
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer
from hudi_vector.table_services.plans.compaction_files import (
    PendingCommit,
    begun_runs,
    new_run,
    publish_plan,
    publish_run,
    read_run,
    unended_runs,
)
from hudi_vector.table_services.plans.compaction_result import CompactResult
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING


def plan(table, at=0):
    containers = (
        PlannedContainer("a", "d=1", "img", 10, 3, "repack", "why", 0),
        PlannedContainer("b", "", "doc.img", 10, 9, "keep", "why not"),
    )
    return CompactionPlan(new_write_id(at), table, at, ("doc.img", "img"), containers, 100, 50, deduplicate=True)


def test_a_run_is_read_back_in_each_of_its_states(tmp_path):
    table = normalise(str(tmp_path))
    made = publish_plan(plan(table))
    assert read_run(table, made.plan.plan_id) == made
    assert begun_runs(table) == []
    pending = PendingCommit(new_write_id(1), "token", (Instant("1", "2", "commit"), Instant("3", "4", "deltacommit")))
    running = publish_run(replace(made, state=RUNNING, pending=pending))
    later = publish_run(replace(publish_plan(plan(table, 5)), state=RUNNING))
    assert begun_runs(table) == [running, later]
    assert unended_runs(table) == [replace(run, plan=replace(run.plan, containers=())) for run in (running, later)]
    ended = publish_run(replace(running, state=ENDED, pending=None))
    assert read_run(table, made.plan.plan_id) == ended
    assert begun_runs(table) == [later]


def test_a_run_that_was_killed_while_its_list_was_sent_can_be_ended(tmp_path):
    """The note of its first commit may be durable before the list of its containers is."""
    table = normalise(str(tmp_path))
    run, _ = new_run(plan(table))
    pending = PendingCommit(new_write_id(1), "token", ())
    noted = publish_run(replace(run, pending=pending))
    with pytest.raises(DataFileError, match="cannot be read"):
        begun_runs(table)  # a mark then takes it for a doubt, and keeps everything
    (found,) = unended_runs(table)
    assert (found.pending, found.generation) == (pending, noted.generation)
    publish_run(replace(found, state=ENDED, pending=None))
    assert (begun_runs(table), unended_runs(table)) == ([], [])


@pytest.mark.parametrize("name", ["x", "../../etc", "19700101000000007_0123456789ab"])
def test_there_is_no_such_plan(tmp_path, name):
    with pytest.raises(InvalidArgumentError, match="has no compaction plan"):
        read_run(str(tmp_path), name)


def test_the_lines_of_a_result():
    made = plan("file:///t")
    result = CompactResult("/t", list(made.candidates), list(made.kept), [], bytes=3, plan_id="p", dry_run=True)
    dry = replace(result, containers_before=1, containers_after=1, refusal="why")
    assert not dry.is_well
    assert list(dry.lines()) == [
        "the run would be refused: why",
        "1 container would become about 1, 3 bytes copied, 1 kept",
        "plan: p",
    ]
    done = replace(
        dry, dry_run=False, refusal=None, doubts=("odd",), notes=("new",), commits=("1",), references=2,
        reclaimable_bytes=10, deduplicated_bytes=4, restored_rows=5,
    )  # fmt: skip
    assert list(done.lines()) == [
        "look at this: odd",
        "note: new",
        "1 container became 1, 3 bytes copied, 2 references rewritten by 1 commit, 1 kept",
        "10 bytes can go when older snapshots are gone",
        "4 bytes of equal blobs were not stored again",
        "5 rows that other writers changed meanwhile were restored",
        "plan: p",
    ]
    assert [row["action"] for row in done.rows()] == ["repack", "keep"]


def test_the_cleaner_leaves_what_a_killed_run_repacked(tmp_path):
    table = BlobTable(tmp_path.resolve() / "t", 1_000_000_000_000)
    path = table.container(write_id(1_000_000_000_000, 1), size=70)
    instant = table.instant()
    table.base("f1", instant, {})
    table.complete(instant, "commit")
    containers = (PlannedContainer(path, "", "img", 70, 3, "repack", "why", 0),)
    run = publish_plan(replace(plan(normalise(str(table.path))), containers=containers))

    def candidates():
        report = find_unneeded(str(table.path), grace_ms=1)
        assert report.doubts == ()
        return [file.path for file in report.candidates], [file.reason for file in report.kept]

    assert candidates() == ([path], [])
    run = publish_run(replace(run, state=RUNNING))
    held = f"compaction '{run.plan.plan_id}' repacks it and has not ended; run compact_blobs to end it"
    assert candidates() == ([], [held])
    publish_run(replace(run, state=ENDED))
    assert candidates() == ([path], [])
