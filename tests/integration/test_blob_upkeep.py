"""Blobs prepared for a caller's own write, and tables that were copied."""

from __future__ import annotations

import shutil
import time

import pytest
from support import tables
from support.blobs import content, got, rows, stored, write
from support.prepared import Prepared
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.blobs.names import STAGING
from hudi_vector.blobs.uploads.manifest import ABORTED, COMMITTED, PREPARED_MS, STAGED, abort, list_uploads
from hudi_vector.table_services.cleaning.sweep import sweep
from hudi_vector.table_services.guards import SweepLimits
from hudi_vector.table_services.marking.mark import find_unneeded

SMALL = {"img": {"inline.threshold": "1KB"}}


@pytest.fixture(scope="module")
def one_row(spark, workspace):
    """A table with one small blob."""
    path = tables.fresh_path(workspace, "one_row")
    write(rows(spark, [10]), path, blobs=SMALL)
    return Prepared.of(spark, path)


@pytest.fixture
def path(one_row):
    return one_row.again()


def write_by_owner(prepared):
    """Prepared rows as their user writes them."""
    settings = {
        "hoodie.table.name": prepared.table.rpartition("/")[2],
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.table.ordering.fields": "ts",
        **QUICK,
    }
    prepared.df.write.format("hudi").options(**settings).mode("append").save(prepared.table)


def test_prepared_rows_are_written_by_their_owner(spark, path):
    prepared = hv.blobs.prepare(rows(spark, [5000, 20, 6000], ts=2), str(path), blobs=SMALL)
    assert {upload.state for upload in list_uploads(f"file://{path}")} == {COMMITTED, STAGED}
    with pytest.raises(errors.InvalidArgumentError, match="no completed commit since the blobs were prepared"):
        hv.blobs.finish(spark, str(path), prepared.write_id)
    write_by_owner(prepared)
    finished = hv.blobs.finish(spark, str(path), prepared.write_id)
    assert finished.state == COMMITTED
    assert stored(spark, path) == {0: content(2000, 5000), 1: content(2001, 20), 2: content(2002, 6000)}
    assert list((path / ".hoodie/blob_service/v1/staging").iterdir()) == []
    with pytest.raises(errors.BlobWriteError, match="committed"):
        hv.blobs.finish(spark, str(path), prepared.write_id, str(list_uploads(f"file://{path}")[0].instant))
    with pytest.raises(errors.InvalidArgumentError, match="no completed commit 2020"):
        hv.blobs.finish(spark, str(path), prepared.write_id, "2020")


def test_prepared_rows_that_are_written_too_late(spark, path):
    """After 7 days and the grace the cleaner took their blobs: what refers to these is not called committed."""
    prepared = hv.blobs.prepare(rows(spark, [5000, 20], ts=2), str(path), blobs=SMALL)
    week = time.time_ns() // 1_000_000 + PREPARED_MS

    def mark():
        return find_unneeded(str(path), grace_ms=0, now_ms=week + 60_000)

    assert find_unneeded(str(path), grace_ms=0, now_ms=week - 60_000).candidates == ()
    (taken,) = sweep(mark(), mark, limits=SweepLimits(100)).deleted
    write_by_owner(prepared)
    with pytest.raises(errors.BlobWriteError, match=rf"was committed, but its container '{taken.path}' is gone"):
        hv.blobs.finish(spark, str(path), prepared.write_id)
    assert {upload.state for upload in list_uploads(f"file://{path}")} == {COMMITTED, STAGED}
    hv.table_services.restore_blobs(spark, str(path))
    assert hv.blobs.finish(spark, str(path), prepared.write_id).state == COMMITTED
    assert got(path) == {0: content(2000, 5000), 1: content(2001, 20)}
    # Once noted, what was replaced since is for the cleaner alone.
    (path / taken.path).unlink()
    assert hv.blobs.finish(spark, str(path), prepared.write_id).state == COMMITTED


def test_what_is_prepared_and_never_written(spark, path):
    """Its rows in plain hold an erasure open, and go with its containers once it was given up."""
    prepared = hv.blobs.prepare(rows(spark, [5000, 20], ts=2), str(path), blobs=SMALL)
    staged, services = f"{STAGING}/{prepared.write_id}", hv.table_services
    assert services.clean_blobs(spark, str(path), grace="0s", max_share=100).leftovers == [], "it may commit"
    assert {holder.path for holder in services.check_erasure(spark, str(path), ["x"]).holders} >= {staged}
    assert prepared.df.count() == 2

    abort(str(path), prepared.write_id)
    dry = services.clean_blobs(spark, str(path), grace="0s", max_share=100, dry_run=True)
    assert prepared.df.count() == 2
    real = services.clean_blobs(spark, str(path), grace="0s", max_share=100, trash_window="0s")
    assert real.rows() == dry.rows()
    assert [file.path for file in real.leftovers] == [staged]
    assert real.leftovers[0].bytes > 20
    assert len(real.deleted) == 1
    assert not (path / staged).exists()
    services.clean_blobs(spark, str(path), grace="0s", trash_window="0s")
    erased = services.check_erasure(spark, str(path), ["x"])
    assert erased.is_well, erased
    assert ".hoodie/timeline" in erased.not_looked_at

    # One that fails leaves nothing behind.
    lost = rows(spark, [5000]).selectExpr("id", "ts", "part", "'/no/such/file' AS img")
    with pytest.raises(errors.InvalidBlobError, match="no/such/file"):
        hv.blobs.prepare(lost, str(path), blobs=SMALL)
    assert list((path / STAGING).iterdir()) == []
    assert {upload.state for upload in list_uploads(f"file://{path}")} == {COMMITTED, ABORTED}


