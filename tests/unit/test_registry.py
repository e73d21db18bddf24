"""Tables that share blobs: the registry, what it keeps, and how a table leaves it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from support.blob_states import BlobTable, blob, write_id
from support.swept import interrupted

from hudi_vector.blobs.leases import CLEAN
from hudi_vector.blobs.registry import LEAVING, LEFT, REGISTERED, REGISTRY, enter, lenders, read_registry
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan, BlobWriter, TaskAttempt
from hudi_vector.blobs.struct import BLOB_TYPE
from hudi_vector.blobs.uploads import manifest
from hudi_vector.errors import (
    BlobWriteError,
    DataFileError,
    InvalidArgumentError,
    InvalidBlobError,
    RefusedError,
    UnsupportedTableError,
)
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.sharing import part, share
from hudi_vector.writing.blobs.lending import borrow

DAY = 86_400_000
NOW = time.time_ns() // 1_000_000
OLD = NOW - 30 * DAY
LOCAL = StorageOptions()


@pytest.fixture
def owner(tmp_path: Path) -> BlobTable:
    return BlobTable(tmp_path.resolve() / "photos", OLD)


@pytest.fixture
def user(tmp_path: Path) -> BlobTable:
    return BlobTable(tmp_path.resolve() / "albums", OLD)


def marked(table: BlobTable) -> MarkReport:
    return find_unneeded(str(table.path), grace_ms=DAY)


def committed(table: BlobTable, path: str) -> Path:
    instant = table.instant()
    file = table.base("f1", instant, {1: blob(path)})
    table.complete(instant, "commit")
    return file


def entry(table: BlobTable) -> Path:
    (folder,) = (table.path / REGISTRY).iterdir()
    return max(folder.iterdir(), key=lambda file: file.name)


def test_each_lists_every_other_and_again_changes_nothing(owner: BlobTable, user: BlobTable, tmp_path: Path) -> None:
    third = BlobTable(tmp_path.resolve() / "third", OLD)
    tables = [owner, user, third]
    for _ in range(2):
        share([f"file:{each.path}/" for each in tables])
    for each in tables:
        others = {other.uri for other in tables if other is not each}
        assert read_registry(str(each.path)) == dict.fromkeys(others, REGISTERED)
        assert set(lenders(str(each.path))) == others
        assert len(list((each.path / REGISTRY).rglob("0*-*"))) == 2
    with pytest.raises(InvalidArgumentError, match="is the only table given; name another one"):
        share([str(owner.path), owner.uri])


def test_the_spellings_of_one_table_are_one_entry(owner: BlobTable) -> None:
    for spelled in ("s3a://lake/albums/", "s3://lake/albums", "s3n://lake//albums"):
        enter(str(owner.path), spelled, REGISTERED)
    assert read_registry(owner.uri) == {"s3://lake/albums": REGISTERED}
    enter(owner.uri, "s3://lake/albums", LEFT)
    assert read_registry(owner.uri) == {}


def test_a_table_lends_only_where_both_list_each_other(owner: BlobTable, user: BlobTable) -> None:
    enter(user.uri, owner.uri, REGISTERED)
    assert lenders(user.uri) == ()
    enter(owner.uri, user.uri, LEAVING)
    assert lenders(user.uri) == ()
    enter(owner.uri, user.uri, REGISTERED)
    assert lenders(user.uri) == (owner.uri,)
    entry(owner).write_bytes(b"torn")
    assert lenders(user.uri) == ()


def test_what_registered_tables_refer_to_is_kept(owner: BlobTable, user: BlobTable) -> None:
    shared, orphan = owner.container(write_id(OLD, 1)), owner.container(write_id(OLD, 2))
    file = committed(user, f"{owner.uri}/{shared}")
    assert {found.path for found in marked(owner).candidates} == {shared, orphan}
    for state in (REGISTERED, LEAVING):
        enter(owner.uri, user.uri, state)
        report = marked(owner)
        assert [found.path for found in report.candidates] == [orphan]
        assert [(kept.path, str(file) in kept.reason) for kept in report.kept] == [(shared, True)]


def test_a_registered_table_that_cannot_be_read_stops_everything(owner: BlobTable, user: BlobTable) -> None:
    owner.container(write_id(OLD, 1))
    share([owner.uri, user.uri])
    shutil.rmtree(user.path)
    report = marked(owner)
    assert report.candidates == ()
    assert len(report.doubts) == 1
    assert report.doubts[0].startswith(f"table '{user.uri}', which may share these blobs, cannot be read: ")
    assert report.doubts[0].endswith("; unregister_tables takes out one that is gone for good")
    part(owner.uri, user.uri, gone=True)
    assert len(marked(owner).candidates) == 1


def test_a_damaged_entry_stops_everything(owner: BlobTable, user: BlobTable) -> None:
    owner.container(write_id(OLD, 1))
    enter(owner.uri, user.uri, LEFT)
    assert len(marked(owner).candidates) == 1
    enter(owner.uri, user.uri, REGISTERED)
    whole = entry(owner).read_bytes()
    entry(owner).write_bytes(whole[:-1])
    with pytest.raises(DataFileError, match="of the registry is damaged; register the tables again"):
        read_registry(owner.uri)
    report = marked(owner)
    assert (report.candidates, len(report.doubts)) == ((), 1)
    entry(owner).write_bytes(whole.replace(b"registered-table 1 ", b"registered-table 2 "))
    with pytest.raises(UnsupportedTableError, match="version 2"):
        read_registry(owner.uri)
    assert marked(owner).candidates == ()


def test_a_table_leaves_once_it_needs_nothing(owner: BlobTable, user: BlobTable) -> None:
    path = owner.container(write_id(OLD, 1))
    with pytest.raises(InvalidArgumentError, match=r"does not list .*; it lists none"):
        part(owner.uri, user.uri)
    share([owner.uri, user.uri])
    file = committed(user, f"{owner.path}/x/../{path}")
    for one, other in ((owner, user), (user, owner)):
        with pytest.raises(
            RefusedError, match=rf"'{user.uri}' cannot leave the registry of '{owner.uri}': '{file.as_uri()}'"
        ):
            part(one.uri, other.uri)
        assert lenders(user.uri) == (owner.uri,)
    with pytest.raises(RefusedError, match="is still there; leave gone out"):
        part(owner.uri, user.uri, gone=True)
    damaged = user.file("f9_0-1-2_20260101000000000.parquet", b"PAR1")
    with pytest.raises(RefusedError, match="cannot be read"):
        part(owner.uri, user.uri)
    (user.path / damaged).unlink()
    file.unlink()
    part(owner.uri, user.uri)
    assert (read_registry(owner.uri), read_registry(user.uri)) == ({}, {})
    assert [found.path for found in marked(owner).candidates] == [path]


def test_killed_while_a_table_leaves_its_references_still_keep(
    owner: BlobTable, user: BlobTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = owner.container(write_id(OLD, 1))
    share([owner.uri, user.uri])
    committed(user, f"{owner.uri}/{path}")
    monkeypatch.setattr(
        "hudi_vector.table_services.sharing.gather", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        part(owner.uri, user.uri)
    assert set(read_registry(owner.uri).values()) == {LEAVING}
    assert marked(owner).candidates == ()
    assert lenders(user.uri) == ()


def test_a_cleaner_under_way_is_waited_for(owner: BlobTable, user: BlobTable) -> None:
    with ServiceLease(owner.uri, CLEAN), pytest.raises(RefusedError, match="another clean of"):
        share([user.uri, owner.uri])
    assert read_registry(user.uri) == {}


class Writing:
    """A write of references into the user's table, up to its commit."""

    def __init__(self, user: BlobTable, **settings: object) -> None:
        self.user = user
        self.column = BlobColumn("img", BlobSettings(**settings))  # type: ignore[arg-type]
        self.lenders = lenders(user.uri)
        self.upload = manifest.open_upload(user.uri, {"img": self.column.settings}, lease_ms=DAY)

    def stage(self, *paths: str, managed: bool = True, check_files: bool = True) -> manifest.Upload:
        column = BlobColumn("img", self.column.settings, check_files)
        plan = BlobWritePlan(self.user.uri, self.upload.write_id, (column,), lenders=self.lenders)
        rows = pa.record_batch({"img": pa.array([blob(path, 0, 5, managed) for path in paths], BLOB_TYPE)})
        with BlobWriter(plan, TaskAttempt(0, 0)) as writer:
            assert writer.convert(rows).to_pylist() == rows.to_pylist(), "references are kept as they are"
            assert writer.close() == []
            pins = writer.pinned()
        return manifest.stage(self.user.uri, self.upload.write_id, [], pins=[pins] if pins else [])


