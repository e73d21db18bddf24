"""Sweeps, restores and expiry on an S3-compatible server, killed between any two steps; no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.servers import bucket
from support.swept import OLD_MS, Area, dying

from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.service_lease import LEASE_MS
from hudi_vector.table_services.sweep import sweep
from hudi_vector.table_services.trash import expire, restore

ALL = SweepLimits(100)


@pytest.fixture(scope="module")
def options() -> Iterator[StorageOptions]:
    with bucket("lake") as (made, _):
        yield made


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
    gone = expire("s3a://lake/t/", window_ms=1000, now_ms=OLD_MS + 1001, options=options)
    assert len(gone) == 2
    assert area.in_place() == {path: content[path] for path in files[:2]}
    assert area.in_trash() == {}
    assert restore(area.table, options=options).restored == []


@pytest.mark.parametrize("after", [True, False])
def test_killed_between_any_two_steps(after: bool, options: StorageOptions) -> None:
    for step in range(1, 8):
        area = Area(f"s3://lake/killed-{step}-{after}", options)
        files = [area.put(number) for number in range(2)]
        content = area.in_place()
        report = area.mark()
        with dying(step, after):
            sweep(report, area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS)
        assert {**area.in_trash(), **area.in_place()} == content
        area.needed = {files[0]} & set(area.in_place())
        sweep(report, area.mark, limits=ALL, options=options, now_ms=lambda: OLD_MS + LEASE_MS)
        assert set(area.in_place()) == area.needed
        assert {**area.in_trash(), **area.in_place()} == content
        restore(area.table, options=options)
        assert (area.in_place(), area.trashed()) == (content, 0)
