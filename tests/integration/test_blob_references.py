"""References in the place of BLOB columns of Hudi's own files, carried through shuffles and read late."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from support import tables

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.blobs.reading.base_files import blob_column
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable

pytestmark = pytest.mark.usefixtures("quick_sql")

ROWS = 1000
OUTSIDE = bytes(range(256)) * 4

# INLINE, empty, NULL and OUT_OF_LINE blobs, alone and in a struct, beside columns of many types.
COLUMNS = """
    id, 1L AS ts, concat('p', id % 2) AS part,
    CASE WHEN id % 9 = 0 THEN NULL WHEN id % 9 = 1 THEN to_blob(X'') WHEN id % 9 = 2 THEN blob_ref('{file}', id, 5L)
         WHEN id % 9 = 3 THEN blob_ref('{file}') ELSE to_blob(CAST(concat(sha2('a' || id, 512), sha2('b' || id, 512)) AS BINARY)) END AS img,
    CASE WHEN id % 7 = 0 THEN NULL ELSE named_struct('page', id, 'img',
         CASE WHEN id % 7 = 1 THEN NULL ELSE to_blob(CAST(concat('doc', id) AS BINARY)) END) END AS doc,
    CAST(id AS DECIMAL(10, 2)) AS dec, date'2020-02-29' AS day, timestamp'2021-03-04 05:06:07.123456' AS moment,
    array(named_struct('a', id), NULL) AS items, map('k', id) AS named, CAST(id AS INT) AS small
"""


def inline_bytes(number: int) -> bytes | None:
    hashes = "".join(hashlib.sha512(f"{letter}{number}".encode()).hexdigest() for letter in "ab").encode()
    return {0: None, 1: b"", 2: OUTSIDE[number : number + 5], 3: OUTSIDE}.get(number % 9, hashes)


def doc_bytes(number: int) -> bytes | None:
    return None if number % 7 < 2 else b"doc%d" % number


def bytes_by_id(frame, column="img"):
    rows = frame.selectExpr("id", f"{column} AS bytes").collect()
    return {row.id: None if row.bytes is None else bytes(row.bytes) for row in rows}


@pytest.fixture(scope="module")
def written(spark, workspace):
    """The same rows in a table of each codec, by its name, with small pages."""
    file = workspace / "outside.bin"
    file.write_bytes(OUTSIDE)
    rows = spark.range(0, ROWS, 1, 1).selectExpr(*_split(COLUMNS.format(file=file)))
    found = {}
    for codec in ("uncompressed", "snappy"):
        found[codec] = str(tables.fresh_path(workspace, codec))
        tables.write(
            rows,
            found[codec],
            datasource__write__operation="bulk_insert",
            datasource__write__partitionpath__field="part",
            parquet__compression__codec=codec,
            parquet__dictionary__enabled="false",
            parquet__page__size="1024",
        )
    return found


def _split(text):
    """Expressions by the commas outside parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
def test_references_lead_to_the_bytes(spark, written, codec):
    references = hv.blob_references(spark, written[codec], "img").select("id", "part", "img").collect()
    assert len(references) == ROWS
    for row in references:
        found, value = row.img, inline_bytes(row.id)
        if value is None:
            assert found is None
        elif row.id % 9 in (2, 3):
            assert (Path(found.path).name, found.row, found.inline) == ("outside.bin", None, False)
            assert (found.offset, found.length) == ((row.id, 5) if row.id % 9 == 2 else (None, None))
        else:
            path = found.path.removeprefix("file://")
            assert (found.length, found.inline) == (len(value), True)
            assert Path(path).parent == Path(written[codec]) / row.part
            if codec == "snappy":  # the table has two BLOB columns
                assert (found.offset, path[-4:]) == (None, "#img")
            else:
                assert Path(path).read_bytes()[found.offset : found.offset + found.length] == value
                assert pq.read_table(path, columns=["id"]).column(0)[found.row].as_py() == row.id


@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
def test_bytes_are_read_after_a_shuffle(spark, written, codec):
    references = hv.blob_references(spark, written[codec], "img").select("id", "dec", "img")
    expected = {number: inline_bytes(number) for number in range(ROWS)}
    assert bytes_by_id(hv.read_blobs(references.repartition(3, "dec"), "img", verify=codec == "snappy")) == expected