def test_what_cannot_be_prepared(spark, workspace):
    with pytest.raises(errors.TableNotFoundError, match="make it with CREATE TABLE"):
        hv.blobs.prepare(rows(spark, [1]), str(workspace / "nothing"), blobs=["img"])
    path = tables.fresh_path(workspace, "plain")
    tables.write(spark.range(3), path)
    with pytest.raises(errors.InvalidArgumentError, match="no column of the DataFrame is a blob"):
        hv.blobs.prepare(spark.range(3), str(path))


@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.soak), "mor"])
def test_a_copied_table_gets_references_of_its_own(spark, workspace, table_type):
    path, copy = tables.fresh_path(workspace, "old"), tables.fresh_path(workspace, "new")
    write(rows(spark, [10, 5000, None, 6000]), path, blobs=SMALL, table_type=table_type)
    write(rows(spark, [7000], ts=2), path, blobs=SMALL)
    expected = got(path)
    shutil.copytree(path, copy)
    cleaned = hv.table_services.clean_blobs(spark, str(copy), grace="0s", trash=False)
    assert (cleaned.deleted, cleaned.doubts) == ([], ())
    assert "hv.blobs.relocate points its rows here" in cleaned.notes[0]
    moved = hv.blobs.relocate(spark, str(copy), str(path))
    assert moved.inserted + moved.updated == 3  # the inline row and the NULL stay as they are
    shutil.rmtree(path)
    assert stored(spark, copy) == expected
    assert hv.blobs.relocate(spark, str(copy), str(path)) is None
    with pytest.raises(errors.InvalidArgumentError, match="is where the table is now"):
        hv.blobs.relocate(spark, str(copy), f"file://{copy}")


def test_a_copied_table_with_rows_of_one_key_is_refused(spark, workspace):
    path, copy = tables.fresh_path(workspace, "twice"), tables.fresh_path(workspace, "moved")
    frame = rows(spark, [5000, 6000, 7000]).selectExpr("int(id / 2) AS id", "ts", "part", "img")
    kept = {"hoodie.datasource.insert.dup.policy": "none"}
    write(frame, path, blobs=SMALL, operation="insert", partition_by=None, options=kept)
    shutil.copytree(path, copy)
    with pytest.raises(errors.RefusedError, match=r"several rows of '.*' have one record key \(1 such key\)"):
        hv.blobs.relocate(spark, str(copy), str(path))
    before, after = (
        sorted(map(tuple, spark.read.format("hudi").load(str(each)).selectExpr("id", "read_blob(img)").collect()))
        for each in (path, copy)
    )
    assert [key for key, _ in after] == [0, 0, 1]
    assert after == before


def test_rows_that_are_marked_as_deleted_are_deleted(spark, workspace):
    path, copy = tables.fresh_path(workspace, "marked"), tables.fresh_path(workspace, "moved")
    marked = rows(spark, [5000, 6000, 7000, 8000]).selectExpr("*", "id = 1 AS _hoodie_is_deleted")
    write(marked.selectExpr("id", "ts", "part", "img", "false AS _hoodie_is_deleted"), path, blobs=SMALL)
    write(marked.where("id < 3"), path, blobs=SMALL)
    expected = {key: blob for key, blob in got(path).items() if key != 1}
    assert stored(spark, path) == expected
    hv.table_services.compact_blobs(spark, str(path), live_threshold=100, assume_single_writer=True, options=QUICK)
    shutil.copytree(path, copy)
    hv.blobs.relocate(spark, str(copy), str(path))
    assert stored(spark, copy) == stored(spark, path) == expected


def test_nested_blobs_of_a_copied_table(spark, workspace):
    path, copy = tables.fresh_path(workspace, "nested"), tables.fresh_path(workspace, "moved")
    frame = spark.sql(
        "SELECT id, named_struct('page', int(id), 'image', data, 'back', data) AS doc FROM VALUES "
        "(1, X'01020304'), (2, X'05'), (3, CAST(NULL AS BINARY)) AS t(id, data) UNION ALL SELECT 4, NULL"
    )
    settings = {"doc.image": {"inline.threshold": "3"}, "doc.back": {"inline.threshold": "0"}}
    hv.write(frame.coalesce(1), str(path), record_key="id", blobs=settings, options=QUICK)
    shutil.copytree(path, copy)
    assert hv.blobs.relocate(spark, str(copy), str(path)).updated == 2
    shutil.rmtree(path)
    found = spark.read.format("hudi").load(str(copy))
    read = found.selectExpr("id", "doc.page", "read_blob(doc.image) a", "read_blob(doc.back) b", "doc IS NULL n")
    assert sorted(tuple(row) for row in read.collect()) == [
        (1, 1, b"\x01\x02\x03\x04", b"\x01\x02\x03\x04", False),
        (2, 2, b"\x05", b"\x05", False),
        (3, 3, None, None, False),
        (4, None, None, None, True),
    ]
    assert [row.type for row in found.orderBy("id").selectExpr("doc.image.type").collect()[:2]] == [
        "OUT_OF_LINE",
        "INLINE",
    ]
    assert hv.blobs.relocate(spark, str(copy), str(path)) is None


def test_a_copy_without_its_containers_is_refused(spark, workspace):
    path, copy = tables.fresh_path(workspace, "whole"), tables.fresh_path(workspace, "part")
    write(rows(spark, [5000]), path, blobs=SMALL)
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("*.blob"))
    with pytest.raises(errors.InvalidBlobError, match="there is no file"):
        hv.blobs.relocate(spark, str(copy), str(path))
    assert got(copy) == {0: content(1000, 5000)}  # still from the old place
