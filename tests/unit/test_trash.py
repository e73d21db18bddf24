"""The trash: files come back, or go for good when their time is over; never over another file, never twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.swept import OLD_MS, Area, dying

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.storage import join
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.result import CleanFile
from hudi_vector.table_services.trash.sweep_record import SWEEPS
from hudi_vector.table_services.trash.trash import TRASH, expire, list_trash, restore, trash_path

WEEK = 7 * 86_400_000


@pytest.fixture(params=["renames", "copies"])
def area(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Area]:
    """A blob area on a storage that renames and on one that copies and deletes."""
    made = Area(f"file://{tmp_path}/t" if request.param == "renames" else f"memory:///{tmp_path.name}")
    yield made
    empty(made)


def empty(area: Area) -> None:
    for info in area.storage.list_files(area.table, recursive=True):
        area.storage.delete(info.uri)


def swept(area: Area, *numbers: int, at: int = OLD_MS) -> str:
    """The id of a sweep that took all files of the area, these among them."""
    for number in numbers:
        area.put(number)
    sweep_id = sweep(area.mark(), area.mark, limits=SweepLimits(100), now_ms=lambda: at).sweep_id
    assert sweep_id is not None
    return sweep_id


def test_what_was_swept_comes_back(area: Area) -> None:
    sweep_id = swept(area, 1, 2, 3)
    content = area.in_trash()
    one = sorted(content)[0]
    first = restore(area.table, paths=[one])
    assert first.restored == [CleanFile(one, 6, f"from sweep {sweep_id}")]
    assert (set(area.in_place()), first.bytes, first.kept) == ({one}, 6, [])
    rest = restore(area.table, sweep_id=sweep_id)
    assert {file.path for file in rest.restored} == set(content) - {one}
    assert (area.in_place(), area.in_trash()) == (content, {})
    assert restore(area.table).restored == []
    with pytest.raises(InvalidArgumentError, match=f"holds nothing of sweep '{sweep_id}'"):
        restore(area.table, sweep_id=sweep_id)
    with pytest.raises(InvalidArgumentError, match=r"'a/b' is not in the trash of"):
        restore(area.table, paths=["a/b"])


def test_a_restored_file_counts_as_new(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}")
    swept(area, 1)
    restore(area.table)
    assert area.mark().candidates[0].mtime_ms > OLD_MS + 1_000_000_000


def test_another_file_is_never_overwritten(area: Area) -> None:
    swept(area, 1)
    path = area.put(1, b"other!")
    result = restore(area.table)
    assert (result.restored, result.bytes) == ([], 0)
    assert [file.reason for file in result.kept] == ["another file has its place; move that one away first"]
    assert (area.in_place(), area.in_trash()) == ({path: b"other!"}, {path: b"000001"})


def test_the_same_file_in_its_place_ends_a_restore_that_was_killed(area: Area) -> None:
    swept(area, 1)
    path = area.put(1)
    assert [file.path for file in restore(area.table).restored] == [path]
    assert (area.in_place(), area.in_trash()) == ({path: b"000001"}, {})


def test_the_last_of_two_sweeps_of_one_file_wins(area: Area) -> None:
    swept(area, 1, at=OLD_MS)
    path = area.put(1, b"second")
    last = swept(area, at=OLD_MS + 10**9)
    result = restore(area.table)
    assert [file.reason for file in result.restored] == [f"from sweep {last}"]
    assert len(result.kept) == 1
    assert (area.in_place(), area.in_trash()) == ({path: b"second"}, {path: b"000001"})


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_restore_that_is_killed_is_ended_by_another(kind: str, after: bool, tmp_path: Path) -> None:
    for step in range(1, 7 if kind == "memory" else 4):
        area = Area(f"file://{tmp_path}/{step}" if kind == "file" else f"memory:///{tmp_path.name}{step}")
        swept(area, 1, 2, 3)
        content = area.in_trash()
        with dying(step, after):
            restore(area.table)
            raise AssertionError("it did not die")
        assert {**area.in_trash(), **area.in_place()} == content
        restore(area.table)
        assert (area.in_place(), area.in_trash()) == (content, {})
        empty(area)


def test_the_trash_is_emptied_after_its_window(area: Area) -> None:
    first = swept(area, 1, at=OLD_MS)
    second = swept(area, 2, at=OLD_MS + WEEK)
    [old] = [file for file in list_trash(area.storage, area.table) if file.sweep_id == first]
    expected = [CleanFile(old.trash_path, 6, f"swept by {first} more than {WEEK} ms ago")]
    assert expire(area.table, window_ms=WEEK, now_ms=OLD_MS + WEEK).gone == []
    assert expire(area.table, window_ms=WEEK, now_ms=OLD_MS + WEEK + 1, dry_run=True).gone == expected
    assert len(area.in_trash()) == 2
    assert expire(area.table, window_ms=WEEK, now_ms=OLD_MS + WEEK + 1).gone == expected
    assert [file.sweep_id for file in list_trash(area.storage, area.table)] == [second]
    assert expire(area.table, window_ms=WEEK, now_ms=OLD_MS + WEEK + 1).gone == []


def test_the_window_begins_when_the_sweep_ends(area: Area) -> None:
    area.put(1)
    times = iter(range(OLD_MS, OLD_MS + 10**9, 60_000))
    sweep(area.mark(), area.mark, limits=SweepLimits(100), now_ms=lambda: next(times))
    ended = next(times)
    assert expire(area.table, window_ms=WEEK, now_ms=OLD_MS + WEEK + 60_000).gone == []
    assert len(expire(area.table, window_ms=WEEK, now_ms=ended + WEEK).gone) == 1


def test_what_is_needed_again_stays_whatever_its_time(area: Area) -> None:
    swept(area, 1, 2)
    first, second = sorted(list_trash(area.storage, area.table), key=lambda file: file.path)
    needed = {first.path: "a row refers to it"}
    kept = [CleanFile(first.trash_path, 6, "its time in the trash is over, but a row refers to it")]
    for dry_run in (True, False):
        found = expire(area.table, window_ms=0, now_ms=OLD_MS + 1, stays=needed.get, dry_run=dry_run)
        assert ([file.path for file in found.gone], found.kept) == ([second.trash_path], kept)
    assert set(area.in_trash()) == {first.path}


def test_the_time_of_what_a_killed_sweep_took_begins_later(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    area.put(1)
    with dying(3, after=True):
        sweep(area.mark(), area.mark, limits=SweepLimits(100), now_ms=lambda: OLD_MS)
    assert len(area.in_trash()) == 1
    assert expire(area.table, window_ms=0, now_ms=OLD_MS * 2).gone == []
    sweep(area.mark(), area.mark, limits=SweepLimits(100), now_ms=lambda: OLD_MS + WEEK)
    assert expire(area.table, window_ms=WEEK, now_ms=OLD_MS + 2 * WEEK).gone == []
    assert len(expire(area.table, window_ms=WEEK, now_ms=OLD_MS + 2 * WEEK + 1).gone) == 1


def test_without_a_record_the_trash_stays(area: Area, caplog: pytest.LogCaptureFixture) -> None:
    swept(area, 1)
    for info in area.storage.list_files(join(area.table, SWEEPS), recursive=True):
        area.storage.delete(info.uri)
    assert expire(area.table, window_ms=0, now_ms=OLD_MS * 2).gone == []
    assert "its record cannot be read" in caplog.text
    assert len(restore(area.table).restored) == 1


def test_what_is_no_sweeps_is_left_alone(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    sweep_id = swept(area, 2)
    trash = tmp_path / "t" / TRASH
    (trash / "note.txt").write_bytes(b"mine")
    (trash / "other").mkdir()
    (trash / "other" / "x").write_bytes(b"mine")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "x").write_bytes(b"mine")
    (trash / sweep_id / "linked").symlink_to(precious)
    (trash / sweep_id / "img" / "link").symlink_to(precious / "x")
    (trash / sweep_id / "img" / "no-container").write_bytes(b"mine")
    result = restore(area.table)
    assert len(result.restored) == 1
    assert [file.reason for file in result.kept] == ["refused: it does not have the name of a container"]
    assert expire(area.table, window_ms=0, now_ms=OLD_MS * 2).gone == []
    assert (trash / sweep_id / "img" / "no-container").exists()
    assert (precious / "x").read_bytes() == (trash / "other" / "x").read_bytes() == b"mine"
    assert (trash / sweep_id / "linked").is_symlink()


def test_an_area_that_became_a_link_gets_nothing_back(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    swept(area, 1)
    elsewhere = tmp_path / "elsewhere"
    os.rename(tmp_path / "t/.hoodie/blobs", elsewhere)
    (tmp_path / "t/.hoodie/blobs").symlink_to(elsewhere)
    assert [file.reason for file in restore(area.table).kept] == ["refused: its path contains a symbolic link"]
    assert len(area.in_trash()) == 1


def test_what_storage_will_not_move_or_delete_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    area = Area(f"file://{tmp_path}")
    swept(area, 1)

    def broken(*_: object, **__: object) -> None:
        raise PermissionError("not allowed")

    with monkeypatch.context() as patch:
        patch.setattr(type(area.storage), "move", broken)
        patch.setattr(type(area.storage), "delete", broken)
        assert [file.reason for file in restore(area.table).kept] == ["it could not be moved: not allowed"]
        assert expire(area.table, window_ms=0, now_ms=OLD_MS * 2).gone == []
    path = area.put(1)
    with monkeypatch.context() as patch:
        patch.setattr(type(area.storage), "delete", broken)
        assert "could not be compared" in restore(area.table).kept[0].reason
    assert set(area.in_place()) == set(area.in_trash()) == {path}


def test_paths_in_the_trash_keep_their_order() -> None:
    assert trash_path("s", ".hoodie/blobs/d=1/img/w/f.blob") == f"{TRASH}/s/d=1/img/w/f.blob"
