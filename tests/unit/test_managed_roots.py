"""Files outside of the blob area, below roots that the user lists: judged, swept, restored, never by mistake."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.blob_states import BlobTable, blob, write_id
from support.swept import dying

from hudi_vector.blobs.uploads import manifest
from hudi_vector.blobs.uploads.external_files import Pins, file_infos
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits, why_not_ours
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.files import publish_mark, read_mark
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.result import CleanResult
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.trash.sweep_record import SWEEPS
from hudi_vector.table_services.trash.trash import OUTSIDE_TRASH, expire, restore

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
OLD = NOW - 30 * DAY
LOCAL = StorageOptions()


class Rooted:
    """A table with a root of media files beside it, of which it refers to one."""

    def __init__(self, folder: Path) -> None:
        self.table = BlobTable(folder.resolve() / "t", OLD)
        self.root = folder.resolve() / "media"
        self.kept, self.orphan, self.deep = (self.put(name) for name in ("kept.png", "orphan.png", "a/b/deep.png"))
        self.own = self.table.container(write_id(OLD, 1))
        instant = self.table.instant()
        self.table.base("f1", instant, {1: blob(self.kept)})
        self.table.complete(instant)

    def put(self, name: str) -> str:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
        self.table.touch(path, OLD)
        return f"file://{path}"

    def mark(self, *roots: str) -> MarkReport:
        return find_unneeded(self.table.uri, grace_ms=DAY, managed_roots=roots or [str(self.root)])

    def sweep(self, report: MarkReport | None = None, **more: object) -> CleanResult:
        arguments = {"limits": SweepLimits(100), "now_ms": lambda: NOW, **more}
        return sweep(report or self.mark(), self.mark, **arguments)  # type: ignore[arg-type]

    def contents(self) -> dict[str, bytes]:
        """All files, those in the trash by the place they came from."""
        trash = [*(self.table.path / OUTSIDE_TRASH).glob("*/file/**/*")]
        found = {f"/{'/'.join(file.parts[file.parts.index('file') + 1 :])}": file for file in trash if file.is_file()}
        there = {str(file): file for file in self.root.rglob("*") if file.is_file()}
        assert not found.keys() & there.keys(), "a local file is in exactly one place"
        return {f"file://{path}": file.read_bytes() for path, file in {**found, **there}.items()}


@pytest.fixture
def rooted(tmp_path: Path) -> Rooted:
    return Rooted(tmp_path)


def test_without_a_root_they_are_reported_and_stay(rooted: Rooted) -> None:
    report = find_unneeded(rooted.table.uri, grace_ms=DAY)
    assert [file.path for file in report.candidates] == [rooted.own]
    assert [(file.path, file.reason[:16]) for file in report.kept] == [(rooted.kept, "managed_outside:")]


def test_to_the_trash_and_back(rooted: Rooted) -> None:
    content = rooted.contents()
    dry = rooted.sweep(dry_run=True)
    result = rooted.sweep()
    assert result.rows() == dry.rows()
    assert {file.path for file in result.deleted} == {rooted.own, rooted.orphan, rooted.deep}
    assert sorted(file.name for file in rooted.root.rglob("*.png")) == ["kept.png"]
    assert rooted.contents() == content
    back = restore(rooted.table.uri, paths=[rooted.deep], managed_roots=[str(rooted.root)])
    assert [file.path for file in back.restored] == [rooted.deep]
    assert [file.path for file in rooted.mark().candidates] == [], "restored files are new"
    gone = expire(rooted.table.uri, window_ms=DAY, now_ms=NOW + DAY + 1).gone
    assert {file.path.rpartition("/")[2] for file in gone} == {"orphan.png", rooted.own.rpartition("/")[2]}
    assert rooted.contents() == {path: content[path] for path in (rooted.kept, rooted.deep)}


def test_the_share_counts_them_too(rooted: Rooted) -> None:
    report = rooted.mark()
    assert report.total_bytes == 100 + sum(map(len, rooted.contents().values()))
    assert report.roots == (f"file://{rooted.root}",)
    assert read_mark(rooted.table.uri, publish_mark(report)) == report


def test_a_root_without_files_is_named(rooted: Rooted) -> None:
    report = rooted.mark(str(rooted.root), str(rooted.root) + "s")
    assert report.notes == (
        f"no file lies below the managed root 'file://{rooted.root}s'; if there should be some, look at how it is spelt",
    )
    assert not report.doubts


def test_both_marks_must_name_the_root(rooted: Rooted) -> None:
    report, without = rooted.mark(), find_unneeded(rooted.table.uri, grace_ms=DAY)
    result = sweep(report, lambda: without, limits=SweepLimits(100), now_ms=lambda: NOW)
    assert [file.path for file in result.deleted] == [rooted.own]
    lying = replace(report, roots=())
    result = sweep(report, lambda: lying, limits=SweepLimits(100), now_ms=lambda: NOW)
    assert {file.reason for file in result.kept if file.path in (rooted.orphan, rooted.deep)} == {
        "refused: its path is not a plain path below the table's folder"
    }
    assert len(rooted.contents()) == 3


def test_links_below_a_root_are_not_followed(rooted: Rooted, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "precious.png").write_bytes(b"1")
    rooted.table.touch(away / "precious.png", OLD)
    (rooted.root / "link").symlink_to(away)
    (rooted.root / "one.png").symlink_to(away / "precious.png")
    result = rooted.sweep(trash=False)
    linked = {file.path.rpartition("/")[2]: file.reason for file in result.kept if "link" in file.reason}
    assert linked == dict.fromkeys(("precious.png", "one.png"), "refused: its path contains a symbolic link")
    assert (away / "precious.png").exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("s3://lake/media/a/x.png", None),
        ("s3://lake/media/../t/x.png", "refused: its path is not a plain path below a managed root"),
        ("s3://lake/media//x.png", "refused: its path is not a plain path below a managed root"),
        ("s3://lake/media/t/.hoodie/blobs/x", "refused: it is in a Hudi table"),
        ("s3://lake/media.png", "refused: its path is not a plain path below the table's folder"),
        ("s3://lake/media", "refused: its path is not a plain path below the table's folder"),
        ("s3a://lake/media/x.png", "refused: its path is not a plain path below the table's folder"),
    ],
)
def test_only_files_below_a_root(path: str, reason: str | None) -> None:
    storage = open_storage("file:///", LOCAL)
    assert why_not_ours(storage, "file:///t", path, ["s3://lake/media"]) == reason


def test_a_table_below_a_root_is_a_doubt(rooted: Rooted) -> None:
    BlobTable(rooted.root / "other", OLD)
    result = rooted.sweep()
    assert (result.deleted, len(result.doubts)) == ([], 1)
    assert "holds a Hudi table" in result.doubts[0]


def test_a_write_under_way_keeps_what_it_pins(rooted: Rooted) -> None:
    upload = manifest.open_upload(rooted.table.uri, {}, lease_ms=DAY)
    pins = Pins()
    pins.note([rooted.orphan], file_infos([rooted.orphan], LOCAL, lenient=False))
    pinned = pins.publish(rooted.table.uri, upload.write_id, LOCAL)
    assert pinned is not None
    manifest.stage(rooted.table.uri, upload.write_id, [], pins=[pinned])
    report = rooted.mark()
    assert {file.path for file in report.candidates} == {rooted.own, rooted.deep}
    assert any("may commit until" in file.reason for file in report.kept if file.path == rooted.orphan)
    manifest.abort(rooted.table.uri, upload.write_id)
    assert {file.path for file in rooted.mark().candidates} == {rooted.own, rooted.deep, rooted.orphan}


def test_what_becomes_of_the_root_later(rooted: Rooted) -> None:
    result = rooted.sweep()
    assert result.sweep_id is not None
    os.rename(rooted.root, rooted.root.parent / "moved")
    rooted.root.symlink_to(rooted.root.parent / "moved")
    assert len(restore(rooted.table.uri, managed_roots=[str(rooted.root)]).restored) == 3, (
        "the root itself may lie behind a link"
    )
    rooted = Rooted(rooted.root.parent / "again")
    result = rooted.sweep()
    for file in (rooted.table.path / SWEEPS / str(result.sweep_id)).iterdir():
        file.write_bytes(b"torn")
    back = restore(rooted.table.uri)
    assert [file.path for file in back.restored] == [rooted.own]
    assert {file.reason for file in back.kept} == {
        "the record of its sweep cannot be read, so no one can say that it belongs there; move it by hand"
    }


@pytest.mark.parametrize("after", [True, False])
def test_killed_between_any_two_steps(after: bool, tmp_path: Path) -> None:
    for step in range(1, 9):
        rooted = Rooted(tmp_path / str(step))
        content, report = rooted.contents(), rooted.mark()
        with dying(step, after):
            rooted.sweep(report)
        assert rooted.contents() == content, step
        result = rooted.sweep(report, now_ms=lambda: NOW + LEASE_MS)
        assert {file.path for file in result.deleted} == {rooted.own, rooted.orphan, rooted.deep}
        assert rooted.contents() == content
        restore(rooted.table.uri, managed_roots=[str(rooted.root)])
        assert {path for path in content if Path(path.removeprefix("file://")).exists()} == set(content)
