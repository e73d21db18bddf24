"""Blobs read by SQL and by DataFrame: the right bytes, late, on every kind of table."""

from __future__ import annotations

import re
import shutil
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import LongType, StringType, StructField, StructType
from support import tables
from support.quick import WITHOUT_GENERATED_CODE, quick_statements, set_to

import hudi_vector as hv
from hudi_vector import errors
from hudi_vector.blobs.reading.places import Places
from hudi_vector.spark.blobs.functions import bytes_column
from hudi_vector.spark.catalyst.worker_errors import from_worker

PRUNING = "spark.sql.optimizer.nestedSchemaPruning.enabled"
# Whole, it is a large value, which the JVM reads; short parts of it are read by Python.
CONTENT = np.random.default_rng(5).bytes(300 << 10)
END = len(CONTENT)
# Interpreted, the expression that reads a file in the JVM holds objects that cannot go to tasks once the driver read with it.
pytestmark = pytest.mark.usefixtures("as_spark_has_it")


@pytest.fixture(scope="module")
def file(workspace):
    """A file that references point into."""
    path = workspace / "blob file %41.bin"
    path.write_bytes(CONTENT)
    return str(path)


@pytest.fixture(scope="module")
def written(spark, workspace, file):
    """The name of a table of each type, which is written when it is first asked for."""
    return cache(lambda table_type: write_photos(spark, workspace, file, table_type))


@pytest.fixture(scope="module", params=["cow", "mor"])
def photos(request, written):
    return written(request.param)


@pytest.fixture
def photos_in_logs(written):
    """Where the type of the table makes no difference, since Spark has read the blobs."""
    return written("mor")


def write_photos(spark, workspace, file, table_type):
    """Inline, by reference, whole file, empty and NULL blobs; some were changed after the first commit."""
    name, path = tables.fresh_name("photos"), tables.fresh_path(workspace, "photos")
    spark.sql(
        f"CREATE TABLE {name} (id INT, ts LONG, img BLOB) USING hudi LOCATION '{path}' "
        f"TBLPROPERTIES (type = '{table_type}', primaryKey = 'id', preCombineField = 'ts', "
        "'hoodie.metadata.enable' = 'false')"
    )
    rows = [
        "1 AS id, 1L AS ts, to_blob(CAST('hello' AS BINARY)) AS img",
        f"2, 1L, blob_ref('{file}', 10L, 5L)",
        "3, 1L, NULL",
        f"4, 1L, blob_ref('{file}')",
        "5, 1L, to_blob(X'')",
        f"6, 1L, blob_ref('{file}', 1000L, {END - 1000}L, true)",
        f"7, 1L, blob_ref('{file}', {END}L, 0L)",
        f"8, 1L, blob_ref('{file}', {END - 24}L, 24L)",
    ]
    with quick_statements(spark):
        spark.sql(f"INSERT INTO {name} " + " UNION ALL ".join(f"SELECT {row}" for row in rows))
        spark.sql(
            f"UPDATE {name} SET ts = 2L, img = IF(id = 1, blob_ref('{file}', 20L, 3L), to_blob(CAST('world!' AS BINARY))) "
            "WHERE id IN (1, 2)"
        )
    return name


EXPECTED = {1: CONTENT[20:23], 2: b"world!", 3: None, 4: CONTENT, 5: b"", 6: CONTENT[1000:], 7: b"", 8: CONTENT[-24:]}


def answer(frame):
    """Rows as a mapping from the first column to the second, bytes as bytes."""
    return {row[0]: bytes(row[1]) if isinstance(row[1], bytearray) else row[1] for row in frame.collect()}


def test_the_bytes_of_every_kind_of_blob(spark, photos):
    assert answer(spark.sql(f"SELECT id, read_blob(img) FROM {photos}")) == EXPECTED
    assert answer(spark.sql(f"SELECT id, try_read_blob(img) FROM {photos}")) == EXPECTED
    assert answer(spark.table(photos).select("id", hv.read_blob("img"))) == EXPECTED
    assert answer(hv.read_blobs(spark.table(photos).select("id", "img"), "img")) == EXPECTED