@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize(("pin", "check"), [("true", True), ("false", True), ("false", False)])
def test_a_write_keeps_references_to_a_lender(
    owner: BlobTable, user: BlobTable, managed: bool, pin: str, check: bool
) -> None:
    path, orphan = owner.container(write_id(OLD, 1)), owner.container(write_id(OLD, 2))
    with pytest.raises(InvalidBlobError, match="write the bytes instead, or register both tables"):
        Writing(user).stage(f"{owner.uri}/{path}", managed=managed)
    share([owner.uri, user.uri])
    with pytest.raises(InvalidBlobError, match="is no file of the table that is registered"):
        Writing(user).stage(f"{owner.uri}/{path}x", managed=managed, check_files=False)
    writing = Writing(user, pin=pin)
    staged = writing.stage(f"{owner.uri}/{path}", managed=managed, check_files=check)
    assert borrow(staged, writing.lenders, LOCAL) == [f"{owner.uri}/{path}"]
    report = marked(owner)
    assert [file.path for file in report.candidates] == [orphan]
    assert f"write '{staged.write_id}' to '{user.uri}' is staged and may commit until" in report.kept[0].reason
    with pytest.raises(RefusedError, match=f"write '{staged.write_id}', which is under way, refers to its blobs"):
        part(owner.uri, user.uri)
    manifest.abort(user.uri, staged.write_id)
    assert len(marked(owner).candidates) == 2


