"""Marks of real table states, swept: what any retained file needs stays, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blob_states import DAY, NOW, OLD, BlobTable, blob, write_id
from support.swept import dying

from hudi_vector.blobs import manifest
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark import find_unneeded
from hudi_vector.table_services.mark_files import publish_mark, read_mark
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.result import CleanResult
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.sweep import sweep
from hudi_vector.table_services.trash import restore


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