def test_columns_are_called_as_they_are_written(spark, photos_in_logs, file):
    calls = [
        "read_blob(img)", "read_blob(img, 0, 2)", "try_read_blob(img)", "blob_length(img)", "blob_location(img)",
        "to_blob(path)", "blob_ref(path)", "blob_ref(path, 1, 2)", "blob_length(to_blob(path))",
    ]  # fmt: skip
    rows = spark.table(photos_in_logs).selectExpr("id", "img", f"'{file}' AS path")
    rows.createOrReplaceTempView("named_blobs")
    assert spark.sql(f"SELECT {', '.join(calls)} FROM named_blobs").columns == calls
    assert spark.sql("SELECT read_blob(t.img) FROM named_blobs t").columns == ["read_blob(img)"]
    python = rows.select(
        hv.read_blob("img"), hv.read_blob("img", 0, 2), hv.try_read_blob("img"), hv.blob_length("img"),
        hv.blob_location("img"), hv.to_blob("path"), hv.blob_ref("path"), hv.blob_ref("path", 1, 2),
    )  # fmt: skip
    assert python.columns == [*calls[:5], "to_blob(path)", *calls[6:8]]
    # Where a call stands inside another expression, or in a clause, its name is nobody's.
    kept = spark.sql(
        "SELECT length(read_blob(img)) AS n, count(*) FROM named_blobs WHERE blob_length(img) >= 0 OR "
        "blob_length(img) IS NULL GROUP BY length(read_blob(img)) HAVING n > 3 ORDER BY n"
    )
    assert [tuple(row) for row in kept.collect()] == [(6, 1), (24, 1), (END - 1000, 1), (END, 1)]
    assert spark.sql("SELECT to_blob(path) FROM named_blobs").schema[0].metadata["hudi_type"] == "BLOB"


def test_a_table_for_workers_is_made_of_rows(spark, photos_in_logs):
    rows = spark.table(photos_in_logs).select("id", "img").collect()
    references = pa.Table.from_pylist([row.asDict(recursive=True) for row in rows])
    assert {row["id"]: data for row, data in hv.blobs.iter_bytes(references, "img", rows=True)} == EXPECTED


def test_it_is_hudis_own_answer(spark, photos):
    # Hudi's own function takes a percent sign in a path for an escape, and ids 3 and 5 are NULL and inline.
    own = spark.sql(f"SELECT id, read_blob_native(img) FROM {photos} WHERE id IN (2, 3, 5)")
    assert answer(own) == {key: EXPECTED[key] for key in (2, 3, 5)}


def test_only_places_that_are_listed_are_read(spark, photos, file, clean_session):
    """The references of ids 1 and 4 lead out of the table, 4 to a large value; ids 2 and 5 lie in their rows."""
    key, rows = "hoodie.blob.read.allowed", spark.table(photos).select("id", "img").where("id IN (1, 2, 4, 5)")
    wanted = {id_: EXPECTED[id_] for id_ in (1, 2, 4, 5)}
    refusals = {
        "SQL": lambda: spark.sql(f"SELECT read_blob(img) FROM {photos} WHERE id = 1").collect(),
        "a large value": lambda: spark.sql(f"SELECT read_blob(img) FROM {photos} WHERE id = 4").collect(),
        "a part": lambda: spark.sql(f"SELECT read_blob(img, 0L, 1L) FROM {photos} WHERE id = 1").collect(),
        "a column": lambda: rows.select(hv.read_blob("img")).collect(),
        "read_blobs": lambda: hv.read_blobs(rows, "img").collect(),
        "get": lambda: hv.blobs.get(spark, photos, [1], "img"),
    }
    spark.conf.set(key, f"{file}, /somewhere")
    assert answer(hv.read_blobs(rows, "img")) == wanted
    assert hv.blobs.get(spark, photos, [1], "img") == {1: EXPECTED[1]}
    spark.conf.set(key, "/somewhere, s3://lake/pictures")
    for name, call in refusals.items():
        with pytest.raises((PySparkException, errors.BlobReadError)) as refused:
            call()
        last = str(refused.value).strip().splitlines()[-1]
        assert f"it is in none of the places that {key} lists" in last, name
    assert answer(spark.sql(f"SELECT id, try_read_blob(img) FROM {photos} WHERE id IN (1, 2, 4, 5)")) == {
        **wanted,
        1: None,
        4: None,
    }
    assert "unreachable" in {row["problem"] for row in hv.blobs.verify(spark, photos).collect()}


