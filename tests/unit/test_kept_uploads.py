"""Writes that have ended are known from an earlier run; what may still change is read each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.blob_states import DAY, HOUR, NOW, OLD, BlobTable

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.uploads import manifest
from hudi_vector.errors import UnsupportedTableError
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.kept_uploads import KeptUploads
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.kept import KEPT_REFERENCES, KeptReferences

LOCAL = StorageOptions()
INSTANT = "20260101000000000"


@pytest.fixture
def table(tmp_path: Path) -> BlobTable:
    """One write in each state, each with a container that nothing refers to."""
    made = BlobTable(tmp_path.resolve() / "t", OLD)
    for state in ("open", "staged", "committed", "aborted", "unreadable"):
        upload = manifest.open_upload(made.uri, {}, lease_ms=HOUR, now_ms=OLD + len(state))
        path = made.container(upload.write_id)
        if state in ("staged", "committed"):
            staged = [WrittenContainer(path, "", "img", 100, 1, 100)]
            manifest.stage(made.uri, upload.write_id, staged, now_ms=OLD + len(state))
        if state == "committed":
            manifest.finish(made.uri, upload.write_id, INSTANT)
        if state == "aborted":
            manifest.abort(made.uri, upload.write_id)
        if state == "unreadable":
            (file,) = (made.path / manifest.UPLOADS / upload.write_id).iterdir()
            file.write_bytes(b"torn")
    return made


def run(table: BlobTable, **options: bool) -> tuple[MarkReport, int]:
    """A mark, which says what one without anything kept says, and how many manifests it opened."""
    kept = KeptUploads(table.uri, **options)
    report = find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, uploads=kept)
    plain = find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW)
    assert (report.candidates, report.kept, report.doubts) == (plain.candidates, plain.kept, plain.doubts)
    kept.save()
    return report, kept.opened


def kept_files(table: BlobTable) -> list[str]:
    return sorted(file.name for file in (table.path / KEPT_REFERENCES / "uploads").iterdir())


def test_what_has_ended_is_opened_once(table: BlobTable) -> None:
    report, opened = run(table)
    reasons = [file.reason for file in report.candidates]
    assert opened == 5
    assert any(f"was committed by instant {INSTANT}" in reason for reason in reasons)
    assert any("was aborted" in reason for reason in reasons)
    before = kept_files(table)
    for _ in range(2):
        again, opened = run(table)
        assert (again.candidates, opened) == (report.candidates, 3)
    assert kept_files(table) == before
    running = next(each for each in manifest.list_uploads(table.uri) if each.state == manifest.STAGED)
    manifest.finish(table.uri, running.write_id, INSTANT)
    assert [run(table)[1] for _ in range(2)] == [3, 2]
    assert run(table, verify=True)[1] == 5
    assert len(kept_files(table)) == 4, "the newest and the one before it"


def test_what_is_kept_outlives_the_references_beside_it(table: BlobTable) -> None:
    run(table)
    KeptReferences(table.uri).save()
    assert run(table)[1] == 3


def test_manifests_that_are_gone_are_forgotten(table: BlobTable) -> None:
    run(table)
    ended = next(each for each in manifest.list_uploads(table.uri) if each.state == manifest.ABORTED)
    for file in (table.path / manifest.UPLOADS / ended.write_id).iterdir():
        file.unlink()
    (table.path / manifest.UPLOADS / ended.write_id).rmdir()
    report, opened = run(table)
    assert opened == 3
    assert any(f"there is no manifest of its write '{ended.write_id}'" in file.reason for file in report.candidates)


@pytest.mark.parametrize("which", ["ended-", "00000000-"])
def test_what_is_damaged_is_read_anew(table: BlobTable, which: str) -> None:
    run(table)
    for name in kept_files(table):
        if name.startswith(which):
            (table.path / KEPT_REFERENCES / "uploads" / name).write_bytes(b"torn")
    assert [run(table)[1] for _ in range(2)] == [5, 3]


def test_of_another_version_they_are_refused(table: BlobTable) -> None:
    run(table)
    for name in kept_files(table):
        file = table.path / KEPT_REFERENCES / "uploads" / name
        file.write_bytes(file.read_bytes().replace(b"ended-uploads 1", b"ended-uploads 2", 1))
    with pytest.raises(UnsupportedTableError, match="has version 2"):
        KeptUploads(table.uri)


def test_tables_that_share_blobs_are_kept_apart(table: BlobTable, tmp_path: Path) -> None:
    other = BlobTable(tmp_path.resolve() / "other", OLD)
    manifest.abort(other.uri, manifest.open_upload(other.uri, {}, lease_ms=HOUR, now_ms=OLD).write_id)
    for opened in (6, 3):
        kept = KeptUploads(table.uri)
        find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW, uploads=kept, other_tables=[other.uri])
        kept.save()
        assert kept.opened == opened
    assert [each.state for each in kept(other.uri, LOCAL)] == [manifest.ABORTED]
