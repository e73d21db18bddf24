"""Blobs written by hv.write: stored where they belong, before the commit, once, and read back by us and by Hudi."""

from __future__ import annotations

import hashlib
import shutil

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from support import tables
from support.blobs import ROWS, content, got, rows, write
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.blobs.names import new_write_id
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan
from hudi_vector.blobs.uploads.manifest import ABORTED, COMMITTED, list_uploads, read_checksums
from hudi_vector.storage import StorageOptions
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.writing.blobs import staged_files
from hudi_vector.writing.blobs.staged_files import StagedFile, read_staged
from hudi_vector.writing.blobs.staging import PARTITION, stage_rows


def test_container_formats(spark, workspace):
    """A column in containers of each format."""
    path, formats = tables.fresh_path(workspace, "formats"), {"raw": "blob", "parquet": "parquet", "lance": "lance"}
    column = {"inline.threshold": "0", "container.maxElementSize": "4KB"}
    sizes = [1, 100, 4096, 4097, 9000, None]
    frame = rows(spark, sizes).select("id", "ts", "part", *(F.col("img").alias(name) for name in formats))
    settings = {name: {"format": name, **column} for name in formats}
    made = write(frame, path, operation="bulk_insert", blobs=settings)
    expected = {i: None if size is None else content(i + 1000, size) for i, size in enumerate(sizes)}
    table = spark.read.format("hudi").load(str(path)).select("id", *formats)
    for function in ("read_blob", "read_blob_native"):
        found = table.selectExpr("id", *(f"{function}({name})" for name in formats)).collect()
        for number in range(1, 4):
            assert {row[0]: row[number] and bytes(row[number]) for row in found} == expected, (function, number)
    assert made.blobs.blobs == 15
    total = 0
    for name, ending in formats.items():
        files = [file for file in (path / ".hoodie/blobs").glob(f"*/{name}/**/*") if file.is_file()]
        assert {file.suffix for file in files} == {f".{ending}"}
        assert {file.parts[-5:-3] for file in files} == {("blobs", "p0"), ("blobs", "p1")}
        total += len(files)
    assert total == made.blobs.containers


def test_the_dataframe_is_evaluated_once(spark, workspace):
    path = tables.fresh_path(workspace, "once")
    seen = spark.sparkContext.accumulator(0)

    def count(batches):
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    counted = rows(spark, [10, 2000, 30] * 5).mapInArrow(count, ROWS)
    options = {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}
    column = {"img": {"inline.threshold": "1KB"}}
    made = write(counted, path, operation="bulk_insert", blobs=column, options=options)
    assert seen.value == 15
    held = sum(file.stat().st_size for file in (path / ".hoodie/blobs").rglob("*") if file.is_file())
    assert held == made.blobs.bytes == 5 * 2000  # no container that nothing refers to


def test_every_form_of_blob_and_nested_ones(spark, workspace):
    file = workspace / "given.bin"
    file.write_bytes(content(7, 500))
    path = tables.fresh_path(workspace, "forms")
    frame = spark.sql(
        f"SELECT 1 AS id, '{file}' AS whole, named_struct('page', 4, 'scan', X'0102') AS doc, to_blob(X'0a0b0c') AS moved, "
        f"blob_ref('{file}', 100L, 50L) AS range UNION ALL SELECT 2, NULL, NULL, NULL, NULL"
    )
    columns = {"whole": {}, "doc.scan": {"inline.threshold": "2"}, "moved": {"inline.threshold": "3"}, "range": {}}
    write(frame, path, operation="bulk_insert", ordering=None, partition_by=None, blobs=columns)
    found = spark.read.format("hudi").load(str(path)).orderBy("id")
    first, second = found.selectExpr(
        "whole",
        "doc",
        "moved",
        "range",
        "read_blob(whole) a",
        "read_blob(doc.scan) b",
        "read_blob(moved) c",
        "read_blob(range) d",
    ).collect()
    assert tuple(map(bytes, first[4:])) == (content(7, 500), b"\x01\x02", b"\x0a\x0b\x0c", content(7, 500)[100:150])
    assert (first.whole.reference.offset, first.whole.reference.length, first.whole.reference.managed) == (
        0,
        500,
        False,
    )
    assert first.doc.scan.type == first.moved.type == "OUT_OF_LINE"
    assert (first.doc.scan.reference.managed, first.range.reference.managed) == (True, False)
    assert tuple(second) == (None,) * 8