def test_lengths_and_locations(spark, photos_in_logs, file):
    lengths = {1: 3, 2: 6, 3: None, 4: None, 5: 0, 6: END - 1000, 7: 0, 8: 24}
    assert answer(spark.sql(f"SELECT id, blob_length(img) FROM {photos_in_logs}")) == lengths
    assert answer(spark.table(photos_in_logs).select("id", hv.blob_length("img"))) == lengths
    places = {key: file if key in (1, 4, 6, 7, 8) else None for key in EXPECTED}
    assert answer(spark.sql(f"SELECT id, blob_location(img) FROM {photos_in_logs}")) == places
    assert answer(spark.table(photos_in_logs).select("id", hv.blob_location("img"))) == places


def test_parts_of_blobs(spark, photos_in_logs):
    parts = answer(spark.sql(f"SELECT id, read_blob(img, 1, 2) FROM {photos_in_logs} WHERE id IN (1, 2, 3, 4)"))
    assert parts == {key: EXPECTED[key] and EXPECTED[key][1:3] for key in (1, 2, 3, 4)}
    by_column = spark.table(photos_in_logs).where("id < 5").select("id", hv.read_blob("img", F.col("id") - 1, 2))
    assert answer(by_column) == {key: EXPECTED[key] and EXPECTED[key][key - 1 : key + 1] for key in (1, 2, 3, 4)}
    large = spark.sql(f"SELECT id, read_blob(img, 2, {END - 10}) FROM {photos_in_logs} WHERE id IN (2, 4, 6)")
    assert answer(large) == {2: b"rld!", 4: CONTENT[2 : END - 8], 6: CONTENT[1002:]}
    past = spark.sql(f"SELECT id, try_read_blob(img, 6, 2) FROM {photos_in_logs} WHERE id < 5")
    assert answer(past) == {1: None, 2: b"", 3: None, 4: CONTENT[6:8]}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1, sum(length(read_blob(img))) FROM {t}",
        "SELECT 1, count(*) FROM {t} WHERE length(read_blob(img)) > 3",
        "SELECT 1, count(*) FROM {t} a JOIN {t} b ON read_blob(a.img) = read_blob(b.img)",
        "WITH c AS (SELECT img FROM {t}) SELECT 1, max(length(read_blob(img))) FROM c",
        "SELECT max(length(b)), count(b) FROM (SELECT read_blob(img) AS b FROM {t})",
    ],
)
def test_places_in_a_query(spark, photos_in_logs, query):
    values = [value for value in EXPECTED.values() if value is not None]
    expected = {
        "SELECT 1, sum": (1, sum(map(len, values))),
        "SELECT 1, count(*) FROM {t} WHERE": (1, sum(len(value) > 3 for value in values)),
        "SELECT 1, count(*) FROM {t} a": (1, sum(a == b for a in values for b in values)),
        "WITH": (1, max(map(len, values))),
        "SELECT max": (max(map(len, values)), len(values)),
    }
    wanted = next(value for start, value in expected.items() if query.startswith(start))
    assert tuple(spark.sql(query.format(t=photos_in_logs)).collect()[0]) == wanted