def test_bytes_are_read_after_joins_and_limits_in_small_pieces(spark, written):
    one, two = (hv.blob_references(spark, written[codec], "img") for codec in ("uncompressed", "snappy"))
    both = one.select("id", "img").join(two.selectExpr("id", "img AS again"), "id").orderBy("id").limit(60)
    read = hv.read_blobs(both, ["img", "again"], as_={"again": "more"}, memory_budget=4000, threads=2).collect()
    expected = [(number, inline_bytes(number)) for number in range(60)]
    for column in ("img", "more"):
        assert [(row.id, None if row[column] is None else bytes(row[column])) for row in read] == expected


@pytest.mark.parametrize("codec", ["uncompressed", "snappy"])
def test_a_blob_in_a_struct(spark, written, codec):
    references = hv.blob_references(spark, written[codec], "doc.img").select("id", "img", "doc")
    # The other BLOB column is there as it was.
    for row in hv.read_blobs(references.repartition(2, "id"), ["doc.img", "img"]).collect():
        assert (None if row.img is None else bytes(row.img)) == inline_bytes(row.id)
        if row.id % 7 == 0:
            assert row.doc is None
        else:
            assert (row.doc.page, row.doc.img and bytes(row.doc.img)) == (row.id, doc_bytes(row.id))


def test_other_columns_are_what_hudi_reads(spark, written):
    found = hv.blob_references(spark, written["snappy"], "img")
    table = spark.read.format("hudi").load(written["snappy"])
    assert found.columns == table.columns
    assert found.drop("img").schema == table.drop("img").schema
    assert found.drop("img", "doc").orderBy("id").collect() == table.drop("img", "doc").orderBy("id").collect()


def test_references_of_both_columns_stay_apart(spark, written):
    both = (
        hv.blob_references(spark, written["snappy"], name).selectExpr("id", f"{name} AS img", f"'{name}' AS of")
        for name in ("img", "doc.img")
    )
    mixed = hv.read_blobs(next(both).union(next(both)), "img").where("id % 9 > 3 AND id % 7 > 1")
    rows = {(row.id, row["of"]): bytes(row.img) for row in mixed.collect()}
    for (number, column), value in rows.items():
        assert value == (inline_bytes if column == "img" else doc_bytes)(number)


class Counted:
    """A base file that counts what is read of it."""

    def __init__(self, path):
        self.file = open(path, "rb")  # noqa: SIM115 - closed by the test
        self.reads = []

    def read_at(self, count, offset):
        self.reads.append(count)
        self.file.seek(offset)
        return self.file.read(count)


def test_only_the_pages_that_hold_the_rows_are_read(spark, written):
    rows = hv.blob_references(spark, written["snappy"], "img").where("id % 9 > 3").select("id", "img").collect()
    path = rows[0].img.path.removeprefix("file://").removesuffix("#img")
    mine = [row for row in rows if row.img.path == rows[0].img.path]
    random.Random(4).shuffle(mine)
    metadata = pq.read_metadata(path)
    column = blob_column(file := Counted(path), metadata, "img", path)
    pages = {row.id: column.pages(np.array([row.img.row])) for row in mine}
    before = len(file.reads)
    assert before == metadata.num_row_groups  # Hudi's files have an index of their pages
    for row in mine[:20]:
        (page,) = pages[row.id]
        assert column.read(page) == [inline_bytes(row.id)]
        assert file.reads[before:] == [page.end - page.begin]
        before += 1
    chunk = metadata.row_group(0).column(metadata.schema.names.index("data"))
    assert max(file.reads) < chunk.total_compressed_size / 3
    file.file.close()


@pytest.fixture(scope="module")
def versions(spark, workspace):
    """A table whose second commit rewrote every row, and added a BLOB column to one of two partitions' files."""
    path = tables.fresh_path(workspace, "versions")
    options = {
        "parquet__compression__codec": "uncompressed",
        "datasource__write__partitionpath__field": "part",
        "clean__automatic": "false",
    }
    first = "id", "1L AS ts", "concat('p', id % 2) AS part", "to_blob(CAST(concat('old', id) AS BINARY)) AS img"
    tables.write(spark.range(0, 6, 1, 1).selectExpr(*first), path, **options)
    second = [text.replace("1L", "2L").replace("old", "new") for text in first]
    tables.write(
        spark.range(0, 6, 2, 1).selectExpr(*second, "to_blob(CAST(concat('more', id) AS BINARY)) AS more"),
        path,
        **options,
    )
    return path


