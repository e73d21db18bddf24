"""Folders go with their last file, and nobody who is about to use one notices."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from support.blob_states import NOW, OLD, write_id
from support.swept import OLD_MS, Area

from hudi_vector.blobs.names import BLOB_AREA
from hudi_vector.storage import StorageOptions, join, local_files, open_storage
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.sites import Site
from hudi_vector.table_services.trash.trash import TRASH, expire, restore

LOCAL = StorageOptions()
STORAGE = open_storage("file:///", LOCAL)


def folders(path: Path) -> set[str]:
    """The folders below a place."""
    return {str(folder.relative_to(path)) for folder in path.rglob("*") if folder.is_dir()}


def test_daily_cycles_leave_as_many_folders_as_one(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    left = []
    for day in range(6):
        now = OLD_MS + 100 * day * LEASE_MS
        made = [area.put(number) for number in range(2)]
        area.needed = {area.put(9)}
        sweep(area.mark(), area.mark, limits=SweepLimits(100), now_ms=lambda now=now: now)  # type: ignore[misc]
        assert set(area.in_trash()) == set(made)
        assert {name.split("/")[0] for name in folders(tmp_path / "t" / BLOB_AREA)} == {"d=1"}, "with what is needed"
        if day == 3:
            restore(area.table)
            assert folders(tmp_path / "t" / TRASH) == set()
            sweep(area.mark(), area.mark, limits=SweepLimits(100), now_ms=lambda now=now: now)  # type: ignore[misc]
        expire(area.table, window_ms=0, now_ms=now + 50 * LEASE_MS)
        assert area.trashed() == 0
        assert folders(tmp_path / "t" / TRASH) == set()
        left.append(folders(tmp_path / "t" / BLOB_AREA))
    assert left == [left[0]] * 6


def test_empty_folders_of_earlier_times_go(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    kept = area.put(1)
    area.needed = {kept}
    for folder in (f"{BLOB_AREA}/d=2/img/{write_id(OLD, 1)}", f"{BLOB_AREA}/x", f"{TRASH}/{write_id(OLD, 2)}/img"):
        (tmp_path / "t" / folder).mkdir(parents=True)
    outside = tmp_path / "outside" / "empty"
    outside.mkdir(parents=True)
    (tmp_path / "t" / BLOB_AREA / "link").symlink_to(outside.parent)
    sweep(area.mark(), area.mark, limits=SweepLimits(100))
    assert {name.split("/")[0] for name in folders(tmp_path / "t" / BLOB_AREA)} == {"d=1", "link"}
    assert outside.is_dir()
    assert folders(tmp_path / "t" / TRASH) == set()


def test_a_dry_run_leaves_them(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    (tmp_path / "t" / BLOB_AREA / "x").mkdir(parents=True)
    sweep(area.mark(), area.mark, dry_run=True)
    expire(area.table, window_ms=0, now_ms=NOW, dry_run=True)
    assert folders(tmp_path / "t" / BLOB_AREA) == {"x"}


@pytest.mark.parametrize("way", ["create", "publish", "move"])
def test_a_folder_that_goes_before_its_first_file_is_made_again(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removes empty folders comes between the making of a folder and that of the file in it."""
    real, times = local_files._make_folders, 3

    def made_and_removed(folder: str) -> list[str]:
        nonlocal times
        made = real(folder)
        if times and folder.endswith("a/b/c"):
            times -= 1
            STORAGE.remove_empty_folders(f"file://{tmp_path}/a")
            assert not (tmp_path / "a").exists()
        return made

    monkeypatch.setattr(local_files, "_make_folders", made_and_removed)
    uri = f"file://{tmp_path}/a/b/c/file"
    if way == "create":
        file = STORAGE.create(uri)
        file.write(b"x")
        file.close()
    elif way == "publish":
        STORAGE.publish(uri, b"x")
    else:
        (tmp_path / "from").mkdir()
        (tmp_path / "from" / "file").write_bytes(b"x")
        STORAGE.move(f"file://{tmp_path}/from/file", uri)
    assert times == 0
    assert (tmp_path / "a/b/c/file").read_bytes() == b"x"
    with pytest.raises(FileNotFoundError):
        STORAGE.move(f"file://{tmp_path}/from/nothing", f"{uri}2")


def test_writers_beside_somebody_who_removes_folders(tmp_path: Path) -> None:
    """Another process removes empty folders all the time, while files come and go in the same ones."""
    code = (
        "import sys, time\n"
        "from hudi_vector.storage import StorageOptions, open_storage\n"
        "storage = open_storage('file:///', StorageOptions())\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        "    storage.remove_empty_folders(sys.argv[1])\n"
        "    time.sleep(0.0002)\n"
    )
    area = tmp_path / "area"
    process = subprocess.Popen([sys.executable, "-c", code, f"file://{area}"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        for number in range(100):
            file = f"file://{area}/d={number % 3}/img/{number % 2}/{uuid.uuid4().hex}"
            STORAGE.publish(file, b"x")
            STORAGE.move(file, f"{file}-moved")
            assert STORAGE.read(f"{file}-moved") == b"x"
            assert STORAGE.delete(f"{file}-moved")
    finally:
        process.kill()
        process.wait()


def test_object_stores_have_no_folders() -> None:
    table = f"memory:///{uuid.uuid4().hex}"
    area = Area(table)
    area.put(1)
    area.storage.filesystem.create_dir(area.storage.path(join(table, BLOB_AREA, "marker")))
    Site(table, LOCAL).remove_empty_folders(BLOB_AREA)
    assert "marker" in area.storage.list_folders(join(table, BLOB_AREA)), "nothing is asked or removed there"
