"""Marks of real table states, swept: what any retained file needs stays, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blob_states import DAY, NOW, OLD, BlobTable, blob, write_id
from support.swept import dying

from hudi_vector.blobs.uploads import manifest
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.files import publish_mark, read_mark
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.files import read_here
from hudi_vector.table_services.result import CleanResult
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.trash.trash import list_trash, restore

LOCAL = StorageOptions()
STORAGE = open_storage("file:///", LOCAL)


def mark(table: BlobTable) -> MarkReport:
    return find_unneeded(str(table.path), grace_ms=DAY, now_ms=NOW)


def swept(table: BlobTable, report: MarkReport, at: int = NOW) -> CleanResult:
    return sweep(report, lambda: mark(table), limits=SweepLimits(100), now_ms=lambda: at)


def refer(table: BlobTable, path: str, file_id: str = "f1", form: str | None = None) -> None:
    instant = table.instant()
    if form is None:
        table.base(file_id, instant, {1: blob(f"{table.uri}/{path}")})
    else:
        table.log(file_id, instant, {1: blob(f"{table.uri}/{path}")}, form)
    table.complete(instant)


def in_place(table: BlobTable) -> set[str]:
    files = (table.path / ".hoodie/blobs").rglob("*")
    return {str(file.relative_to(table.path)) for file in files if file.is_file()}


def test_a_published_mark_is_swept_later(table: BlobTable) -> None:
    dead, live, logged = (table.container(write_id(OLD, number)) for number in range(3))
    refer(table, live)
    refer(table, logged, form="avro")
    name = publish_mark(mark(table))
    result = swept(table, read_mark(str(table.path), name))
    assert [file.path for file in result.deleted] == [dead]
    assert in_place(table) == {live, logged}
    assert {file.path for file in result.kept} == {live, logged}
    assert mark(table).candidates == ()
    restore(str(table.path))
    assert in_place(table) == {dead, live, logged}
    assert mark(table).candidates == (), "a restored file is young"


@pytest.mark.parametrize("form", [None, "avro", "parquet"])
def test_a_commit_between_mark_and_sweep_keeps_what_it_refers_to(form: str | None, table: BlobTable) -> None:
    dead, revived, live = (table.container(write_id(OLD, number)) for number in range(3))
    refer(table, live)
    report = mark(table)
    refer(table, revived, form=form)
    result = swept(table, report)
    assert [file.path for file in result.deleted] == [dead]
    assert in_place(table) == {revived, live}
    assert {file.path: "refers to it" in file.reason for file in result.kept} == {live: True, revived: True}


def test_an_ingest_that_begins_between_mark_and_sweep_keeps_everything_it_may_refer_to(table: BlobTable) -> None:
    dead = table.container(write_id(OLD, 1))
    report = mark(table)
    assert len(report.candidates) == 1
    table.begin(table.instant())
    assert swept(table, report).deleted == []
    assert in_place(table) == {dead}


def test_a_writer_between_upload_and_commit_is_safe(table: BlobTable) -> None:
    upload = manifest.open_upload(str(table.path), {}, lease_ms=60 * DAY, now_ms=OLD)
    uploaded = table.container(upload.write_id)
    assert mark(table).candidates == ()
    manifest.abort(str(table.path), upload.write_id)
    assert [file.path for file in swept(table, mark(table)).deleted] == [uploaded]


def test_a_data_file_that_cannot_be_read_any_more_keeps_everything(table: BlobTable) -> None:
    dead, live = (table.container(write_id(OLD, number)) for number in range(2))
    refer(table, live)
    report = mark(table)
    (table.path / "f1_0-1-2_20300101000000000.parquet").write_bytes(b"cut off")
    result = swept(table, report)
    assert (result.deleted, len(result.doubts)) == ([], 1)
    assert in_place(table) == {dead, live}


@pytest.mark.parametrize("after", [True, False])
def test_killed_anywhere_no_reference_dangles(after: bool, tmp_path: Path) -> None:
    for step in range(1, 9):
        table = BlobTable(tmp_path.resolve() / str(step), OLD)
        dead = [table.container(write_id(OLD, number)) for number in range(3)]
        live = table.container(write_id(OLD, 9))
        refer(table, live)
        report = mark(table)
        with dying(step, after):
            swept(table, report)
        left = sorted(in_place(table) - {live})
        if left:
            refer(table, left[0])
        swept(table, report, NOW + LEASE_MS)
        assert in_place(table) == {live, *left[:1]}
        restore(str(table.path))
        assert in_place(table) == {live, *dead}


def test_what_is_in_the_trash_and_needed_is_told_and_stays_there(table: BlobTable) -> None:
    revived, dead = (table.container(write_id(OLD, number)) for number in range(2))
    sweep_id = swept(table, mark(table)).sweep_id
    trashed = {file.path: file for file in list_trash(STORAGE, table.uri, sweep_id)}
    refer(table, revived)
    report = mark(table)
    (dangling,) = report.dangling
    assert (dangling.path, dangling.bytes, report.kept, report.doubts) == (revived, 100, (), ())
    assert dangling.reason.endswith("refers to it, and it is in the trash, from where restore_blobs brings it back")
    assert report.notes == (
        f"1 file that data files refer to is in the trash, such as '{revived}'; restore_blobs brings back what was "
        "swept",
    )
    assert read_mark(table.uri, publish_mark(report)) == report
    assert [row for row in CleanResult.of(report, None).rows() if row["action"] == "dangling"] == [
        {"path": revived, "bytes": 100, "action": "dangling", "reason": dangling.reason}
    ]
    place = ServiceTable(None, table.uri, table.uri, LOCAL, DAY, {})  # type: ignore[arg-type] # nothing asks Spark
    (table.path / "stray.csv").write_bytes(b"")
    doubtful = mark(table)
    expired = place.empty_trash(0, [report, doubtful], NOW + DAY, dry_run=False)
    assert (expired.gone, {file.path for file in expired.kept}) == ([], {file.trash_path for file in trashed.values()})
    reasons = {file.path: file.reason for file in expired.kept}
    assert reasons[trashed[revived].trash_path] == f"its time in the trash is over, but {dangling.reason}"
    assert "but a doubt keeps everything: 'file://" in reasons[trashed[dead].trash_path]
    expired = place.empty_trash(0, [report], NOW + DAY, dry_run=False)
    assert [file.path for file in expired.gone] == [trashed[dead].trash_path]
    assert [file.path for file in expired.kept] == [trashed[revived].trash_path]
    restore(table.uri)
    assert in_place(table) == {revived}
    assert mark(table).dangling == ()


def test_what_is_gone_is_no_file_outside(table: BlobTable, tmp_path: Path) -> None:
    gone = table.container(write_id(OLD, 1))
    (table.path / gone).unlink()
    refer(table, gone)
    root = tmp_path.resolve() / "media"
    root.mkdir()
    instant = table.instant()
    table.base("f2", instant, {1: blob(f"{root}/lost.png"), 2: blob(str(tmp_path / "elsewhere"))})
    table.complete(instant)
    report = mark(table)
    assert [(file.path, file.reason.rpartition(", and ")[2]) for file in report.dangling] == [
        (gone, "there is no such file")
    ]
    assert {file.path for file in report.kept} == {f"file://{root}/lost.png", f"file://{tmp_path}/elsewhere"}
    assert report.notes == (
        f"1 file that data files refer to is gone, such as '{gone}'; hv.blobs.verify lists the rows that have them now",
    )
    report = find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, managed_roots=[str(root)])
    assert [file.path for file in report.dangling] == [gone, f"file://{root}/lost.png"]
    assert [file.path for file in report.kept] == [f"file://{tmp_path}/elsewhere"]


def test_what_comes_after_the_area_was_listed_neither_dangles_nor_lies_outside(table: BlobTable) -> None:
    made: list[str] = []

    def uploading(files, options):  # type: ignore[no-untyped-def]
        if not made:
            made.append(table.container(write_id(OLD, 1)))
            refer(table, made[0])
        yield from read_here(files, options)

    refer(table, table.container(write_id(OLD, 2)), "f2")
    report = find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, reader=uploading)
    assert (report.dangling, len(report.kept), report.notes) == ((), 1, ())


def test_a_trashed_file_is_known_at_another_mount(table: BlobTable, tmp_path: Path) -> None:
    dead = table.container(write_id(OLD, 1))
    swept(table, mark(table))
    instant = table.instant()
    table.base("f1", instant, {1: blob(f"file://{tmp_path}/mounted/{dead}")})
    table.complete(instant)
    assert [file.path for file in mark(table).dangling] == [dead]