def test_single_fields_are_right_under_log_files(spark, photos, file, clean_session):
    paths = answer(spark.sql(f"SELECT id, img.reference.external_path FROM {photos}"))
    assert paths == {key: file if key in (1, 4, 6, 7, 8) else None for key in EXPECTED}
    new = spark.newSession()
    assert new.conf.get(PRUNING) == "false"
    assert (
        answer(new.sql(f"SELECT id, img.type FROM spark_catalog.default.{photos} WHERE img IS NOT NULL"))[2] == "INLINE"
    )
    assert answer(new.sql(f"SELECT id, read_blob(img) FROM {photos}")) == EXPECTED


def test_our_functions_are_right_where_spark_narrows_structs(spark, photos, file, clean_session):
    spark.conf.set(PRUNING, "true")
    assert answer(spark.sql(f"SELECT id, read_blob(img) FROM {photos}")) == EXPECTED
    assert answer(spark.sql(f"SELECT id, blob_location(img) FROM {photos}"))[1] == file
    assert answer(spark.sql(f"SELECT id, blob_length(img) FROM {photos}"))[2] == 6


def test_hudi_still_reads_single_fields_by_position(spark, photos, clean_session):
    """When this fails, Hudi is mended and the guard can go."""
    if dict(spark.sql(f"SHOW TBLPROPERTIES {photos}").collect())["type"] != "mor":
        pytest.skip("only log files are read by position")
    spark.conf.set(PRUNING, "true")
    assert set(answer(spark.sql(f"SELECT id, img.reference.external_path FROM {photos}")).values()) == {None}


def test_the_guard_can_be_switched_off(spark, clean_session):
    spark.conf.set(PRUNING, "true")
    spark.conf.set("hoodie.blob.guard.fields", "false")
    hv.register(spark)
    assert spark.conf.get(PRUNING) == "true"
    spark.conf.set("hoodie.blob.guard.fields", "true")
    hv.register(spark)
    assert spark.conf.get(PRUNING) == "false"


@pytest.fixture(scope="module")
def mostly_gone(spark, workspace):
    """Two hundred blobs in files of their own, and all files but those of ids 0 to 4 are gone."""
    folder = tables.fresh_path(workspace, "files")
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.bin").write_bytes(bytes([number]) * 10)
    name, path = tables.fresh_name("gone"), tables.fresh_path(workspace, "gone")
    schema = StructType([StructField("id", LongType()), hv.vector_field("emb", 2), StructField("path", StringType())])
    rows = spark.createDataFrame([(i, [float(i), 1.0], f"{folder}/{i}.bin") for i in range(200)], schema)
    rows = rows.withColumn("img", hv.blob_ref("path")).drop("path")
    spark.sql(
        f"CREATE TABLE {name} (id LONG, emb VECTOR(2), img BLOB) USING hudi LOCATION '{path}' "
        "TBLPROPERTIES (type = 'cow', primaryKey = 'id')"
    )
    rows.createOrReplaceTempView(f"{name}_rows")
    with quick_statements(spark):
        spark.sql(f"INSERT INTO {name} SELECT id, emb, img FROM {name}_rows")
    yield name
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, read_blob(img) FROM {t} WHERE id < 5",
        "SELECT id, read_blob(img) FROM (SELECT * FROM {t} ORDER BY id LIMIT 5)",
        "SELECT id, read_blob(img) FROM {t} WHERE id IN (SELECT id FROM range(5))",
        "SELECT id, read_blob(img) FROM (SELECT * FROM {t}) s JOIN range(5) USING (id)",
        "SELECT id, read_blob(img) FROM {t} WHERE id < 5 AND length(read_blob(img)) = 10",
        "SELECT id, read_blob(img) FROM hudi_vector_search('{t}', 'emb', ARRAY(0.0, 1.0), 5, 'l2')",
        "SELECT id, b FROM (SELECT id, read_blob(img) AS b FROM {t}) WHERE id < 5",
        "SELECT id, read_blob(img) FROM {t} ORDER BY id LIMIT 5",
        "SELECT id, read_blob(img) FROM {t} ORDER BY emb[0] * -1 DESC, id LIMIT 5",
        "SELECT n - 1 AS id, b FROM (SELECT id + 1 AS n, read_blob(img) AS b FROM {t}) ORDER BY n LIMIT 5",
        "SELECT id, read_blob(img) FROM (SELECT /*+ REPARTITION(3) */ * FROM {t}) ORDER BY id LIMIT 5",
        "SELECT id, read_blob(img) FROM (SELECT /*+ REPARTITION(3) */ * FROM {t} ORDER BY id LIMIT 5)",
        "SELECT id, read_blob(img, 0, length(read_blob(img))) FROM {t} ORDER BY id LIMIT 5",
        "SELECT id, read_blob(img) FROM {t} ORDER BY id DESC LIMIT 5 OFFSET 195",
    ],
)
def test_only_the_rows_that_are_left_are_read(spark, mostly_gone, query):
    # Reading any other row would fail: its file is gone.
    found = answer(spark.sql(query.format(t=mostly_gone)))
    assert found == {number: bytes([number]) * 10 for number in range(5)}