def test_checksums_are_kept_in_the_manifest(spark, workspace):
    path = tables.fresh_path(workspace, "sums")
    write(rows(spark, [2000, 3000]), path, blobs={"img": {"inline.threshold": "0", "checksum": "sha256"}})
    (upload,) = list_uploads(f"file://{path}")
    kept = read_checksums(upload).to_pylist()
    expected = {hashlib.sha256(content(1000 + i, size)).digest() for i, size in enumerate([2000, 3000])}
    assert {row["checksum"] for row in kept} == expected


def test_tables_with_vectors_and_blobs_by_name(spark):
    name = tables.fresh_name("both")
    frame = spark.sql(
        "SELECT 1 AS id, array(1.0, 0.0) AS emb, X'00ff' AS img UNION ALL SELECT 2, array(0.0, 1.0), X'01'"
    )
    hv.write(frame, name, record_key="id", vectors={"emb": 2}, blobs=["img"], options=QUICK)
    found = spark.sql(f"SELECT id, read_blob(img) AS b FROM hudi_vector_search('{name}', 'emb', array(1.0, 0.1), 1)")
    assert [(row.id, bytes(row.b)) for row in found.collect()] == [(1, b"\x00\xff")]
    kinds = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE {name}").collect()}
    assert kinds["img"].startswith("struct<type:")