OLD = {number: b"old%d" % number for number in range(6)}
NEW = {number: (b"new%d" if number % 2 == 0 else b"old%d") % number for number in range(6)}


def test_files_of_an_older_schema_and_earlier_instants(spark, versions):
    more = hv.read_blobs(hv.blob_references(spark, str(versions), "more"), "more")
    assert bytes_by_id(more, "more") == {number: None if number % 2 else b"more%d" % number for number in range(6)}
    instants = NativeTable(Source(f"file://{versions}", "versions")).timeline().commits
    before = hv.blob_references(spark, str(versions), "img", as_of=instants[0].requested)
    assert "more" not in before.columns
    assert bytes_by_id(hv.read_blobs(before, "img")) == OLD
    with pytest.raises(errors.UnknownColumnError, match="'more' does not exist"):
        hv.blob_references(spark, str(versions), "more", as_of=instants[0].requested)


def test_references_are_void_when_hudi_cleaned_the_file(spark, versions):
    instants = NativeTable(Source(f"file://{versions}", "versions")).timeline().commits
    listed = hv.blob_references(spark, str(versions), "img", as_of=instants[0].requested)
    old = spark.createDataFrame(listed.select("id", "img").collect(), listed.select("id", "img").schema)
    name = tables.fresh_name("versions")
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{versions}'")
    spark.sql(
        f"CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1, "
        "options => 'hoodie.metadata.enable=false,hoodie.embed.timeline.server=false')"
    )
    void = "is gone: Hudi's clean removed it, and references to its INLINE blobs are void; take new references with"
    with pytest.raises(PySparkException) as refused:
        hv.read_blobs(old, "img").collect()
    last = str(refused.value).strip().splitlines()[-1]
    assert last.startswith("hudi_vector.errors.BlobReadError: the base file 'file:///")
    assert void in last
    with pytest.raises(PySparkException, match="is gone since blob_references listed it: Hudi's clean removed it"):
        listed.collect()
    kept = bytes_by_id(hv.read_blobs(old, "img", on_error="null"))
    assert kept == {number: None if number % 2 == 0 else value for number, value in OLD.items()}
    assert bytes_by_id(hv.read_blobs(hv.blob_references(spark, str(versions), "img"), "img")) == NEW


def test_log_files_are_refused(spark, workspace):
    name, path = tables.fresh_name("logged"), tables.fresh_path(workspace, "logged")
    spark.sql(
        f"CREATE TABLE {name} (id INT, ts LONG, img BLOB) USING hudi LOCATION '{path}' TBLPROPERTIES (type = 'mor', "
        "primaryKey = 'id', preCombineField = 'ts', 'hoodie.metadata.enable' = 'false')"
    )
    spark.sql(f"INSERT INTO {name} SELECT 1 AS id, 1L AS ts, to_blob(X'0102') AS img")
    assert bytes_by_id(hv.read_blobs(hv.blob_references(spark, name, "img"), "img")) == {1: b"\x01\x02"}
    spark.sql(f"UPDATE {name} SET ts = 2L")
    with pytest.raises(errors.UnsupportedTableError) as refused:
        hv.blob_references(spark, name, "img")
    assert str(refused.value) == (
        f"'{name}' has log files in 1 of 1 file slice, and their rows have no place in a base file: compact the "
        "table first, or use read_blobs"
    )


def test_wrong_arguments(spark, written):
    with pytest.raises(errors.UnknownColumnError, match="'image' does not exist"):
        hv.blob_references(spark, written["snappy"], "image")
    with pytest.raises(errors.InvalidTypeError, match=r"which is no BLOB; its BLOB columns are img, doc\.img"):
        hv.blob_references(spark, written["snappy"], "part")
    with pytest.raises(errors.TableNotFoundError):
        hv.blob_references(spark, "no_such_table", "img")
    with pytest.raises(errors.InvalidArgumentError, match="as_of = 'yesterday'"):
        hv.blob_references(spark, written["snappy"], "img", as_of="yesterday")
