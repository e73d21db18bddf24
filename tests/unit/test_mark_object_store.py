"""Marks on an object store, and of tables of an older version."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import servers
from support.blob_states import DAY, BlobTable, blob, write_id

from hudi_vector.blobs.names import STAGING
from hudi_vector.blobs.uploads.manifest import list_uploads, open_upload
from hudi_vector.storage import StorageOptions
from hudi_vector.table_services.cleaning.leftovers import remove_leftovers
from hudi_vector.table_services.marking.files import list_marks, publish_mark, read_mark
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.kept import KeptReferences
from hudi_vector.table_services.sites import Site

NOW = time.time_ns() // 1_000_000 + 30 * DAY
OLD = NOW - 60 * DAY


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[StorageOptions, Any]]:
    with servers.lake() as found:
        yield found


def uploaded(table: BlobTable, client: Any, prefix: str) -> None:
    for file in table.path.rglob("*"):
        if file.is_file():
            client.put_object(Bucket="lake", Key=f"{prefix}/{file.relative_to(table.path)}", Body=file.read_bytes())


def test_a_table_on_an_object_store(store: tuple[StorageOptions, Any], tmp_path: Path) -> None:
    options, client = store
    table = BlobTable(tmp_path, OLD)
    paths = [table.container(write_id(OLD, number)) for number in range(5)]
    schemes = {1: "s3://lake/t", 2: "s3a://lake//t", 3: "s3n://lake/t/x/.."}
    instant = table.instant()
    table.base("f1", instant, {key: blob(f"{begin}/{paths[key]}") for key, begin in schemes.items()})
    table.complete(instant)
    instant = table.instant()
    table.log("f1", instant, {4: blob(paths[4])})
    table.complete(instant)
    uploaded(table, client, "t")
    report = find_unneeded("s3a://lake/t", grace_ms=DAY, now_ms=NOW, options=options)
    assert (report.table, report.doubts) == ("s3://lake/t", ())
    assert [file.path for file in report.candidates] == [paths[0]]
    assert {file.path for file in report.kept} == set(paths[1:])
    assert read_mark("s3n://lake/t", publish_mark(report, options), options) == report
    assert list_marks("s3a://lake/t", options) == [report.mark_id]
    kept = KeptReferences("s3a://lake/t", options)
    again = find_unneeded("s3a://lake/t", grace_ms=DAY, now_ms=NOW, options=options, reader=kept)
    assert (again.candidates, again.kept) == (report.candidates, report.kept)
    kept.save()


def test_leftovers_on_an_object_store(store: tuple[StorageOptions, Any], tmp_path: Path) -> None:
    options, client = store
    table = BlobTable(tmp_path, OLD)
    dead, alive = write_id(OLD, 1), open_upload("s3a://lake/left", {}, lease_ms=60 * DAY, options=options).write_id
    paths = [f"{STAGING}/{name}/part-{number}.parquet" for name in (dead, alive) for number in range(3)]
    for path in paths:
        table.file(path, b"rows in plain")
    uploaded(table, client, "left")
    client.put_object(Bucket="lake", Key=f"left/{STAGING}/{write_id(OLD, 2)}/", Body=b"")  # a folder as Hadoop makes it
    site, now = Site("s3://lake/left", options), time.time_ns() // 1_000_000

    def removed(now_ms: int) -> list[str]:
        uploads = partial(list_uploads, "s3://lake/left", options=options)
        gone, stayed = remove_leftovers(site, uploads, grace_ms=DAY, now_ms=now_ms)
        assert stayed == []
        return [file.path for file in gone]

    assert removed(now + DAY - 60_000) == []
    assert removed(now + DAY + 60_000) == [f"{STAGING}/{dead}"]
    listed = client.list_objects_v2(Bucket="lake", Prefix=f"left/{STAGING}/")["Contents"]
    assert sorted(each["Key"] for each in listed if each["Size"]) == [f"left/{path}" for path in paths[3:]]
    assert removed(now + DAY + 60_000) == []


def test_a_copy_in_another_bucket_waits_for_its_relocation(store: tuple[StorageOptions, Any], tmp_path: Path) -> None:
    options, client = store
    table = BlobTable(tmp_path, OLD)
    path = table.container(write_id(OLD, 1))
    instant = table.instant()
    table.base("f1", instant, {1: blob(f"s3a://other/t/{path}", managed=False)})
    table.complete(instant)
    uploaded(table, client, "copy")
    report = find_unneeded("s3a://lake/copy", grace_ms=DAY, now_ms=NOW, options=options)
    assert report.candidates == ()
    assert "hv.blobs.relocate" in report.doubts[0]


def test_a_table_that_was_moved_in_its_bucket_keeps_what_its_rows_name(
    store: tuple[StorageOptions, Any], tmp_path: Path
) -> None:
    options, client = store
    table = BlobTable(tmp_path, OLD)
    path, other = table.container(write_id(OLD, 1)), table.container(write_id(OLD, 2))
    instant = table.instant()
    table.base("f1", instant, {1: blob(f"s3a://lake/before/{path}")})
    table.complete(instant)
    uploaded(table, client, "moved")
    report = find_unneeded("s3a://lake/moved", grace_ms=DAY, now_ms=NOW, options=options)
    assert ([file.path for file in report.candidates], report.doubts) == ([other], ())
    assert [file.path for file in report.kept] == [path]
    assert "such as 's3://lake/before/" in report.notes[0]


def test_a_table_of_version_6(tmp_path: Path) -> None:
    table = BlobTable(tmp_path, OLD, properties={"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"})
    old, new = table.container(write_id(OLD - 3 * DAY, 1)), table.container(write_id(OLD + DAY, 2))
    table.touch(tmp_path / old, OLD - 3 * DAY)
    kept = table.container(write_id(OLD, 3))
    instant = table.instant()
    table.base("f1", instant, {1: blob(kept)})
    table.file(f".hoodie/{instant}.commit", b"{}")
    table.file(f".hoodie/{instant}.savepoint", b"{}")
    table.file(f".hoodie/{table.instant()}.deltacommit.requested", b"")
    report = find_unneeded(str(tmp_path), grace_ms=DAY, now_ms=NOW)
    assert [file.path for file in report.candidates] == [old]
    reasons = {file.path: file.reason for file in report.kept}
    assert "refers to it" in reasons[kept]
    assert "which has not completed" in reasons[new]