@pytest.mark.parametrize(("pin", "check"), [("true", True), ("false", False)])
def test_a_write_keeps_what_it_copies_from_an_earlier_state_of_its_table(
    owner: BlobTable, pin: str, check: bool
) -> None:
    """No retained file refers to it any more: only the manifest tells, until the commit."""
    path, orphan = owner.container(write_id(OLD, 1)), owner.container(write_id(OLD, 2))
    writing = Writing(owner, pin=pin)
    staged = writing.stage(f"{owner.uri}/{path}", check_files=check)
    assert borrow(staged, (), LOCAL) == [f"{owner.uri}/{path}"]
    report = marked(owner)
    assert [file.path for file in report.candidates] == [orphan]
    assert f"write '{staged.write_id}' is staged and may commit until" in report.kept[0].reason
    (owner.path / path).unlink()
    with pytest.raises(BlobWriteError, match=r"nothing was written: .* is gone; bring it back with restore_blobs"):
        borrow(staged, (), LOCAL)
    manifest.abort(owner.uri, staged.write_id)
    owner.container(write_id(OLD, 1))
    assert len(marked(owner).candidates) == 2


def test_writes_whose_claims_are_unknown_stop_everything(owner: BlobTable, user: BlobTable) -> None:
    path = owner.container(write_id(OLD, 1))
    share([owner.uri, user.uri])
    staged = Writing(user).stage(f"{owner.uri}/{path}")
    folder = user.path / manifest.UPLOADS / staged.write_id
    pins = folder / staged.pins[0].name
    content = pins.read_bytes()
    pins.write_bytes(b"torn")
    report = marked(owner)
    assert (report.candidates, len(report.doubts)) == ((), 1)
    assert "refers to cannot be read" in report.doubts[0]
    pins.write_bytes(content)
    for file in folder.glob("[0-9]*"):
        file.write_bytes(b"torn")
    report = marked(owner)
    assert (report.candidates, len(report.doubts)) == ((), 1)
    assert "is damaged, so no one can say what it refers to" in report.doubts[0]
    with pytest.raises(RefusedError, match=r"the manifest of its write .* is damaged"):
        part(owner.uri, user.uri)


def test_a_write_waits_for_the_lenders_cleaner_and_looks_again(owner: BlobTable, user: BlobTable) -> None:
    path = owner.container(write_id(OLD, 1))
    share([owner.uri, user.uri])
    writing = Writing(user)
    staged = writing.stage(f"{owner.uri}/{path}")
    with (
        ServiceLease(owner.uri, CLEAN),
        pytest.raises(BlobWriteError, match=r"nothing was written: process \d+ of .* has been cleaning .* for 0 s"),
    ):
        borrow(staged, writing.lenders, LOCAL, patience_ms=0)
    with ServiceLease(owner.uri, CLEAN, lease_ms=300):
        pass
    assert borrow(staged, writing.lenders, LOCAL) == [f"{owner.uri}/{path}"]
    (owner.path / path).unlink()
    with pytest.raises(BlobWriteError, match=r"nothing was written: .* is gone; bring it back with restore_blobs"):
        borrow(staged, writing.lenders, LOCAL)
    enter(owner.uri, user.uri, LEAVING)
    with pytest.raises(BlobWriteError, match=r"is not registered with .* any more"):
        borrow(staged, writing.lenders, LOCAL)


def test_a_write_between_any_two_steps_of_a_sweep_loses_nothing(tmp_path: Path) -> None:
    """Either the sweep sees the manifest, or the write sees the sweep, or that a file is gone."""
    outcomes = set()
    for step in range(1, 7):
        folder = tmp_path.resolve() / str(step)
        owner, user = BlobTable(folder / "photos", OLD), BlobTable(folder / "albums", OLD)
        path = owner.container(write_id(OLD, 1))
        share([owner.uri, user.uri])
        report = marked(owner)
        writing = Writing(user)
        kept: list[str] = []

        def write(
            writing: Writing = writing, owner: BlobTable = owner, path: str = path, kept: list[str] = kept
        ) -> None:
            try:
                staged = writing.stage(f"{owner.uri}/{path}")
                kept += borrow(staged, writing.lenders, LOCAL, patience_ms=0)
            except (BlobWriteError, InvalidBlobError):
                return

        with interrupted(step, write):
            result = sweep(report, lambda owner=owner: marked(owner), limits=SweepLimits(100))  # type: ignore[misc]
        there = (owner.path / path).exists()
        assert there == (not result.deleted)
        assert there or not kept
        outcomes.add((there, bool(kept)))
    assert outcomes == {(True, True), (False, False)}
