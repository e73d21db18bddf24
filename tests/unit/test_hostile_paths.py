"""Names and links that lead out of a table: refused in a sentence, at the moment of the act, with nothing touched."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.blob_states import write_id
from support.hostile import DAY, LOCAL, OLD, Lair, body_of, newest_of, write_body

from hudi_vector.blobs.uploads.manifest import uploads_folder
from hudi_vector.errors import DataFileError, HudiVectorError, InvalidArgumentError
from hudi_vector.index.files import model_uri, segment_uri
from hudi_vector.index.manifest import manifest_named
from hudi_vector.storage import join, local_files, open_storage
from hudi_vector.storage.local_files import scan
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.plans.compaction import CompactionPlan
from hudi_vector.table_services.plans.compaction_files import (
    COMPACTIONS,
    PendingCommit,
    begun_runs,
    publish_plan,
    publish_run,
    read_run,
)
from hudi_vector.table_services.plans.plan_files import RUNNING
from hudi_vector.table_services.trash.sweep_record import SWEEPS, begin_sweep, end_sweep
from hudi_vector.table_services.trash.trash import OUTSIDE_TRASH, restore
from hudi_vector.writing.blobs.staging import staging_folder

LIMITS = SweepLimits(100)
UPWARDS = ["../../../../../victim", "..", "", "/", "../../../..", "a/../../victim", "x", "\0", None, 7, ["a"]]


@pytest.fixture
def lair(tmp_path: Path) -> Lair:
    return Lair(tmp_path.resolve())


def running(lair: Lair) -> Path:
    """The newest side file of a run that was killed with a commit under way."""
    plan = CompactionPlan(write_id(OLD, 5), lair.uri, OLD, ("img",), (), 1, 1)
    publish_run(replace(publish_plan(plan), state=RUNNING, pending=PendingCommit(write_id(OLD, 6), "token", ())))
    return newest_of(lair.table.path / COMPACTIONS, "compaction")


@pytest.mark.parametrize("name", UPWARDS)
@pytest.mark.parametrize("field", ["plan_id", "write_id"])
def test_a_plan_that_bears_another_name_is_not_ended(lair: Lair, field: str, name: Any) -> None:
    path = running(lair)
    body = body_of(path)
    (body if field == "plan_id" else body["pending"])[field] = name
    write_body(path, "compaction", body)
    before = lair.precious()
    with pytest.raises(DataFileError, match="is damaged, or somebody changed it"):
        begun_runs(lair.uri)
    with pytest.raises(HudiVectorError):
        read_run(lair.uri, path.parent.name)
    assert any("the compactions of" in doubt for doubt in lair.unneeded().doubts)
    assert lair.precious() == before


@pytest.mark.parametrize("name", [name for name in UPWARDS if isinstance(name, str) and name != "x"])
def test_no_folder_is_derived_from_such_a_name(lair: Lair, name: str) -> None:
    storage = open_storage(lair.uri, LOCAL)
    derive: list[Callable[[], object]] = [
        lambda: staging_folder(lair.uri, name),
        lambda: uploads_folder(lair.uri, name),
        lambda: model_uri(lair.uri, name),
        lambda: segment_uri(lair.uri, name),
        lambda: manifest_named(storage, lair.uri, name),
    ]
    for each in derive:
        with pytest.raises(DataFileError, match="is not the name of a"):
            each()


def outside(lair: Lair, roots: tuple[str, ...]) -> Path:
    """What a stranger put into the trash, with a record that says where it came from; where it would go."""
    storage = open_storage(lair.uri, LOCAL)
    record = begin_sweep(storage, lair.uri, write_id(OLD, 3), (), trash=True, now_ms=OLD, roots=roots)
    end_sweep(storage, record, (), now_ms=OLD)
    target = lair.victim / "cron.d" / "job"
    trashed = Path(f"{lair.table.path / OUTSIDE_TRASH / record.sweep_id / 'file'}{target}")
    trashed.parent.mkdir(parents=True)
    trashed.write_bytes(b"* * * * * root mine")
    return target


def test_nothing_is_restored_to_where_a_record_says_alone(lair: Lair) -> None:
    target = outside(lair, (f"file://{lair.victim}",))
    before = lair.precious()
    for roots in ([], [str(lair.media)], [f"{lair.victim}x"], [str(lair.victim / "deep")]):
        result = restore(lair.uri, managed_roots=roots)
        assert [file.reason for file in result.kept] == [
            "it lies below none of the managed roots that were given; give the root it came from as managed_roots"
        ]
        assert lair.precious() == before
    assert [file.path for file in restore(lair.uri, managed_roots=[str(lair.victim)]).restored] == [f"file://{target}"]


def test_a_root_that_is_named_is_no_way_to_somewhere_else(lair: Lair) -> None:
    target = outside(lair, (f"file://{lair.victim}",))
    (lair.root / "elsewhere").mkdir()
    target.parent.symlink_to(lair.root / "elsewhere")
    result = restore(lair.uri, managed_roots=[str(lair.victim)])
    assert [file.reason for file in result.kept] == ["refused: its path contains a symbolic link"]
    assert list((lair.root / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("trash", [True, False])
def test_a_link_put_there_after_the_plan_is_not_followed(
    lair: Lair, trash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the plan and the turn of a file, its folder becomes a link to one that holds a file of that name."""
    media = lair.media / "d" / "cat.png"
    media.parent.mkdir()
    for path in (media, lair.victim / "cat.png"):
        path.write_bytes(b"seven b")
        os.utime(path, (OLD / 1000, OLD / 1000))
    roots = (f"file://{lair.media}",)
    (lair.media / "cat.png").unlink()

    def mark() -> MarkReport:
        return find_unneeded(lair.uri, grace_ms=DAY, managed_roots=roots)

    def swapped(*given: Any, **named: Any) -> Any:
        begun = begin_sweep(*given, **named)
        os.rename(media.parent, lair.root / "away")
        media.parent.symlink_to(lair.victim)
        return begun

    monkeypatch.setattr("hudi_vector.table_services.cleaning.sweep.begin_sweep", swapped)
    result = sweep(mark(), mark, trash=trash, limits=LIMITS)
    assert [file.path for file in result.deleted] == [lair.orphan]
    assert [file.path for file in result.failed] == [f"file://{media}"]
    assert "is a symbolic link or no folder, and nothing behind it is touched" in result.failed[0].reason
    assert (lair.victim / "cat.png").read_bytes() == b"seven b"


