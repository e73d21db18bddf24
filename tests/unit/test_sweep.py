"""A sweep takes what two marks agree on, says what it did, and may die at any point."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.swept import OLD_MS, Area, dying, interrupted

from hudi_vector.blobs.leases import CLEAN
from hudi_vector.errors import InvalidArgumentError, RefusedError
from hudi_vector.storage import Storage, join, local_files
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport, UnneededFile
from hudi_vector.table_services.result import CleanFile, CleanResult
from hudi_vector.table_services.service_lease import LEASE_MS, ServiceLease
from hudi_vector.table_services.trash.sweep_record import BEGUN, ENDED, SWEEPS, read_sweep, unfinished_sweeps
from hudi_vector.table_services.trash.trash import restore, trash_path

ALL = SweepLimits(max_share=100)
NOW = OLD_MS + 10**10


@pytest.fixture(params=["renames", "copies"])
def area(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Area]:
    """A blob area on a storage that renames and on one that copies and deletes."""
    made = Area(f"file://{tmp_path}/t" if request.param == "renames" else f"memory:///{tmp_path.name}")
    yield made
    for info in made.storage.list_files(made.table, recursive=True):
        made.storage.delete(info.uri)


def run(area: Area, report: MarkReport | None = None, at: int = NOW, **more: object) -> CleanResult:
    arguments = {"limits": ALL, "now_ms": lambda: at, "threads": 1, **more}
    return sweep(report or area.mark(), area.mark, **arguments)


def paths(files: list[CleanFile]) -> list[str]:
    return sorted(file.path for file in files)


def require_truth(result: CleanResult) -> None:
    """Every candidate has one outcome, and the bytes are those of the files that went."""
    outcome = paths(result.deleted) + paths(result.failed)
    stay = [path for path in paths(result.kept) if path in {file.path for file in result.candidates}]
    assert sorted(outcome + stay) == paths(result.candidates)
    assert result.bytes == sum(file.bytes for file in result.deleted)


def test_unneeded_files_go_to_the_trash_and_needed_ones_stay(area: Area) -> None:
    files = [area.put(number) for number in range(4)]
    area.needed = {files[0]}
    content = area.in_place()
    result = run(area)
    assert paths(result.candidates) == paths(result.deleted) == sorted(files[1:])
    assert result.kept == [CleanFile(files[0], 6, "a row refers to it")]
    assert (result.bytes, result.failed, result.dry_run) == (18, [], False)
    assert area.in_place() == {files[0]: content[files[0]]}
    assert area.in_trash() == {path: content[path] for path in files[1:]}
    assert result.sweep_id is not None
    record = read_sweep(area.storage, area.table, result.sweep_id)
    assert record is not None
    assert (record.state, record.mark_id, record.trash) == (ENDED, result.mark_id, True)
    assert {file.path for file in record.files} == set(files[1:])
    assert {file.path: area.storage.info(join(area.table, trash_path(result.sweep_id, file.path))).size
            for file in record.files} == dict.fromkeys(files[1:], 6)  # fmt: skip
    require_truth(result)


def test_files_go_for_good_where_no_trash_is_wanted(area: Area) -> None:
    files = [area.put(number) for number in range(2)]
    result = run(area, trash=False)
    assert paths(result.deleted) == sorted(files)
    assert area.in_place() == area.in_trash() == {}


def test_a_dry_run_changes_nothing_and_has_the_rows_of_the_real_run(area: Area) -> None:
    files = [area.put(number) for number in range(5)]
    area.needed = {files[0]}
    report = area.mark()
    area.needed |= {files[1]}
    before = sorted(info.uri for info in area.storage.list_files(area.table, recursive=True))
    dry = run(area, report, dry_run=True, limits=SweepLimits(100, 2))
    assert sorted(info.uri for info in area.storage.list_files(area.table, recursive=True)) == before
    assert (dry.deleted, dry.dry_run, dry.sweep_id, dry.bytes) == ([], True, None, 12)
    real = run(area, report, limits=SweepLimits(100, 2))
    assert dry.rows() == real.rows()
    assert (dry.candidates, dry.kept, dry.bytes) == (real.candidates, real.kept, real.bytes)
    assert [row["action"] for row in dry.rows()].count("trash") == 2
    require_truth(real)


def test_only_what_two_marks_agree_on_goes(area: Area) -> None:
    files = [area.put(number) for number in range(3)]
    report = area.mark()
    area.needed = {files[0]}  # a commit in between refers to it
    late = area.put(9)
    result = run(area, report)
    assert paths(result.deleted) == sorted(files[1:])
    assert {file.path: file.reason for file in result.kept}[files[0]] == "a row refers to it"
    assert set(area.in_place()) == {files[0], late}, "what only the second mark names stays"


def test_a_file_that_changed_stays(area: Area) -> None:
    file, other = area.put(1), area.put(2)
    report = area.mark()
    area.storage.delete(join(area.table, file))
    area.put(1, b"other bytes")
    result = run(area, report)
    assert paths(result.deleted) == [other]
    assert [kept.reason for kept in result.kept] == ["it changed since the mark"]
    assert set(area.in_place()) == {file}


def test_a_file_of_another_time_stays(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}")
    file = area.put(1)
    report = area.mark()
    second = replace(report, candidates=(replace(report.candidates[0], mtime_ms=OLD_MS + 2),))
    assert sweep(report, lambda: second, limits=ALL).kept[0].reason == "it changed since the mark"

    def changed_after() -> MarkReport:
        os.utime(tmp_path / file)
        return report

    result = sweep(report, changed_after, limits=ALL)
    assert [kept.reason for kept in result.kept] == ["it changed since the mark"]
    assert set(area.in_place()) == {file}


def test_a_file_that_is_gone_counts_as_done(area: Area) -> None:
    files = [area.put(number) for number in range(3)]
    report = area.mark()
    area.storage.delete(join(area.table, files[0]))

    def gone_after() -> MarkReport:
        second = area.mark()
        area.storage.delete(join(area.table, files[1]))
        return second

    result = sweep(report, gone_after, limits=ALL)
    assert {file.path: (file.bytes, file.reason) for file in result.deleted} == {
        files[0]: (0, "gone already"),
        files[1]: (0, "gone already"),
        files[2]: (6, "no data file refers to it"),
    }
    require_truth(result)
    again = run(area, report)
    assert (again.bytes, len(again.deleted), again.sweep_id) == (0, 3, None)


@pytest.mark.parametrize("first", [True, False])
def test_a_doubt_of_either_mark_keeps_everything(first: bool, area: Area) -> None:
    area.put(1)
    clear = area.mark()
    doubtful = replace(clear, doubts=("'x.parquet' cannot be read",))
    result = sweep(doubtful if first else clear, lambda: clear if first else doubtful, limits=ALL)
    assert (result.deleted, result.sweep_id, result.doubts) == ([], None, ("'x.parquet' cannot be read",))
    assert result.kept[0].reason == "kept for a doubt: 'x.parquet' cannot be read"
    assert len(area.in_place()) == 1
    require_truth(result)


def test_too_much_at_once_is_refused(area: Area) -> None:
    files = [area.put(number) for number in range(4)]
    area.needed = {files[0]}
    with pytest.raises(RefusedError, match=r"18 of 24 bytes .*clean.max.share allows 50 percent"):
        run(area, limits=SweepLimits())
    # The number of files does not hide how much is to go in the end.
    with pytest.raises(RefusedError, match="18 of 24"):
        run(area, limits=SweepLimits(50, 1))
    dry = run(area, dry_run=True, limits=SweepLimits())
    assert dry.refusal is not None
    assert len(dry.candidates) == 3
    assert len(area.in_place()) == 4
    area.needed = set(files[:2])
    assert len(run(area, limits=SweepLimits()).deleted) == 2


def test_a_run_takes_the_oldest_and_the_rest_waits(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}")
    files = [area.put(number) for number in (3, 1, 2)]
    report = area.mark()
    for file in (files[1], files[2], files[0]):
        result = run(area, report, limits=SweepLimits(100, 1))
        assert [found.path for found in result.deleted if found.bytes] == [file]
        require_truth(result)
    assert area.in_place() == {}
    first = run(Area(f"file://{tmp_path}"), report, limits=SweepLimits(100, 1))
    assert first.bytes == 0


def test_only_own_containers_go(tmp_path: Path) -> None:
    table, outside = tmp_path / "t", tmp_path / "outside"
    area = Area(f"file://{table}")
    own = area.put(1)
    name = own.rpartition("/")[2]
    folder = table / ".hoodie/blobs/img"
    outside.mkdir()
    linked = outside / WRITE_FOLDER / name
    linked.parent.mkdir()
    linked.write_bytes(b"precious")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WRITE_FOLDER).symlink_to(linked.parent)
    (table / "data.parquet").write_bytes(b"rows")
    (folder / "cat.png").write_bytes(b"meow")
    (tmp_path / name).write_bytes(b"above")
    bad = [
        f".hoodie/blobs/img/{WRITE_FOLDER}/{name}",
        f".hoodie/blobs/../../../{name}",
        f".hoodie/blobs/img/../img/{WRITE_FOLDER}/{name}",
        f".hoodie/blobs//img/{WRITE_FOLDER}/{name}",
        str(linked),
        f"file://{linked}",
        "data.parquet",
        ".hoodie/blobs/img/cat.png",
        "",
    ]
    files = tuple(UnneededFile(path, 8, "forged", 0) for path in bad)
    forged = replace(area.mark(), candidates=(*area.mark().candidates, *files))
    before = {path for path in tmp_path.rglob("*") if path.is_file() and ".hoodie/blob_service" not in str(path)}
    result = sweep(forged, lambda: forged, limits=ALL, trash=False)
    assert {file.path for file in result.deleted} == {own}
    assert {file.path for file in result.kept} == set(bad)
    assert all(file.reason.startswith("refused: ") for file in result.kept)
    after = {path for path in tmp_path.rglob("*") if path.is_file() and ".hoodie/blob_service" not in str(path)}
    assert before - after == {table / own}


WRITE_FOLDER = "20260101000000000_0123456789ab"


def test_an_area_behind_a_link_is_not_touched(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/other")
    file = area.put(1)
    (tmp_path / "t/.hoodie").mkdir(parents=True)
    (tmp_path / "t/.hoodie/blobs").symlink_to(tmp_path / "other/.hoodie/blobs")
    report = replace(area.mark(), table=f"file://{tmp_path}/t")
    result = sweep(report, lambda: report, limits=ALL)
    assert [kept.reason for kept in result.kept] == ["refused: its path contains a symbolic link"]
    assert set(area.in_place()) == {file}


def test_a_table_behind_a_link_is_swept(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/real")
    area.put(1)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    report = replace(area.mark(), table=f"{tmp_path}/link/")
    assert len(sweep(report, lambda: report, limits=ALL).deleted) == 1
    assert area.in_place() == {}


def test_a_trash_behind_a_link_is_refused(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    area.put(1)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t/.hoodie/blob_service/v1").mkdir(parents=True)
    (tmp_path / "t/.hoodie/blob_service/v1/trash").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="is behind a symbolic link"):
        run(area)
    assert len(area.in_place()) == 1
    assert len(run(area, trash=False).deleted) == 1


def test_a_second_mark_of_another_table_is_refused(area: Area) -> None:
    area.put(1)
    with pytest.raises(InvalidArgumentError, match=r"is about 's3a://other/t' and not about"):
        sweep(area.mark(), lambda: replace(area.mark(), table="s3a://other/t"), limits=ALL)
    assert len(area.in_place()) == 1


def test_what_storage_will_not_move_counts_as_failed(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}")
    files = [area.put(number) for number in (1, 2)]
    (tmp_path / ".hoodie/blob_service/v1").mkdir(parents=True)
    (tmp_path / ".hoodie/blob_service/v1/trash").write_bytes(b"no folder")
    result = run(area)
    assert paths(result.failed) == sorted(files)
    assert (result.deleted, result.bytes) == ([], 0)
    assert "it could not be taken away" in result.failed[0].reason
    assert {row["action"] for row in result.rows()} == {"failed"}
    require_truth(result)
    (tmp_path / ".hoodie/blob_service/v1/trash").unlink()
    assert len(run(area).deleted) == 2


@pytest.mark.parametrize("broken", ["_copy", "delete"])
def test_a_copy_that_fails_leaves_nothing_behind(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    area = Area(f"memory:///{tmp_path.name}")
    area.put(1)
    place = next(iter(area.in_place()))
    real = getattr(type(area.storage), broken)

    def fail(*arguments: object) -> object:
        if broken == "delete" and place not in str(arguments):
            return real(*arguments)
        raise OSError("slow down")

    with monkeypatch.context() as patch:
        patch.setattr(type(area.storage), broken, fail)
        result = run(area)
    assert paths(result.failed) == [place]
    assert (set(area.in_place()), area.in_trash()) == ({place}, {})
    require_truth(result)


def test_a_move_that_only_could_not_be_synced_is_counted_where_the_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = Area(f"file://{tmp_path}")
    file = area.put(1)
    real, failed = local_files._rename_new, []

    def moved_and_failed(name: str, *homes: Any) -> None:
        real(name, *homes)
        if file.endswith(f"/{name}"):
            failed.append(name)
            raise OSError("input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(local_files, "_rename_new", moved_and_failed)
        result = run(area)
    assert len(failed) == 1
    assert paths(result.deleted) == [file]
    assert set(area.in_trash()) == {file}
    require_truth(result)


def test_a_file_that_goes_at_the_last_moment_is_not_counted_twice(area: Area, monkeypatch: pytest.MonkeyPatch) -> None:
    area.put(1)
    real = type(area.storage).move

    def too_late(storage: Storage, uri: str, target: str) -> None:
        storage.delete(uri)
        real(storage, uri, target)

    monkeypatch.setattr(type(area.storage), "move", too_late)
    result = run(area)
    assert [(file.bytes, file.reason) for file in result.deleted] == [(0, "gone already")]
    assert (result.bytes, result.failed) == (0, [])


def steps_of_a_sweep(folder: str, trash: bool) -> int:
    area = Area(folder)
    for number in range(3):
        area.put(number)
    with dying(10**6, after=False) as death:
        run(area, trash=trash)
    for info in area.storage.list_files(area.table, recursive=True):
        area.storage.delete(info.uri)
    return death.steps


@pytest.mark.parametrize("trash", [True, False])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_killed_between_any_two_steps_a_second_run_ends_it(kind: str, after: bool, trash: bool, tmp_path: Path) -> None:
    def folder(step: int) -> str:
        return f"file://{tmp_path}/{step}" if kind == "file" else f"memory:///{tmp_path.name}{step}"

    steps = steps_of_a_sweep(folder(0), trash)
    assert steps >= 1 + 2 + 3 + 1, "the lease, the record, three files, the end of the lease"
    for step in range(1, steps + 1):
        area = Area(folder(step))
        files = [area.put(number) for number in range(3)]
        content = area.in_place()
        report = area.mark()
        with dying(step, after):
            run(area, report, trash=trash)
        there = {**area.in_trash(), **area.in_place()}
        if trash:
            assert there == content, step
        else:
            assert there.items() <= content.items(), step
        # One of them is referred to by now, so it must stay wherever the other run was killed.
        area.needed = {files[1]} & set(area.in_place())
        later = NOW + LEASE_MS + 1
        second = run(area, report, at=later, trash=trash)
        require_truth(second)
        assert unfinished_sweeps(area.storage, area.table) == []
        assert set(area.in_place()) == area.needed
        if kind == "file":
            assert not set(area.in_trash()) & area.needed
        if trash:
            assert {**area.in_trash(), **area.in_place()} == content, step
            restore(area.table)
            assert (area.in_place(), area.trashed()) == (content, 0), step
            area.needed = set(content)
        third = run(area, report, at=later, trash=trash)
        assert (third.bytes, third.sweep_id) == (0, None)
        if kind == "memory":
            for info in area.storage.list_files(area.table, recursive=True):
                area.storage.delete(info.uri)


@pytest.mark.parametrize("between", ["sweep", "restore"])
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_slow_sweep_loses_nothing_to_another_that_believes_it_dead(kind: str, between: str, tmp_path: Path) -> None:
    """Before each step of the slow one in turn, a commit refers to a file, and the other runs as a whole."""
    for step in range(1, 12):
        area = Area(f"file://{tmp_path}/{step}" if kind == "file" else f"memory:///{tmp_path.name}{step}")
        files = [area.put(number) for number in range(3)]
        content = area.in_place()

        def other(area: Area = area, files: list[str] = files) -> None:
            area.needed = set(files[:2]) & set(area.in_place())
            if between == "restore":
                restore(area.table)
            else:
                run(area, at=NOW + LEASE_MS + 1)

        with contextlib.suppress(RefusedError), interrupted(step, other):
            run(area)
        assert {**area.in_trash(), **area.in_place()} == content, step
        run(area, at=NOW + 3 * LEASE_MS)
        restore(area.table)
        assert area.in_place() == content, step
        for info in area.storage.list_files(area.table, recursive=True):
            area.storage.delete(info.uri)


def test_a_sweep_that_was_killed_says_what_stayed(tmp_path: Path) -> None:
    area = Area(f"memory:///{tmp_path.name}")
    files = [area.put(number) for number in range(2)]
    with dying(4, after=True):  # lease, record, the first copy and its deletion
        run(area)
    [record] = unfinished_sweeps(area.storage, area.table)
    assert record.state == BEGUN
    area.needed = set(area.in_place())
    run(area, at=NOW + LEASE_MS + 1)
    ended = read_sweep(area.storage, area.table, record.sweep_id)
    assert ended is not None
    assert [(file.path in files, file.reason) for file in ended.stayed] == [(True, "the sweep was killed before it")]
    restore(area.table)
    assert set(area.in_place()) == set(files)


KILLED = """
import os, signal, sys
from support.swept import Area
from hudi_vector.storage import Storage
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.cleaning.sweep import sweep

