"""Notes of writes and services go when they are a month old and nobody needs them, and never before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.blob_states import DAY, HOUR, NOW, BlobTable, blob, write_id
from support.swept import dying

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads import manifest
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.cleaning.forget import NOTES_KEPT_MS, forget_notes, forget_plans
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MARKS, MarkReport
from hudi_vector.table_services.marking.files import list_marks, publish_mark, read_mark
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.clustering import ClusteringPlan
from hudi_vector.table_services.plans.clustering_files import (
    CLUSTERINGS,
    ClusteringRun,
    begun_clusterings,
    publish_clustering,
    read_clustering,
)
from hudi_vector.table_services.plans.compaction import CompactionPlan
from hudi_vector.table_services.plans.compaction_files import (
    COMPACTIONS,
    PendingCommit,
    begun_runs,
    publish_plan,
    publish_run,
    read_run,
)
from hudi_vector.table_services.plans.plan_files import ENDED, RUNNING
from hudi_vector.table_services.result import CleanResult
from hudi_vector.table_services.trash.sweep_record import SWEEPS, ended_sweeps, unfinished_sweeps
from hudi_vector.table_services.trash.trash import list_trash, restore

LOCAL = StorageOptions()
STORAGE = open_storage("file:///", LOCAL)
MONTH = NOTES_KEPT_MS
LONG_AGO = NOW - 2 * MONTH


def mark(table: BlobTable, now_ms: int = NOW) -> MarkReport:
    return find_unneeded(table.uri, grace_ms=DAY, now_ms=now_ms)


def swept(table: BlobTable, report: MarkReport, at: int = NOW) -> CleanResult:
    return sweep(report, lambda: mark(table, at), limits=SweepLimits(100), now_ms=lambda: at)


def forget(table: BlobTable, at: int = NOW, found: MarkReport | None = None) -> list[str]:
    uploads = manifest.list_uploads(table.uri)
    return forget_notes(mark(table, at) if found is None else found, uploads)


def wrote(table: BlobTable, state: str = manifest.COMMITTED, at: int = LONG_AGO) -> tuple[str, str]:
    """A write in some state, with a container that nothing refers to."""
    upload = manifest.open_upload(table.uri, {}, lease_ms=HOUR, now_ms=at)
    path = table.container(upload.write_id)
    if state in (manifest.STAGED, manifest.COMMITTED):
        manifest.stage(table.uri, upload.write_id, [WrittenContainer(path, "", "img", 100, 1, 100)], now_ms=at)
    if state == manifest.COMMITTED:
        manifest.finish(table.uri, upload.write_id, "20260101000000000")
    if state == manifest.ABORTED:
        manifest.abort(table.uri, upload.write_id)
    return upload.write_id, path


def gone(table: BlobTable, path: str) -> None:
    (table.path / path).unlink()


def test_marks_stay_for_a_month_and_while_their_files_are_in_the_trash(table: BlobTable) -> None:
    def published(at: int) -> str:
        return publish_mark(mark(table, at))

    old, young = published(NOW - MONTH - 1), published(NOW - MONTH)
    assert forget(table) == [f"{MARKS}/{old}"]
    table.container(write_id(LONG_AGO, 1))
    with pytest.raises(InvalidArgumentError, match="has no mark"):
        read_mark(table.uri, old)
    assert list_marks(table.uri) == [young] == [path.name for path in (table.path / MARKS).iterdir()]
    first, other = published(NOW), published(NOW)
    swept(table, read_mark(table.uri, first))
    assert forget(table, NOW + MONTH + 1) == [f"{MARKS}/{name}" for name in sorted({young, other})]
    assert read_mark(table.uri, first).mark_id == first
    restore(table.uri)
    (record,) = ended_sweeps(STORAGE, table.uri)
    assert forget(table, NOW + MONTH + 1) == [f"{MARKS}/{first}", f"{SWEEPS}/{record}"]
    table.container(write_id(LONG_AGO, 2))
    unfinished = published(NOW)
    with dying(3, after=True):
        swept(table, read_mark(table.uri, unfinished))
    for copy in list_trash(STORAGE, table.uri):
        (table.path / copy.trash_path).unlink()
    assert [record.mark_id for record in unfinished_sweeps(STORAGE, table.uri)] == [unfinished]
    assert forget(table, NOW + 2 * MONTH) == []


def test_a_sweep_stays_for_a_month_and_while_it_has_files_in_the_trash(table: BlobTable) -> None:
    path = table.container(write_id(LONG_AGO, 1))
    swept(table, mark(table))
    (record,) = ended_sweeps(STORAGE, table.uri)
    assert forget(table, NOW + MONTH + 1) == []
    (copy,) = list_trash(STORAGE, table.uri)
    gone(table, copy.trash_path)
    assert (copy.path, forget(table, NOW + MONTH)) == (path, [])
    assert forget(table, NOW + MONTH + 1) == [f"{SWEEPS}/{record}"]
    assert list((table.path / SWEEPS).iterdir()) == []


@pytest.mark.parametrize("state", [manifest.OPEN, manifest.STAGED, manifest.COMMITTED, manifest.ABORTED])
def test_a_manifest_goes_with_the_last_of_its_containers(state: str, table: BlobTable) -> None:
    name, path = wrote(table, state)
    assert forget(table) == []
    swept(table, mark(table))
    assert forget(table) == [], "it is in the trash"
    restore(table.uri)
    table.touch(table.path / path, LONG_AGO)
    assert forget(table) == []
    swept(table, mark(table, NOW + 2 * DAY), NOW + 2 * DAY)
    (copy,) = list_trash(STORAGE, table.uri)
    assert copy.path == path
    gone(table, copy.trash_path)
    assert forget(table, NOW + 3 * DAY) == [], "a sweep names it"
    assert f"{manifest.UPLOADS}/{name}" not in forget(table, NOW + MONTH + 3 * DAY)
    assert forget(table, NOW + MONTH + 3 * DAY) == [f"{manifest.UPLOADS}/{name}"]
    assert manifest.list_uploads(table.uri) == []
    assert forget(table, NOW + MONTH + 3 * DAY) == []


def test_a_manifest_stays_while_its_write_is_young_or_may_commit(table: BlobTable) -> None:
    young, path = wrote(table, at=NOW - MONTH)
    gone(table, path)
    running = manifest.open_upload(table.uri, {}, lease_ms=3 * MONTH, now_ms=LONG_AGO).write_id
    torn, path = wrote(table, manifest.OPEN)
    gone(table, path)
    (file,) = (table.path / manifest.UPLOADS / torn).iterdir()
    file.write_bytes(b"torn")
    assert forget(table) == []
    assert forget(table, NOW + 1) == [f"{manifest.UPLOADS}/{young}"]
    assert {each.write_id for each in manifest.list_uploads(table.uri)} == {running, torn}


def test_manifests_stay_where_a_data_file_refers_to_their_containers_or_there_is_a_doubt(table: BlobTable) -> None:
    name, path = wrote(table)
    instant = table.instant()
    table.base("f1", instant, {1: blob(f"{table.uri}/{path}")})
    table.complete(instant)
    assert forget(table) == []
    gone(table, path)
    found = mark(table)
    assert forget(table, found=replace(found, doubts=("a file cannot be read",))) == []
    assert forget(table, found=found) == [f"{manifest.UPLOADS}/{name}"]


def test_a_restore_after_the_mark_is_known_by_its_sweep(table: BlobTable) -> None:
    _, path = wrote(table)
    swept(table, mark(table, NOW), NOW)
    later = NOW + 2 * MONTH
    found = mark(table, later)
    restore(table.uri)
    (record,) = ended_sweeps(STORAGE, table.uri)
    assert (table.path / path).is_file()
    assert forget(table, found=found) == [f"{SWEEPS}/{record}"]
    assert forget(table, later) == [], "the container is in its place"


def test_a_manifest_that_a_killed_compaction_asks_for_stays(table: BlobTable) -> None:
    name, path = wrote(table)
    gone(table, path)
    plan = CompactionPlan(new_write_id(LONG_AGO), table.uri, LONG_AGO, ("img",), (), 1, 1)
    pending = PendingCommit(name, "token", ())
    run = publish_run(replace(publish_plan(plan), state=RUNNING, pending=pending))
    assert forget(table) == []
    publish_run(replace(run, state=ENDED, pending=None))
    assert forget(table) == [f"{manifest.UPLOADS}/{name}"]


def clustering(table: BlobTable, at: int) -> ClusteringRun:
    compaction = CompactionPlan(new_write_id(at), table.uri, at, ("img",), (), 1, 1)
    plan = ClusteringPlan(new_write_id(at), table.uri, at, (), (), (), (), BlobSettings(), 0, 0, compaction, "{}")
    return publish_clustering(ClusteringRun(plan))


def test_plans_go_a_month_after_they_were_made_unless_a_run_is_at_them(table: BlobTable) -> None:
    old, young = clustering(table, NOW - MONTH - 1), clustering(table, NOW - MONTH)
    ended, asked = (clustering(table, LONG_AGO) for _ in range(2))
    publish_clustering(replace(ended, state=ENDED))
    running = publish_clustering(replace(clustering(table, LONG_AGO), state=RUNNING, instants=("1",)))
    removed = forget_plans(table.uri, now_ms=NOW, keep=asked.plan.plan_id)
    wanted = [f"{CLUSTERINGS}/{run.plan.plan_id}" for run in (old, ended)]
    wanted += [f"{COMPACTIONS}/{run.plan.compaction.plan_id}" for run in (old, ended, asked)]
    assert sorted(removed) == sorted(wanted)
    assert begun_clusterings(table.uri) == [running]
    assert read_clustering(table.uri, young.plan.plan_id) == young
    with pytest.raises(InvalidArgumentError, match="has no clustering plan"):
        read_clustering(table.uri, old.plan.plan_id)


def killed_anywhere(act: Callable[[], object], holds: Callable[[], bool]) -> int:
    """Kill an act at each change of storage, one after the other; gives at how many."""
    step = 0
    while True:
        step += 1
        with dying(step, after=False) as death:
            act()
        assert holds()
        if death.steps < step:
            return step


def test_a_removal_that_is_killed_leaves_no_older_state(table: BlobTable) -> None:
    plan = CompactionPlan(new_write_id(LONG_AGO), table.uri, LONG_AGO, ("img",), (), 1, 1)
    run = publish_run(replace(publish_plan(plan), state=RUNNING, pending=PendingCommit("1", "token", ())))
    publish_run(replace(run, state=ENDED, pending=None))
    steps = killed_anywhere(lambda: forget_plans(table.uri, now_ms=NOW), lambda: begun_runs(table.uri) == [])
    assert steps > 2
    with pytest.raises(InvalidArgumentError, match="has no"):
        read_run(table.uri, plan.plan_id)
    wrote(table)
    swept(table, mark(table))
    (copy,) = list_trash(STORAGE, table.uri)
    gone(table, copy.trash_path)
    later = NOW + 2 * MONTH

    def nothing_is_running() -> bool:
        states = {each.state for each in manifest.list_uploads(table.uri)}
        return states <= {manifest.COMMITTED} and unfinished_sweeps(STORAGE, table.uri) == []

    assert killed_anywhere(lambda: forget(table, later), nothing_is_running) > 2
    forget(table, later)
    assert manifest.upload_ids(table.uri) == []
    assert ended_sweeps(STORAGE, table.uri) == []