def test_a_blob_area_that_becomes_a_link_is_left_alone(lair: Lair, monkeypatch: pytest.MonkeyPatch) -> None:
    area, away = lair.table.path / ".hoodie/blobs", lair.root / "away"

    def swapped(*given: Any, **named: Any) -> Any:
        begun = begin_sweep(*given, **named)
        os.rename(area, away)
        area.symlink_to(away)
        return begun

    monkeypatch.setattr("hudi_vector.table_services.cleaning.sweep.begin_sweep", swapped)
    result = sweep(lair.unneeded(), lair.unneeded, limits=LIMITS)
    assert [file.path for file in result.failed] == [lair.orphan]
    assert len(list(away.rglob("*.blob"))) == 2


def test_a_sweeps_files_are_containers(lair: Lair) -> None:
    mark = lair.unneeded()
    storage = open_storage(lair.uri, LOCAL)
    begin_sweep(storage, lair.uri, mark.mark_id, mark.candidates, trash=True, now_ms=OLD)
    path = newest_of(lair.table.path / SWEEPS, "sweep")
    body = body_of(path)
    body["files"][0]["path"] = ".hoodie/blobs/../../../victim/deep/ledger.txt"
    write_body(path, "sweep", body)
    before = lair.precious()
    with pytest.raises(DataFileError, match="is nothing that it could take"):
        sweep(mark, lair.unneeded, limits=LIMITS)
    assert lair.precious() == before


