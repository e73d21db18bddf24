"""Sweeps, restores and expiry on an S3-compatible server, killed between any two steps; no Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import servers
from support.blob_states import BlobTable
from support.swept import OLD_MS, Area, dying

from hudi_vector.storage import Storage, StorageOptions, open_storage
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.mark_report import MarkReport
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.trash.trash import expire, restore

ALL = SweepLimits(100)
DAY = 86_400_000


@pytest.fixture(scope="module")
def options() -> Iterator[StorageOptions]:
    with servers.lake() as (found, _):
        yield found


def test_to_the_trash_and_back(options: StorageOptions) -> None:
    area = Area("s3://lake/t", options)
    files = [area.put(number) for number in range(4)]
    content = area.in_place()
    area.needed = {files[0]}
    result = sweep(area.mark(), area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS)
    assert {file.path for file in result.deleted} == set(files[1:])
    assert (set(area.in_place()), set(area.in_trash())) == ({files[0]}, set(files[1:]))
    back = restore("s3a://lake/t/", paths=files[1:2], options=options)
    assert (back.bytes, set(area.in_place())) == (6, set(files[:2]))
    gone = expire("s3a://lake/t/", window_ms=1000, now_ms=OLD_MS + 1001, options=options).gone
    assert len(gone) == 2
    assert area.in_place() == {path: content[path] for path in files[:2]}
    assert area.in_trash() == {}
    assert restore(area.table, options=options).restored == []


@pytest.mark.parametrize(
    ("after", "threads", "steps"),
    [(True, 1, 7), *(pytest.param(*each, marks=pytest.mark.soak) for each in ((False, 1, 7), (True, 4, 5)))],
)
def test_killed_between_any_two_steps(after: bool, threads: int, steps: int, options: StorageOptions) -> None:
    for step in range(8 - steps, 8):
        area = Area(f"s3://lake/killed-{step}-{after}-{threads}", options)
        files = [area.put(number) for number in range(2 if threads == 1 else 4)]
        content = area.in_place()
        report = area.mark()
        with dying(step, after):
            sweep(report, area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS, threads=threads)
        assert {**area.in_trash(), **area.in_place()} == content
        area.needed = {files[0]} & set(area.in_place())
        sweep(report, area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS + LEASE_MS)
        assert set(area.in_place()) == area.needed
        assert {**area.in_trash(), **area.in_place()} == content
        restore(area.table, options=options)
        assert (area.in_place(), area.trashed()) == (content, 0)


def test_several_files_go_at_the_same_time(options: StorageOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 files go, come back and expire, several at the same time and never more than 16."""
    area = Area("s3://lake/many", options)
    files = [area.put(number) for number in range(24)]
    content = area.in_place()
    report = area.mark()
    real, now, most, counting = Storage.info, 0, 0, threading.Condition()

    def slow(*arguments: object) -> object:
        """A request that is answered when three others are under way, as long as there were never four."""
        nonlocal now, most
        with counting:
            now += 1
            most = max(most, now)
            counting.notify_all()
            counting.wait_for(lambda: most >= 4, timeout=5)
            now -= 1
        return real(*arguments)

    monkeypatch.setattr(Storage, "info", slow)
    result = sweep(report, area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS)
    assert {file.path for file in result.deleted} == set(files)
    assert 4 <= most <= 16
    most = 0
    assert len(restore(area.table, options=options).restored) == 24
    assert area.in_place() == content
    assert 4 <= most <= 16
    sweep(area.mark(), area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS + LEASE_MS)
    most = 0
    assert len(expire(area.table, window_ms=0, now_ms=OLD_MS + 2 * LEASE_MS, options=options).gone) == 24
    assert area.in_trash() == {}
    assert 4 <= most <= 16


def test_a_managed_root_on_other_storage_needs_no_trash(options: StorageOptions, tmp_path: Path) -> None:
    far, root = open_storage("s3://lake/media", options), "s3://lake/media"
    far.publish(f"{root}/a/x.bin", b"12")
    table = BlobTable(tmp_path.resolve(), OLD_MS)

    def mark() -> MarkReport:
        later = time.time_ns() // 1_000_000 + 30 * DAY
        roots = ["s3a://lake//media/"]
        return find_unneeded(table.uri, grace_ms=DAY, managed_roots=roots, now_ms=later, options=options)

    result = sweep(mark(), mark, limits=ALL, options=options)
    assert [(file.path, file.reason) for file in result.kept] == [
        (f"{root}/a/x.bin", "its storage is not the one of the table's trash; sweep it without trash")
    ]
    result = sweep(mark(), mark, limits=ALL, options=options, trash=False)
    assert [file.path for file in result.deleted] == [f"{root}/a/x.bin"]
    assert far.list_files(root, recursive=True) == []
