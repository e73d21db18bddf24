"""Folders that live as long as an application, and what is removed of dead ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import stat
import time
from pathlib import Path

import pytest

from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.side_files import seal
from hudi_vector.storage.temp_area import LEFT_OVER_MS, TempArea, lease_is_there


def area(path: Path, application: str = "app-1") -> TempArea:
    return TempArea(str(path), StorageOptions(), application)


def local(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def filled(area: TempArea) -> str:
    place = area.new_place()
    (local(place) / "data").mkdir(parents=True)
    (local(place) / "data" / "a.parquet").write_bytes(b"x" * 10)
    return place


def age(folder: Path, milliseconds: int) -> None:
    """What a lease looks like that was written so long ago."""
    then = time.time() - milliseconds / 1000
    for file in (folder / "lease").iterdir():
        os.utime(file, (then, then))


def test_places_are_removed_one_by_one(tmp_path: Path) -> None:
    mine = area(tmp_path)
    first, second = filled(mine), filled(mine)
    assert first != second
    assert mine.places == {first, second}
    assert mine.remove(first) is True
    assert mine.remove(first) is False
    assert not local(first).exists()
    assert local(second).exists()
    mine.close()
    assert not local(mine.folder).exists()
    assert tmp_path.exists()
    mine.renew()
    assert not local(mine.folder).exists(), "what was closed is not opened again by a late renewal"


def test_only_places_that_were_given_are_removed(tmp_path: Path) -> None:
    mine, other = area(tmp_path), area(tmp_path)
    place = filled(other)
    (tmp_path / "precious").mkdir()
    for wrong in (place, f"file://{tmp_path}/precious", mine.folder, f"file://{tmp_path}"):
        assert mine.remove(wrong) is False
    assert local(place).exists()
    assert (tmp_path / "precious").exists()


def test_the_lease_says_whose_the_folder_is(tmp_path: Path) -> None:
    mine = area(tmp_path, "local-123/../x y")
    folder = local(mine.folder)
    assert folder.parent == tmp_path
    assert re.fullmatch(r"hudi-vector-temp-local-123_.._x_y-[0-9a-f]{32}", folder.name)
    (lease,) = (folder / "lease").iterdir()
    body = json.loads(lease.read_text().partition("\n")[2])
    assert body["application"] == "local-123/../x y"
    assert body["pid"] == os.getpid()
    mine.renew()
    (renewed,) = (folder / "lease").iterdir()
    assert renewed.name > lease.name
    assert lease_is_there(mine.folder, StorageOptions())
    assert not lease_is_there(f"file://{tmp_path}/elsewhere", StorageOptions())


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_only_its_owner_may_open_the_folder_and_nobody_can_make_it_before(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        folders = [local(area(tmp_path / "not there yet").folder) for _ in range(20)]
    finally:
        os.umask(before)
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.parent == tmp_path / "not there yet"
    assert len({folder.name[-32:] for folder in folders}) == 20, "each has a name of its own"


def test_a_folder_that_is_there_already_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)  # whoever guessed the name
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / f"hudi-vector-temp-app-1-{'0' * 32}").symlink_to(target)
    with pytest.raises(FileExistsError):
        area(tmp_path)
    assert not list(target.iterdir())


def test_what_dead_applications_left_is_swept(tmp_path: Path) -> None:
    mine, dead, alive = area(tmp_path), area(tmp_path, "dead"), area(tmp_path, "alive")
    left, used = filled(dead), filled(alive)
    age(local(dead.folder), LEFT_OVER_MS + 60_000)
    age(local(alive.folder), LEFT_OVER_MS - 60_000)
    assert mine.sweep() == [dead.folder]
    assert not local(left).exists()
    assert not local(dead.folder).exists()
    assert local(used).exists()
    assert mine.sweep() == []


def test_what_nobody_of_ours_made_is_never_swept(tmp_path: Path) -> None:
    mine = area(tmp_path)
    root = tmp_path
    said_by = {"plain": None, "copied": "another-folder", "damaged": "damaged", "kind": "kind", "empty": None}
    strangers = {f"hudi-vector-temp-{name}": said and f"hudi-vector-temp-{said}" for name, said in said_by.items()}
    strangers["ours by its lease alone"] = "ours by its lease alone"
    strangers["hudi-vector-temp-open"] = "hudi-vector-temp-open"
    for name, said in strangers.items():
        folder = root / name
        folder.mkdir(mode=0o755 if name.endswith("-open") else 0o700)
        (folder / "lease").mkdir(parents=True)
        (folder / "data.parquet").write_bytes(b"x")
        if said is not None:
            content = seal("lease" if name.endswith("-kind") else "temp", 1, {"folder": said})
            (folder / "lease" / f"00000001-{'0' * 32}").write_bytes(
                content[:-1] if name.endswith("-damaged") else content
            )
        elif name.endswith("-plain"):
            (folder / "lease" / "notes.txt").write_text("mine")
        age(folder, 10 * LEFT_OVER_MS)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "lease").mkdir(parents=True)
    (elsewhere / "lease" / f"00000001-{'0' * 32}").write_bytes(seal("temp", 1, {"folder": "hudi-vector-temp-link"}))
    age(elsewhere, 10 * LEFT_OVER_MS)
    elsewhere.chmod(0o700)
    (root / "hudi-vector-temp-link").symlink_to(elsewhere)
    (root / "hudi-vector-temp-a file").write_text("x")
    mine.sweep()
    for name in strangers:
        assert (root / name / "data.parquet").exists()
    assert any((elsewhere / "lease").iterdir()), "a link is not followed"
    assert (root / "hudi-vector-temp-a file").exists()


def test_an_interrupted_removal_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, dead = area(tmp_path), area(tmp_path, "dead")
    first, second = sorted([filled(dead), filled(dead)])
    age(local(dead.folder), LEFT_OVER_MS + 60_000)
    storage = open_storage(dead.folder, StorageOptions())
    real, calls = storage.remove_folder, []

    def fails_once(uri: str) -> bool:
        calls.append(uri)
        if len(calls) == 2:
            raise PermissionError(13, "Permission denied", uri)
        return real(uri)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "remove_folder", fails_once)
        mine.sweep()
    assert local(dead.folder).exists()
    assert lease_is_there(dead.folder, StorageOptions())
    assert sum(local(place).exists() for place in (first, second)) == 1
    assert mine.sweep() == [dead.folder]
    assert not local(dead.folder).exists()


def test_a_forked_process_removes_nothing(tmp_path: Path) -> None:
    mine = area(tmp_path)
    place = filled(mine)
    child = multiprocessing.get_context("fork").Process(target=mine.close)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert local(place).exists()