area = Area(sys.argv[1])
real, moves = Storage.move, 0

def move(*arguments, **more):
    global moves
    moves += 1
    if moves == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*arguments, **more)

Storage.move = move
sweep(area.mark(), area.mark, limits=SweepLimits(100))
"""


def test_a_killed_process_is_followed(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}/t")
    content = {area.put(number): b"%06d" % number for number in range(5)}
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    ran = subprocess.run([sys.executable, "-c", KILLED, area.table], env=environment, timeout=120, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert (len(area.in_trash()), len(area.in_place())) == (2, 3)
    assert {**area.in_trash(), **area.in_place()} == content
    with pytest.raises(RefusedError, match=r"another clean of .* is under way: process \d+ of .* until 20"):
        sweep(area.mark(), area.mark, limits=ALL)
    shutil.rmtree(tmp_path / "t/.hoodie/blob_service/v1/leases")
    assert len(sweep(area.mark(), area.mark, limits=ALL).deleted) == 3
    assert area.in_trash() == content


def test_two_sweeps_exclude_each_other(area: Area) -> None:
    area.put(1)
    with ServiceLease(area.table, CLEAN, now_ms=lambda: NOW):
        with pytest.raises(RefusedError, match="another clean of"):
            run(area)
        assert area.marks == 1, "the second mark is not made in vain"
        assert len(run(area, dry_run=True).candidates) == 1
    assert len(run(area).deleted) == 1


def test_a_sweep_that_lost_its_lease_stops(area: Area) -> None:
    for number in range(3):
        area.put(number)
    with pytest.raises(RefusedError, match="lost its lease: it was not renewed in time"):
        sweep(area.mark(), area.mark, limits=ALL, threads=1, now_ms=lambda: NOW + (LEASE_MS if area.in_trash() else 0))
    assert (len(area.in_place()), len(area.in_trash())) == (2, 1)
    assert len(unfinished_sweeps(area.storage, area.table)) == 1
    run(area, at=NOW + 3 * LEASE_MS)
    assert area.in_place() == {}


def test_a_damaged_record_stops_nothing(tmp_path: Path) -> None:
    area = Area(f"file://{tmp_path}")
    area.put(1)
    folder = tmp_path / SWEEPS / WRITE_FOLDER
    folder.mkdir(parents=True)
    (folder / f"00000000-{'0' * 32}").write_bytes(b"cut o")
    (folder / "note.txt").write_bytes(b"not ours")
    assert len(run(area).deleted) == 1