def test_blobs_that_are_not_used_are_not_read(spark, mostly_gone):
    assert spark.sql(f"SELECT count(*) FROM (SELECT id, read_blob(img) FROM {mostly_gone})").collect()[0][0] == 200
    late = hv.read_blobs(spark.table(mostly_gone).orderBy("id").limit(5), "img").select("id", "img")
    assert answer(late) == {number: bytes([number]) * 10 for number in range(5)}
    before = hv.read_blobs(spark.table(mostly_gone), "img").orderBy("id").limit(5).select("id", "img")
    assert answer(before) == answer(late)
    every = hv.read_blobs(spark.table(mostly_gone), "img", on_error="null").where("img IS NOT NULL")
    assert every.count() == 5


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, {b} AS b FROM {t} ORDER BY id DESC LIMIT 4",
        "SELECT {b} AS b, {b} AS again, id % 3 AS n FROM {t} ORDER BY n, id LIMIT 5",
        "SELECT id, length({b}) AS n FROM {t} ORDER BY n DESC NULLS LAST, id LIMIT 3",
        "SELECT id, {b} AS b, rand(7) < 2 AS r FROM {t} ORDER BY r, id LIMIT 3",
        "SELECT * FROM (SELECT id, {b} AS b FROM {t} ORDER BY id DESC LIMIT 6) ORDER BY id LIMIT 2",
        "SELECT id, {b} AS b FROM {t} ORDER BY id LIMIT 3 OFFSET 2",
        "SELECT * FROM (SELECT id, {b} AS b FROM {t} ORDER BY id DESC LIMIT 5 OFFSET 1) LIMIT 2 OFFSET 2",
        "SELECT id, {b} AS b FROM {t} ORDER BY id OFFSET 5",
        "SELECT id, {b} AS b FROM {t} ORDER BY id LIMIT 2147483640 OFFSET 3",
        "SELECT id, {b} AS b FROM {t} WHERE id > 1 AND length({b}) > 3 ORDER BY id LIMIT 2",
        "SELECT id, {b} AS b FROM {t} ORDER BY id + (SELECT max(id) FROM {t}) DESC LIMIT 2",
        "SELECT n, count(b) AS c FROM (SELECT id % 2 AS n, {b} AS b FROM {t} ORDER BY id LIMIT 5) GROUP BY n ORDER BY n",
        "SELECT id, {b} AS b FROM {t} ORDER BY id LIMIT 20000",
    ],
)
def test_rows_and_their_order_are_those_of_sorting_first(spark, photos, clean_session, query):
    """With the rule of the optimizer, and without it, which is switched off as Spark's own are."""
    statement = query.format(b="try_read_blob(img)", t=photos)
    found = spark.sql(statement).collect()
    spark.conf.set("spark.sql.optimizer.excludedRules", "org.apache.hudi.vector.LateBlobs")
    assert found == spark.sql(statement).collect()