def test_folders_are_removed_without_following_links(tmp_path: Path) -> None:
    root, victim = tmp_path / "t", tmp_path / "victim"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep" / "x").write_bytes(b"x")
    staging = root / ".hoodie/blob_service/v1/staging"
    staging.parent.mkdir(parents=True)
    storage = open_storage("file:///", LOCAL)
    staging.symlink_to(victim)
    for act in (storage.remove_folder, storage.delete):
        with pytest.raises(DataFileError, match="is a symbolic link or no folder"):
            act(f"file://{staging}/deep" if act == storage.remove_folder else f"file://{staging}/deep/x")
    staging.unlink()
    (staging / "w").mkdir(parents=True)
    (staging / "w" / "link").symlink_to(victim)
    (staging / "w" / "file").write_bytes(b"x")
    (staging / "v").symlink_to(victim)
    with pytest.raises(DataFileError, match="is a symbolic link or no folder"):
        storage.remove_folder(f"file://{staging}/v")
    assert storage.remove_folder(f"file://{staging}/w")
    assert not storage.remove_folder(f"file://{staging}/w")
    assert (victim / "deep" / "x").read_bytes() == b"x"
    with pytest.raises(DataFileError, match="does not lie in"):
        storage.delete(f"file://{root}/.hoodie/../../victim/deep/x")
    assert sorted(path.name for path in tmp_path.rglob("x")) == ["x"]


class Slow:
    """Something that takes a name between a look at it and the move to it."""

    def __init__(self, patch: pytest.MonkeyPatch, target: Path) -> None:
        real = local_files._rename_new

        def rename(*given: Any) -> None:
            target.write_bytes(b"theirs")
            real(*given)

        patch.setattr(local_files, "_rename_new", rename)


@pytest.mark.parametrize("system", ["renameat2", "none", "unknown flag"])
def test_a_move_never_takes_the_place_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    def refusing(*_: Any) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    if system != "renameat2":
        known = None if system == "none" else refusing
        monkeypatch.setattr(local_files, "_system_rename", lambda: known)
    storage = open_storage("file:///", LOCAL)
    here, there = tmp_path / "here", tmp_path / "a" / "there"
    here.write_bytes(b"mine")
    storage.move(f"file://{here}", f"file://{there}")
    assert (there.read_bytes(), here.exists()) == (b"mine", False)
    storage.move(f"file://{there}", f"file://{here}")
    Slow(monkeypatch, there)
    with pytest.raises(FileExistsError):
        storage.move(f"file://{here}", f"file://{there}")
    assert (here.read_bytes(), there.read_bytes()) == (b"mine", b"theirs")


def test_a_folder_that_many_links_lead_to_is_listed_once(tmp_path: Path) -> None:
    """Without a memory, 2^40 paths lead to the last of these folders."""
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "file").write_bytes(b"x")
    (tmp_path / "0").symlink_to(tmp_path / "real")
    for number in range(40):
        (tmp_path / f"level{number}").mkdir()
        for side in ("l", "r"):
            (tmp_path / f"level{number}" / side).symlink_to(tmp_path / f"level{number + 1}")
    for one, other in (("a", "b"), ("b", "a")):  # round in a circle by way of each other
        (tmp_path / one).mkdir()
        (tmp_path / one / "file").write_bytes(b"x")
        (tmp_path / one / "to").symlink_to(tmp_path / other)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "far").write_bytes(b"x")
    (tmp_path / "out").symlink_to(elsewhere)
    found = sorted(str(Path(path).relative_to(tmp_path)) for path, _ in scan(str(tmp_path), recursive=True))
    assert found == ["a/file", "b/file", "out/far", "real/deep/file"]
    listed = open_storage("file:///", LOCAL).list_files(f"file://{tmp_path}", recursive=True)
    assert len(listed) == 4
    (tmp_path / "real" / "deep" / "up").symlink_to(tmp_path.parent)
    with pytest.raises(OSError, match="lead round in a circle"):
        list(scan(str(tmp_path), recursive=True))


def test_a_small_file_is_not_read_without_end(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 40)  # which takes no room on the disk
    storage = open_storage("file:///", LOCAL)
    with pytest.raises(DataFileError, match="has more than 1000 bytes"):
        storage.read(f"file://{huge}", 1000)
    huge.write_bytes(bytes(range(256)) * 4000)
    assert storage.read(f"file://{huge}") == bytes(range(256)) * 4000


def test_there_is_no_such_sweep(lair: Lair) -> None:
    with pytest.raises(InvalidArgumentError, match="holds nothing of sweep"):
        restore(lair.uri, sweep_id="../../..")
    assert join(lair.uri, "x")