def wrong(spark, expression):
    """One row with this blob."""
    none = "CAST(NULL AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)"
    return spark.sql(f"SELECT 1 AS id, {expression.format(none=none)} AS img")


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ("1.5D", errors.InvalidTypeError, "'img' is double and cannot be stored as BLOB"),
        ("named_struct('a', 1)", errors.InvalidTypeError, "cannot be stored as BLOB"),
        ("array(to_blob(X'01'))", errors.InvalidArgumentError, "'img' holds blobs in an array or map"),
        ("map('a', named_struct('b', to_blob(X'01')))", errors.InvalidArgumentError, "'img.b' holds blobs in an array"),
        (
            "named_struct('type', 'INLINE', 'data', CAST(NULL AS BINARY), 'reference', {none})",
            errors.InvalidBlobError,
            "INLINE",
        ),
        (
            "named_struct('type', 'OUT_OF_LINE', 'data', CAST(NULL AS BINARY), 'reference', {none})",
            errors.InvalidBlobError,
            "OUT",
        ),
        ("blob_ref('/nowhere/x')", errors.InvalidBlobError, "/nowhere/x"),
        ("'/nowhere/y'", errors.InvalidBlobError, "/nowhere/y"),
        ("blob_ref('/a/../b', 0L, 1L)", errors.InvalidBlobError, ".."),
        ("blob_ref('/x', -1L, 5L)", errors.InvalidBlobError, "-1"),
        ("blob_ref('x/y', 0L, 5L)", errors.InvalidBlobError, "x/y"),
    ],
)
def test_wrong_blobs_are_refused_in_one_sentence(spark, workspace, expression, error, message):
    path = tables.fresh_path(workspace, "wrong")
    with pytest.raises(error) as refused:
        write(wrong(spark, expression), path, ordering=None, partition_by=None)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not path.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inline.threshold": "5 parsecs"}, "5 parsecs"),
        ({"inline.threshold": "17MiB"}, "16 MiB"),
        ({"format": "hfile"}, "hfile"),
        ({"container.maxElementSize": "2GB"}, "maxFileSize"),
        ({"no.such.key": "1"}, "no.such.key"),
        ({"check_files": "maybe"}, "check_files"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(spark, workspace, settings, message):
    path = tables.fresh_path(workspace, "settings")
    with pytest.raises(errors.InvalidArgumentError, match=message):
        write(rows(spark, [1]), path, blobs={"img": settings})
    assert not path.exists()


def test_columns_that_are_not_there(spark, workspace):
    with pytest.raises(errors.UnknownColumnError, match="'picture' does not exist"):
        write(rows(spark, [1]), tables.fresh_path(workspace, "none"), blobs=["picture"])


def test_what_a_failed_write_leaves_is_aborted(spark, workspace):
    path = tables.fresh_path(workspace, "failed")
    column = {"img": {"inline.threshold": "0"}}
    write(rows(spark, [100]), path, blobs=column)
    before = got(path)
    bad = rows(spark, [100, 200, 300], ts=2).withColumn(
        "img", F.when(F.col("id") == 2, F.raise_error("the source broke")).otherwise(F.col("img")).cast("binary")
    )
    with pytest.raises(Exception, match="the source broke"):
        write(bad, path, blobs=column)
    assert got(path) == before
    assert sorted(upload.state for upload in list_uploads(f"file://{path}")) == [ABORTED, COMMITTED]
    assert list((path / ".hoodie/blob_service/v1/staging").iterdir()) == []


def test_a_write_that_failed_in_hudi_says_whether_it_was_committed(spark, workspace):
    path = tables.fresh_path(workspace, "failed_in_hudi")
    column, source = {"img": {"inline.threshold": "0"}}, Source(f"file://{path}", str(path))
    write(rows(spark, [100]), path, blobs=column)
    lock = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control", "hoodie.write.lock.provider": "no.Lock"}
    sync = {"hoodie.datasource.meta.sync.enable": "true", "hoodie.meta.sync.client.tool.class": "no.Sync"}
    for settings, said, count in (
        (lock, r"the write to '.*' failed: .*no\.Lock", 1),
        ({"hoodie.bulkinsert.user.defined.partitioner.class": "no.Sort"}, r"failed: .*no\.Sort", 1),
        (sync, r"instant \d+ of '.*' was committed, .* what Hudi does after a commit failed: .*no\.Sync", 2),
    ):
        new = rows(spark, [200, 300], ts=2).where("id = 1")
        with pytest.raises(errors.WriteError, match=said) as raised:
            write(new, path, blobs=column, operation="bulk_insert", options=settings)
        assert "\n" not in str(raised.value)
        assert len(got(path)) == count
        assert NativeTable(source).timeline().pending == frozenset(), "what failed is rolled back"
        (last,) = list_uploads(source.uri)[-1:]
        assert last.state == (ABORTED if count == 1 else COMMITTED)
        assert count == 1 or f"instant {last.instant} " in str(raised.value)


def test_a_row_with_an_invalid_vector_is_refused_before_its_blob_is_stored(spark, workspace):
    path = tables.fresh_path(workspace, "vectors_first")
    given = {"record_key": "name", "vectors": {"emb": 2}, "blobs": {"img": {"inline.threshold": "0"}}}
    schema = "name STRING, emb ARRAY<DOUBLE>, img BINARY"
    hv.write(spark.createDataFrame([("a", [1.0, 2.0], b"first")], schema), path, **given, options=QUICK)
    stored = sorted((path / ".hoodie/blobs").rglob("*"))
    refused = "a row holds an invalid vector ('emb': {}), at name = 'b'; correct it, or set hoodie.vector.invalid to"
    for vector, kind, why in (
        ([1.0], errors.DimensionMismatchError, "wrong length"),
        ([1.0, float("nan")], errors.InvalidVectorError, "NaN or infinite element"),
        ([1.0, 1e39], errors.InvalidVectorError, "element out of range"),
    ):
        frame = spark.createDataFrame([("b", vector, b"second")], schema)
        with pytest.raises(kind) as raised:
            hv.write(frame, path, **given, options=QUICK)
        assert refused.format(why) in str(raised.value)
        assert sorted((path / ".hoodie/blobs").rglob("*")) == stored
    made = hv.write(frame, path, **given, options={**QUICK, "hoodie.vector.invalid": "null"})
    assert made.invalid == {"emb": {"element out of range": 1}}
    assert hv.blobs.get(None, path, ["a", "b"], "img") == {"a": b"first", "b": b"second"}


def test_a_failed_write_takes_back_the_table_that_it_made(spark, workspace):
    name = tables.fresh_name("taken_back")
    by_path = tables.fresh_path(workspace, "taken_back")
    broken = rows(spark, [100, 200]).withColumn("img", F.raise_error("the source broke").cast("binary"))
    for table in (name, str(by_path)):
        with pytest.raises(Exception, match="the source broke"):
            hv.write(broken, table, record_key="id", blobs=["img"], options=QUICK)
    assert not spark.catalog.tableExists(name)
    assert not by_path.exists()
    # The name and the path are as free as before.
    for table in (name, str(by_path)):
        hv.write(rows(spark, [100, 200]), table, record_key="id", blobs=["img"], options=QUICK)
    assert spark.table(name).count() == spark.read.format("hudi").load(str(by_path)).count() == 2


def test_a_table_that_another_began_to_write_to_is_kept(spark, workspace):
    path = tables.fresh_path(workspace, "kept")

    @F.udf("binary")
    def broken(_):
        (path / "another").mkdir(exist_ok=True)
        raise ValueError("the source broke")

    with pytest.raises(Exception, match="the source broke"):
        hv.write(
            rows(spark, [100]).withColumn("img", broken("id")), str(path), record_key="id", blobs=["img"], options=QUICK
        )
    assert (path / "another").is_dir()
    assert spark.read.format("hudi").load(str(path)).count() == 0
    assert [upload.state for upload in list_uploads(f"file://{path}")] == [ABORTED]


TYPES = """
    SELECT id, CAST(id AS BINARY) AS img, DATE'1400-02-28' + CAST(id AS INT) AS day, TIMESTAMP'1500-03-01 01:02:03.5' AS at,
        TIMESTAMP_NTZ'1890-01-01 00:00:00.000001' AS there, CAST(id / 3 AS DECIMAL(7, 3)) AS few,
        CAST(id / 7 AS DECIMAL(38, 20)) AS many, CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small,
        IF(id % 2 = 0, float('nan'), float(id)) AS f, -0.0D AS d, NULLIF(id, 3) AS gap, id > 4 AS yes,
        named_struct('a b', id, 'c.d', ARRAY(NULL, 'x')) AS nested, MAP('k', ARRAY(id, NULL), '', NULL) AS named,
        ARRAY(named_struct('x', 1), NULL) AS listed, CAST(NULL AS STRING) AS nothing, 'Straße' AS text
    FROM range(0, 9, 1, 3)
"""


def test_staged_rows_keep_every_type(spark, tmp_path):
    folder, options = f"file://{tmp_path}/staged", StorageOptions()
    plan = BlobWritePlan(str(tmp_path), new_write_id(0), (BlobColumn("img"),), PARTITION)
    given = spark.sql(TYPES)
    staged = stage_rows(given.withColumn(PARTITION, F.lit("")), plan, folder)
    expected = [str(row) for row in given.drop("img").orderBy("id").collect()]
    files = [StagedFile(file.name, file.stat().st_size) for file in (tmp_path / "staged").glob("*.parquet")]
    assert (len(files), sum(file.bytes for file in files)) == (3, staged.bytes)
    shutil.copy(
        tmp_path / "staged" / files[0].name, tmp_path / "staged" / "part-00000-999.parquet"
    )  # of a failed attempt
    again = read_staged(spark, folder, files, staged.frame.schema, options)
    few = staged_files._read_small(spark, folder, files, staged.frame.schema, options)
    for frame in (staged.frame, again, few):
        assert frame.schema == staged.frame.schema
        assert [str(row) for row in frame.drop("img").orderBy("id").collect()] == expected
        assert [bytes(row.img.data) for row in frame.orderBy("id").collect()] == [
            n.to_bytes(8, "big") for n in range(9)
        ]
    assert few.rdd.getNumPartitions() == again.rdd.getNumPartitions()
    empty = stage_rows(given.limit(0).withColumn(PARTITION, F.lit("")), plan, f"{folder}-empty")
    assert (empty.frame.schema, empty.frame.count(), empty.bytes) == (staged.frame.schema, 0, 0)