def test_many_rows_are_read_by_many_tasks(spark, mostly_gone):
    plans = [
        spark.sql(f"EXPLAIN SELECT id, read_blob(img) FROM {mostly_gone} ORDER BY id LIMIT {limit}").collect()[0][0]
        for limit in (10_000, 10_001)
    ]
    assert [plan.index("ArrowEvalPython") < plan.index("TakeOrderedAndProject") for plan in plans] == [True, False]


def test_columns_beside_and_inside(spark, file):
    frame = spark.sql(
        f"SELECT 1 AS id, named_struct('page', 3, 'image', blob_ref('{file}', 0L, 4L)) AS doc, to_blob(X'0102') AS thumb"
    )
    row = hv.read_blobs(frame, ["doc.image", "thumb"], as_={"thumb": "bytes"}, max_gap="1KB", threads=2).collect()[0]
    assert (row.doc.page, bytes(row.doc.image), bytes(row.bytes)) == (3, CONTENT[:4], b"\x01\x02")
    assert row.thumb.type == "INLINE"
    assert bytes(frame.selectExpr("read_blob(doc.image)").collect()[0][0]) == CONTENT[:4]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("read_blob(1)", "read_blob: 1 is INT, which is no blob; a blob is a BLOB column, or STRUCT<type: STRING"),
        ("read_blob()", "read_blob: 0 arguments were given; write read_blob(blob[, offset, length])"),
        ("read_blob(NULL, 1)", "an offset was given without a length"),
        ("to_blob(1)", "to_blob: its argument is INTEGER, and it takes BINARY; cast it"),
        ("blob_ref('/x', 1)", "an offset was given without a length"),
        ("blob_length('a')", "which is no blob"),
    ],
)
def test_wrong_arguments_are_one_sentence(spark, expression, message):
    with pytest.raises(AnalysisException) as refused:
        spark.sql(f"SELECT {expression}")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "blob_ref('/nowhere/x', 0L, 3L)",
            "the blob at '/nowhere/x' (offset 0, length 3) cannot be read: the file is gone",
        ),
        (
            "blob_ref('/nowhere/x', 0L, 300000L)",
            "the blob at '/nowhere/x' (offset 0, length 300000) cannot be read: the file is gone",
        ),
        ("blob_ref('{file}', 307190L, 25L)", "(offset 307190, length 25) cannot be read: the file is too short"),
        ("blob_ref('{file}', 1000L, 307000L)", "(offset 1000, length 307000) cannot be read: the file is too short"),
        ("blob_ref('{file}', -1L, 5L)", "-1"),
        ("blob_ref('relative/x', 0L, 5L)", "relative/x"),
        ("blob_ref('nosuch://x/y', 0L, 5L)", "nosuch"),
        ("named_struct('type', 'INLINE', 'data', CAST(NULL AS BINARY), 'reference', {none})", "INLINE and has no data"),
        ("named_struct('type', 'OUT_OF_LINE', 'data', X'01', 'reference', {none})", "no reference"),
        ("named_struct('type', 'OTHER', 'data', X'01', 'reference', {none})", "OTHER"),
    ],
)
def test_bytes_that_cannot_be_had_are_one_sentence(spark, file, expression, message):
    none = "CAST(NULL AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)"
    with pytest.raises(PySparkException) as refused:
        spark.sql(f"SELECT read_blob({expression.format(file=file, none=none)})").collect()
    last = str(refused.value).strip().splitlines()[-1]
    assert message in last
    assert "resolved.error()" not in str(refused.value)  # no frame of ours


