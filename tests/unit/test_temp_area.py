"""Folders that live as long as an application, and what is removed of dead ones."""

from __future__ import annotations

import json
import multiprocessing
import os
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
    place = area.new_place(".lance")
    (local(place) / "data").mkdir(parents=True)
    (local(place) / "data" / "a.lance").write_bytes(b"x" * 10)
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
    assert folder.parent == tmp_path / "hudi-vector-temp"
    (lease,) = (folder / "lease").iterdir()
    body = json.loads(lease.read_text().partition("\n")[2])
    assert body["application"] == "local-123/../x y"
    assert body["pid"] == os.getpid()
    mine.renew()
    (renewed,) = (folder / "lease").iterdir()
    assert renewed.name > lease.name
    assert lease_is_there(mine.folder, StorageOptions())
    assert not lease_is_there(f"file://{tmp_path}/elsewhere", StorageOptions())


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
    root = tmp_path / "hudi-vector-temp"
    strangers = {"plain": None, "copied": "another-folder", "damaged": "damaged", "kind": "kind", "empty": None}
    for name, said in strangers.items():
        folder = root / name
        (folder / "lease").mkdir(parents=True)
        (folder / "data.parquet").write_bytes(b"x")
        if said is not None:
            content = seal("temp" if name != "kind" else "lease", 1, {"folder": said})
            (folder / "lease" / f"00000001-{'0' * 32}").write_bytes(content[:-1] if name == "damaged" else content)
        elif name == "plain":
            (folder / "lease" / "notes.txt").write_text("mine")
        age(folder, 10 * LEFT_OVER_MS)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "lease").mkdir(parents=True)
    (elsewhere / "lease" / f"00000001-{'0' * 32}").write_bytes(seal("temp", 1, {"folder": "link"}))
    age(elsewhere, 10 * LEFT_OVER_MS)
    (root / "link").symlink_to(elsewhere)
    (root / "a file").write_text("x")
    mine.sweep()
    for name in strangers:
        assert (root / name / "data.parquet").exists()
    assert any((elsewhere / "lease").iterdir()), "a link is not followed"
    assert (root / "a file").exists()


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