@pytest.fixture(params=["compiled", "interpreted"])
def evaluation(request, spark):
    """How Spark evaluates expressions; it cannot list its settings while it interprets."""
    with set_to(spark, WITHOUT_GENERATED_CODE if request.param == "interpreted" else {}):
        yield


@pytest.mark.usefixtures("evaluation")
def test_a_file_that_changes_before_the_jvm_reads_it(spark, workspace):
    """Python found the values readable; then one file became shorter, and one is gone."""
    shorter = tables.fresh_path(workspace, "shorter")
    shorter.write_bytes(CONTENT[:1000])

    def found(batch):  # of paths and of ids
        paths, length = pa.array(batch[0], pa.string()), np.full(len(batch[0]), 500, np.int64)
        yield Places(paths, np.arange(len(paths)) * 400, length).piece(pa.nulls(len(paths), pa.binary()))

    def values(on_error, *paths):
        rows = spark.createDataFrame([(number, str(path)) for number, path in enumerate(paths)], "id INT, path STRING")
        return answer(
            rows.coalesce(1).select("id", bytes_column(found, [F.col("path"), F.col("id")], "read_blob", on_error))
        )

    assert values("raise", shorter, shorter) == {0: CONTENT[:500], 1: CONTENT[400:900]}
    assert values("null", shorter, "/nowhere/x", shorter) == {0: CONTENT[:500], 1: None, 2: None}
    for paths, place in (([shorter] * 3, f"'file://{shorter}' (offset 800,"), (["/gone"], "'file:///gone' (offset 0,")):
        with pytest.raises(Py4JJavaError) as failed:
            values("raise", *paths)
        problem = from_worker(failed.value)
        assert isinstance(problem, errors.BlobReadError)
        said = f"the blob at {place} length 500) cannot be read: the file is gone or became shorter while it was read"
        assert str(problem) == said


@pytest.mark.parametrize("function", ["read_blob", "try_read_blob"])
@pytest.mark.parametrize("blob", ["to_blob(X'0102')", "blob_ref('{file}')"])
@pytest.mark.parametrize(
    ("part", "message"), [("-1L, 2L", "the offset of a part of a blob is -1"), ("0L, -2L", "length")]
)
def test_negative_parts_are_refused(spark, file, function, blob, part, message):
    with pytest.raises(PySparkException) as refused:
        spark.sql(f"SELECT {function}({blob.format(file=file)}, {part})").collect()
    assert message in str(refused.value).strip().splitlines()[-1]


def test_wrong_arguments_of_read_blobs(spark):
    frame = spark.sql("SELECT 1 AS id, to_blob(X'01') AS img")
    with pytest.raises(errors.UnknownColumnError, match="'picture' does not exist"):
        hv.read_blobs(frame, "picture")
    with pytest.raises(errors.InvalidTypeError, match="'id' is int, which is no BLOB"):
        hv.read_blobs(frame, "id")
    with pytest.raises(errors.InvalidOptionError, match="memory_budget = '5 parsecs' is not allowed"):
        hv.read_blobs(frame, "img", memory_budget="5 parsecs")
    with pytest.raises(errors.InvalidArgumentError, match="on_error = 'ignore' is not allowed"):
        hv.read_blobs(frame, "img", on_error="ignore")
    with pytest.raises(errors.InvalidArgumentError, match="as_ names 'other'"):
        hv.read_blobs(frame, "img", as_={"other": "x"})


@pytest.fixture(scope="module")
def places(spark, workspace, file):
    """A table on this machine, and one with the same rows behind a file system of another scheme; and the latter's URI."""
    here, away = tables.fresh_name("here"), tables.fresh_name("away")
    path = tables.fresh_path(workspace, "referring")
    lengths = f"VALUES (1, 5L), (2, {END - 10}L)"
    rows = spark.sql(f"SELECT id, blob_ref('{file}', 10L, length) AS img FROM {lengths} AS t(id, length)")
    rows.coalesce(1).write.parquet(str(path))
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.lake.link./t", f"file://{path}")
    for name, location in ((here, f"file://{path}"), (away, "viewfs://lake/t")):
        spark.sql(f"CREATE TABLE {name} USING parquet LOCATION '{location}'")
    yield here, away, "viewfs://lake/t"
    for name in (here, away):
        spark.sql(f"DROP TABLE {name}")


def test_rows_of_an_object_store_name_no_file_of_this_machine(spark, places, clean_session):
    here, away, uri = places
    spark.table(away).createOrReplaceTempView("away_view")
    both = spark.table(here).join(spark.read.parquet(uri).withColumnRenamed("img", "theirs"), "id")
    from_sql = {
        "by name": f"SELECT read_blob(img) FROM {away}",
        "a large value": f"SELECT read_blob(img) FROM {away} WHERE id = 2",
        "renamed": f"SELECT read_blob(a.img) FROM {away} a",
        "a path": f"SELECT read_blob(img) FROM parquet.`{uri}`",
        "a CTE": f"WITH c AS (SELECT img FROM {away}) SELECT read_blob(img) FROM c",
        "a CTE in a CTE": f"WITH c AS (WITH d AS (SELECT img FROM {away}) SELECT * FROM d) SELECT read_blob(img) FROM c",
        "a CTE of the same name": f"WITH {away} AS (SELECT img FROM {away}) SELECT read_blob(img) FROM {away}",
        "a subquery": f"SELECT (SELECT first(read_blob(img)) FROM (SELECT * FROM {away}))",
        "a view": "SELECT read_blob(img) FROM away_view",
        "a join": f"SELECT read_blob(a.img) FROM {here} h JOIN {away} a ON h.id = a.id",
        "computed": f"SELECT read_blob(coalesce(h.img, a.img)) FROM {here} h JOIN {away} a ON h.id = a.id",
    }
    refused = {name: spark.sql(statement) for name, statement in from_sql.items()} | {
        "a column": spark.table(away).where("id = 1").select(hv.read_blob("img")),
        "a column of a view": spark.table("away_view").select(hv.read_blob("img")),
        "an expression": spark.table(away).selectExpr("read_blob(img)"),
        "a column of a statement": spark.sql(f"SELECT * FROM {away}").select(hv.read_blob("img")),
        "read_blobs": hv.read_blobs(spark.read.parquet(uri), "img"),
        "read_blobs of a union": hv.read_blobs(spark.table(here).union(spark.table(away)), "img"),
        "a union": spark.sql(f"SELECT read_blob(img) FROM (SELECT * FROM {here} UNION ALL SELECT * FROM {away})"),
        "read_blobs of a join": hv.read_blobs(both, "theirs"),
    }
    for name, frame in refused.items():
        with pytest.raises((PySparkException, Py4JJavaError)) as failed:  # the latter for a scalar subquery
            frame.collect()
        why = "it names a file of this machine, and the table that refers to it is on an object store; list the places"
        assert re.search(rf"{why} .* in hoodie\.blob\.read\.allowed", str(failed.value)), name


def test_rows_of_this_machine_may_name_its_files_beside_an_object_store(spark, places):
    here, away, uri = places
    both = spark.table(here).join(spark.read.parquet(uri).withColumnRenamed("img", "theirs"), "id")
    for frame in (
        spark.sql(f"SELECT {here}.id, read_blob({here}.img) FROM {here} JOIN {away} ON {here}.id = {away}.id"),
        spark.sql(f"WITH c AS (SELECT * FROM {here}) SELECT id, read_blob(img) FROM c"),
        spark.table(here).join(spark.table(away).select("id"), "id").select("id", hv.read_blob("img")),
        hv.read_blobs(both, "img").select("id", "img"),
    ):
        assert answer(frame) == {1: CONTENT[10:15], 2: CONTENT[10:]}
