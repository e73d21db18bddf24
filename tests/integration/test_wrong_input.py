"""The table of wrong inputs: each gets one sentence, as an AnalysisException in SQL and our own error in Python."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType, StructField, StructType
from support import tables
from support.quick import QUICK

import hudi_vector as hv
from hudi_vector import errors


@pytest.fixture(scope="module")
def t(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(10), dimension=3), path, datasource__write__operation="bulk_insert")
    spark.sql(f"CREATE TABLE IF NOT EXISTS wrong USING hudi LOCATION '{path}'")
    (workspace / "no_table").mkdir()
    return path


Q = "ARRAY(1.0, 2.0, 3.0)"
SQL = [
    ("'nowhere', 'emb', {q}, 3", "there is no table, view or path 'nowhere'"),
    ("'nodb.nowhere', 'emb', {q}, 3", "there is no table, view or path 'nodb.nowhere'"),
    ("'/no/such/path', 'emb', {q}, 3", "there is no Hudi table at '/no/such/path'"),
    ("'{workspace}/no_table', 'emb', {q}, 3", "it has no .hoodie/hoodie.properties"),
    ("'what://x/y', 'emb', {q}, 3", "'what://x/y' cannot be opened"),
    ("'wrong', 'embb', {q}, 3", "column 'embb' does not exist in 'wrong'; did you mean 'emb'?"),
    ("'wrong', 'zzzzzz', {q}, 3", "its columns are _hoodie_commit_time"),
    ("'wrong', 'name', {q}, 3", "column 'name' of 'wrong' is STRING; a search needs a VECTOR"),
    ("'wrong', 'emb', ARRAY(1.0, 2.0), 3", "the query vector has 2 elements, the column has 3; give 3"),
    ("'wrong', 'emb', NULL, 3", "the query vector is NULL"),
    ("'wrong', 'emb', ARRAY(1.0, NULL, 2.0), 3", "the query vector holds NULL"),
    ("'wrong', 'emb', ARRAY(1.0D, double('NaN'), 2.0D), 3", "the query vector holds NaN or infinity"),
    ("'wrong', 'emb', ARRAY(1.0D, double('Infinity'), 2.0D), 3", "the query vector holds NaN or infinity"),
    ("'wrong', 'emb', ARRAY(), 3", "the query vector is empty"),
    ("'wrong', 'emb', ARRAY('a', 'b', 'c'), 3", "an array of string was given"),
    ("'wrong', 'emb', 'text', 3", "the query vector must be an array of numbers, not 'text'"),
    ("'wrong', 'emb', ARRAY(rand(), 1.0D, 1.0D), 3", "the argument 'query_vector' must be a constant"),
    ("'wrong', 'emb', {q}, 0", "k must be a whole number from 1 to 100000, not 0"),
    ("'wrong', 'emb', {q}, -1", "k must be a whole number from 1 to 100000, not -1"),
    ("'wrong', 'emb', {q}, 100001", "k must be a whole number from 1 to 100000, not 100001"),
    ("'wrong', 'emb', {q}, 2.5", "k must be a whole number from 1 to 100000, not 2.5"),
    ("'wrong', 'emb', {q}, 'three'", "k must be a whole number from 1 to 100000, not 'three'"),
    ("'wrong', 'emb', {q}, '3.0'", "k must be a whole number from 1 to 100000, not '3.0'"),
    ("'wrong', 'emb', {q}, ' 3 '", "k must be a whole number from 1 to 100000, not ' 3 '"),
    ("'wrong', 'emb', {q}, '0'", "k must be a whole number from 1 to 100000, not 0"),
    ("'wrong', 'emb', {q}, 3.0", "k must be a whole number from 1 to 100000, not 3.0"),
    ("'wrong', 'emb', {q}, NULL", "k must be a whole number from 1 to 100000, not NULL"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', ' '", "'filter' is blank; leave it out, or give a text"),
    ("' ', 'emb', {q}, 3", "the argument 'table' is blank; give a text"),
    ("'wrong', 'emb', {q}, 3, 'manhattan'", "unknown metric 'manhattan'; give cosine"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'annoy'", "unknown algorithm 'annoy'; give one of brute_force"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'hnsw'", "metric cosine, and the column has no index; make such an index"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', 'price <'", "the filter"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', 'prise < 3'", "did you mean 'price'?"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', 'price + 1'", "filter"),
    ("'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', 'id IN (SELECT 1)'", "filter"),
    (
        "'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', NULL, 'far'",
        "max_distance must be a number or NULL, not 'far'",
    ),
    ("'wrong', 'emb', {q}", "the argument 'k' is missing"),
    ("'wrong'", "the argument 'query_vector' is missing"),
    (
        "'wrong', 'emb', {q}, 3, 'cosine', 'brute_force', NULL, NULL, 1",
        "9 arguments were given, at most 8 are allowed without a name",
    ),
    ("'wrong', 'emb', {q}, k => 3, k => 4", "the argument 'k' is given twice"),
    ("'wrong', 'emb', {q}, 3, k => 4", "the argument 'k' is given twice"),
    ("table => 'wrong', table_name => 'wrong', embedding_col => 'emb', query_vector => {q}, k => 3", "given twice"),
    ("table => 'wrong', 'emb', {q}, 3", "an argument without a name comes after one with a name"),
    ("'wrong', 'emb', {q}, kk => 3", "there is no argument 'kk'; the arguments are table, [embedding_col]"),
    ("table => 'wrong', embedding_col => 'emb', query_vector => {q}, k => 3, as_of => 'yesterday'", "is no instant"),
    ("table => 'wrong', embedding_col => 'emb', query_vector => {q}, k => 3, execution => 'fast'", "give auto, local"),
    ("base_table => 'wrong', base_col => 'emb', query_table => 'wrong', k => 3", "'query_col' is missing"),
]


@pytest.mark.parametrize(("arguments", "sentence"), SQL)
def test_sql(spark, t, workspace, arguments, sentence, caplog):
    text = arguments.format(q=Q, workspace=workspace)
    with caplog.at_level(logging.WARNING), pytest.raises(AnalysisException) as raised:
        spark.sql(f"SELECT * FROM hudi_vector_search({text})")
    message = str(raised.value)
    assert message.startswith("hudi_vector_search: ")
    assert sentence in message
    assert "\n" not in message.strip()
    assert "Traceback" not in message
    assert len(message) < 600
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("'wrong', 'emb', 'wrong', 'name', 3", "column 'name' of 'wrong' is STRING"),
        ("'wrong', 'emb', 'nowhere', 'emb', 3", "there is no table, view or path 'nowhere'"),
        (
            "'wrong', 'emb', TABLE(SELECT array(1D, 2D) AS v), 'v', 3",
            "query vectors of other lengths (such as 2) than 3",
        ),
        ("'wrong', 'emb', 'wrong', 'emb', 3, 'l2', 'brute_force', NULL, NULL, 1", "at most 9 are allowed"),
    ],
)
def test_sql_batch(spark, t, arguments, sentence):
    # What is known of the rows alone is said when the statement runs.
    with pytest.raises((AnalysisException, IllegalArgumentException)) as raised:
        spark.sql(f"SELECT * FROM hudi_vector_search_batch({arguments})").collect()
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value).strip()


@pytest.mark.parametrize("k", ["'3'", "'+3'", "3L", "CAST(3 AS TINYINT)"])
def test_k_is_taken_as_hudi_takes_it(spark, t, k):
    for function in ("hudi_vector_search", "hudi_vector_search_native"):
        assert spark.sql(f"SELECT id FROM {function}('{t}', 'emb', {Q}, {k})").count() == 3
        batch = function.replace("search", "search_batch")
        assert spark.sql(f"SELECT id FROM {batch}('{t}', 'emb', '{t}', 'emb', {k})").count() == 30
    assert spark.sql(f"SELECT id FROM hudi_knn_join('{t}', '{t}', 'emb', 'emb', {k})").count() == 30
    assert spark.sql(f"SELECT id FROM hudi_hybrid_search('{t}', array('emb'), array({Q}), top_k => {k})").count() == 3


def test_lateral_names_the_batch_function(spark, t):
    with pytest.raises(AnalysisException, match="hudi_vector_search_batch"):
        spark.sql("SELECT * FROM wrong a, LATERAL hudi_vector_search('wrong', 'emb', a.emb, 3)").collect()


PYTHON = [
    ({"table": "nowhere"}, errors.TableNotFoundError, "there is no table"),
    ({"table": 7}, errors.InvalidTypeError, "the argument 'table' must be text, not 7"),
    ({"column": "embb"}, errors.UnknownColumnError, "did you mean 'emb'"),
    ({"column": "name"}, errors.InvalidTypeError, "is STRING"),
    ({"query": [1.0, 2.0]}, errors.DimensionMismatchError, "2 elements"),
    ({"query": None}, errors.InvalidVectorError, "is NULL"),
    ({"query": []}, errors.InvalidVectorError, "is empty"),
    ({"query": [1.0, None, 2.0]}, errors.InvalidVectorError, "holds NULL"),
    ({"query": [1.0, float("nan"), 2.0]}, errors.InvalidVectorError, "NaN"),
    ({"query": np.zeros((3, 1))}, errors.InvalidTypeError, "one-dimensional"),
    ({"query": "abc"}, errors.InvalidTypeError, "array of numbers"),
    ({"query": [10**400, 1, 1]}, errors.InvalidTypeError, "array of numbers"),
    ({"k": 0}, errors.InvalidArgumentError, "from 1 to 100000, not 0"),
    ({"k": 1.5}, errors.InvalidArgumentError, "not 1.5"),
    ({"k": True}, errors.InvalidArgumentError, "not True"),
    ({"metric": "manhattan"}, errors.InvalidArgumentError, "unknown metric"),
    ({"filter": "prise > 1"}, errors.UnknownColumnError, "did you mean 'price'"),
    ({"filter": "price >"}, errors.InvalidFilterError, "price >"),
    ({"filter": 3}, errors.InvalidTypeError, "'filter' must be text"),
    ({"max_distance": "far"}, errors.InvalidTypeError, "max_distance must be a number"),
    ({"max_distance": float("nan")}, errors.InvalidArgumentError, "NaN"),
    ({"as_of": "soon"}, errors.InvalidArgumentError, "is no instant"),
    ({"as_of": "20000101000000000"}, errors.InstantNotAvailableError, "before the first commit"),
    ({"execution": "slow"}, errors.InvalidArgumentError, "give auto, local or distributed"),
]


@pytest.mark.parametrize(("changed", "kind", "sentence"), PYTHON)
def test_python(spark, t, changed, kind, sentence):
    arguments = {"table": "wrong", "column": "emb", "query": [1.0, 2.0, 3.0], "k": 3, **changed}
    table, column, query = arguments.pop("table"), arguments.pop("column"), arguments.pop("query")
    with pytest.raises(kind, match=sentence) as raised:
        hv.explain(hv.search, spark, table, column, query, **arguments)
    assert isinstance(raised.value, errors.HudiVectorError)
    assert isinstance(raised.value, (ValueError, TypeError, LookupError))


def test_arrays_that_do_not_declare_their_length(spark, workspace):
    path = tables.fresh_path(workspace)
    plain = tables.frame(spark, range(5), dimension=3).selectExpr("id", "CAST(emb AS ARRAY<FLOAT>) AS emb")
    tables.write(plain, path, datasource__write__operation="bulk_insert")
    told = "has 2 elements, those in column 'emb' of .* have 3; give 3"
    for execution in ("local", "distributed"):
        with pytest.raises(Exception, match=told) as raised:
            hv.search(spark, str(path), "emb", [1.0, 2.0], execution=execution).collect()
        assert str(raised.value).count("\n") == 0
        assert hv.search(spark, str(path), "emb", [1.0, 2.0], filter="id > 99", execution=execution).collect() == []
    with pytest.raises(Exception, match=told):
        hv.search_batch(spark, str(path), "emb", spark.sql("SELECT array(1D, 2D) AS v"), "v").collect()


def test_a_data_file_that_cannot_be_read(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(5)), path)
    (data,) = path.glob("*.parquet")
    size = data.stat().st_size
    data.write_bytes(b"x" * size)
    for execution in ("local", "distributed"):
        with pytest.raises(Exception, match="cannot be read") as raised:
            hv.search(spark, str(path), "emb", [1.0] * 8, execution=execution).collect()
        assert str(raised.value).count("\n") == 0


def test_a_table_of_an_unsupported_version(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(5)), path)
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=5"))
    (path / ".hoodie" / ".hoodie.properties.crc").unlink()
    with pytest.raises(Exception, match=r"version 5|versions 6, 8, 9"):
        hv.search(spark, str(path), "emb", [1.0] * 8).collect()


def test_a_table_with_a_column_named_like_the_distance(spark, workspace):
    frame = tables.frame(spark, range(5)).withColumnRenamed("price", "_distance")
    path = tables.fresh_path(workspace)
    tables.write(frame, path)
    with pytest.raises(errors.InvalidArgumentError, match="has a column '_distance'"):
        hv.search(spark, str(path), "emb", [1.0] * 8)


def test_sessions_that_lack_something(spark):
    class Connect:
        __module__ = "pyspark.sql.connect.session"

    with pytest.raises(errors.SessionError, match="Spark Connect session"):
        hv.register(Connect())


BLOBS = StructType([StructField("id", IntegerType()), hv.blob_field("img")])


@pytest.fixture(scope="module")
def b(spark, workspace):
    """A table with a BLOB column."""
    path = str(tables.fresh_path(workspace, "wrong_blobs"))
    tables.write(spark.createDataFrame([(1, ("INLINE", bytearray(b"x"), None))], BLOBS), path)
    return path


FACES = {
    "blob_references": hv.blob_references,
    "verify": lambda spark, table, column: hv.blobs.verify(spark, table, columns=column),
    "get": lambda spark, table, column: hv.blobs.get(spark, table, [1], column),
    "inventory": lambda spark, table, column: hv.blobs.inventory(spark, table),
    "clean_blobs": lambda spark, table, column: hv.table_services.clean_blobs(spark, table, dry_run=True),
    "restore_blobs": lambda spark, table, column: hv.table_services.restore_blobs(spark, table),
    "maintain": lambda spark, table, column: hv.table_services.maintain(spark, table, dry_run=True),
    "search": lambda spark, table, column: hv.search(spark, table, column, [1.0]),
}


@pytest.mark.parametrize("face", FACES)
def test_sessions_tables_and_columns_that_are_none(spark, b, face):
    call = FACES[face]
    for table, wrong in ((None, "must be text, not"), (7, "must be text, not"), ("", "is blank; give a text")):
        with pytest.raises(errors.InvalidTypeError, match=f"the argument 'table' {wrong}"):
            call(spark, table, "img")
    # The cleaner's services, and counts, checks and reads of blobs take None for a process without a session.
    without = ("clean_blobs", "restore_blobs", "get", "inventory", "verify")
    for session in ("spark",) if face in without else (None, "spark"):
        with pytest.raises(errors.InvalidTypeError, match="the argument 'spark' must be a SparkSession, not"):
            call(session, b, "img")
    if face in ("blob_references", "verify", "get"):
        with pytest.raises(errors.InvalidTypeError, match="columns are the name of a column or a list of names, not"):
            call(spark, b, 3)


def test_a_table_without_a_commit_is_named_so(spark, workspace):
    name = tables.fresh_name("no_commit")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, emb VECTOR(3), img BLOB) USING hudi LOCATION '{workspace / name}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    assert hv.search(spark, name, "emb", [1.0, 2.0, 3.0]).collect() == []
    for face in ("blob_references", "verify", "get", "inventory", "clean_blobs"):
        with pytest.raises(errors.UnsupportedTableError, match="it has no completed commit yet"):
            FACES[face](spark, name, "img")


READ = [
    ({"df": None}, errors.InvalidTypeError, "df is a Spark DataFrame, not NoneType"),
    ({"columns": None}, errors.InvalidTypeError, "columns are the name of a column or a list"),
    ({"columns": ["img", 3]}, errors.InvalidTypeError, "columns are the name of a column or a list"),
    ({"as_": "bytes"}, errors.InvalidTypeError, "as_ is a mapping of columns to new names, not 'bytes'"),
    ({"as_": {"img": "ID"}}, errors.InvalidArgumentError, "as_ names 'img' 'ID', which is a column of the DataFrame"),
    ({"as_": {"img": 3}}, errors.InvalidArgumentError, "as_ names 'img' 3, which is no text"),
    ({"threads": "two"}, errors.InvalidArgumentError, "threads = 'two' is not allowed: give a whole number"),
    ({"table": 3}, errors.InvalidTypeError, "table is the base path of a table, not 3"),
]


@pytest.mark.parametrize(("changed", "kind", "sentence"), READ)
def test_read_blobs(spark, b, changed, kind, sentence):
    arguments = {"df": spark.read.format("hudi").load(b), "columns": "img", **changed}
    with pytest.raises(kind, match=sentence):
        hv.read_blobs(**arguments)


def test_single_values_of_blobs(spark, b):
    table = spark.read.format("hudi").load(b)
    assert [bytes(row.img) for row in hv.read_blobs(table, ["img", "img"]).collect()] == [b"x"]
    with pytest.raises(errors.InvalidTypeError, match="the argument 'column' must be text, not NULL"):
        hv.read_blob(None)
    with pytest.raises(errors.InvalidTypeError, match="keys are a list of keys"):
        hv.blobs.get(spark, b, None, "img")
    with pytest.raises(errors.InvalidTypeError, match="source is Arrow data, or rows to go through, not int"):
        list(hv.blobs.iter_bytes(3, "img"))
    with pytest.raises(errors.InvalidArgumentError, match="has no mark None; give the id"):
        hv.table_services.sweep_blobs(spark, b, None)
    one = hv.table_services.clean_blobs(spark, b, dry_run=True, other_tables="/no/such")
    assert any("'/no/such'" in doubt or "/no/such" in doubt for doubt in one.doubts)
    assert len(one.doubts) == 1, "one name is one table, not a table for each letter"


WRITES = [
    ({"vectors": ["emb"]}, errors.InvalidTypeError, r"vectors is a mapping by name, such as .*, not \['emb'\]"),
    ({"options": "x"}, errors.InvalidTypeError, "options is a mapping by name"),
    ({"table": "what://x/t"}, errors.WriteError, "the write to 'what://x/t' failed: .*No FileSystem for scheme"),
    ({"table": "s3a://x/t"}, errors.WriteError, "the write to 's3a://x/t' failed: .*S3AFileSystem not found"),
    ({"table": "/proc/x/t"}, errors.WriteError, "the write to '/proc/x/t' failed: .*Mkdirs failed"),
    ({"record_key": "gone"}, errors.WriteError, "failed: .*recordKey value: .* cannot be null or empty"),
]


@pytest.mark.parametrize(("changed", "kind", "sentence"), WRITES)
def test_writes(spark, workspace, changed, kind, sentence):
    frame = spark.createDataFrame([(1, None, [1.0, 2.0])], "id INT, gone STRING, emb ARRAY<DOUBLE>")
    arguments = {"table": str(tables.fresh_path(workspace)), "record_key": "id", "vectors": {"emb": 2}, **changed}
    with pytest.raises(kind, match=sentence) as refused:
        hv.write(frame, options=arguments.pop("options", QUICK), **arguments)
    assert "\n" not in str(refused.value)


def test_a_write_says_what_a_function_of_its_rows_raised(spark, workspace):
    failing = udf(lambda number: number / 0, "double")
    frame = spark.createDataFrame([(1, [1.0, 2.0])], "id INT, emb ARRAY<DOUBLE>").withColumn("odd", failing("id"))
    with pytest.raises(errors.WriteError, match="failed: ZeroDivisionError: division by zero"):
        hv.write(frame, tables.fresh_path(workspace), record_key="id", vectors={"emb": 2}, options=QUICK)


def test_a_table_whose_first_write_has_not_ended(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(2)), path)
    for done in (path / ".hoodie" / "timeline").glob("*.commit"):
        done.unlink()
    for execution in ("local", "distributed"):
        with pytest.raises(errors.UnsupportedTableError, match=r"has no commit yet and no columns; write to it first$"):
            hv.search(spark, str(path), "emb", [1.0] * 8, 1, execution=execution)


@pytest.mark.parametrize("columns", [["id", "nam"], ["_hoodie_record_key", "nam"]])
def test_columns_that_a_result_has_not(spark, t, columns):
    with pytest.raises(errors.UnknownColumnError, match="'nam' does not exist in 'the result'; did you mean 'name'"):
        hv.search(spark, t, "emb", [1.0, 2.0, 3.0], 1, columns=columns)
    with (
        hv.open(t, column="emb") as opened,
        pytest.raises(errors.UnknownColumnError, match=f"'prise' does not exist in '{t}'"),
    ):
        opened.search([1.0, 2.0, 3.0], 1, filter="prise < 1")


def test_queries_with_columns_of_the_names_a_search_adds(spark, t):
    queries = spark.createDataFrame([(5, [1.0, 2.0, 3.0])], "_distance INT, v ARRAY<DOUBLE>")
    (row,) = hv.search_batch(spark, "wrong", "emb", queries, "v", 1).collect()
    assert row["_hudi_query__distance"] == 5
    assert row["_distance"] < 2


def test_a_filter_that_fails_says_why(spark, t):
    with pytest.raises(Exception, match=r"the search failed: .*too bad") as failed:
        hv.search(spark, "wrong", "emb", [1.0, 2.0, 3.0], filter="id < 0 OR raise_error('too bad') IS NULL").collect()
    assert "\n" not in str(failed.value).strip()


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("hoodie.blob.clean.gracee", "hoodie.blob.clean.grace"),
        ("hoodie.vector.search.exection", "hoodie.vector.search.execution"),
        ("hoodie.storage.blob.inline.treshold", "hoodie.storage.blob.inline.threshold"),
    ],
)
def test_a_misspelt_setting_of_the_session_is_named_wherever_it_would_hold(
    spark, clean_session, t, tmp_path, key, near
):
    t = str(t)
    spark.conf.set(key, "1")
    frame = tables.frame(spark, range(2), dimension=3)
    before = sorted(Path(t).rglob("*"))
    for ask in (
        lambda: hv.search(spark, t, "emb", [1.0, 2.0, 3.0], 1),
        lambda: hv.search_batch(spark, frame, "emb", [[1.0, 2.0, 3.0]], k=1),
        lambda: hv.knn_join(frame, t, query_column="emb", column="emb", k=1),
        lambda: hv.write(frame, t, record_key="id"),
        lambda: hv.write(frame, str(tmp_path / "new"), record_key="id"),
        lambda: hv.blobs.prepare(frame, t, blobs=["name"]),
        lambda: hv.blobs.inventory(spark, t),
        lambda: hv.index.create(spark, t, "emb"),
        lambda: hv.index.drop(spark, t, "emb"),
        lambda: hv.table_services.clean_blobs(spark, t),
        lambda: hv.table_services.sweep_blobs(spark, t, "mark"),
        lambda: hv.table_services.restore_blobs(spark, t, sweep="sweep"),
        lambda: hv.table_services.compact_blobs(spark, t),
        lambda: hv.table_services.cluster(spark, t, order_by=["id"]),
        lambda: hv.table_services.maintain(spark, t),
    ):
        with pytest.raises(errors.InvalidOptionError, match=rf"sets '{key}' is no setting; did you mean '{near}'\?"):
            ask()
    for sql in (
        f"SELECT * FROM hudi_vector_search('{t}', 'emb', {Q}, 1)",
        f"SELECT * FROM hudi_vector_search_batch('{t}', 'emb', '{t}', 'emb', 1)",
        "SELECT read_blob(to_blob(x'41'))",
    ):
        with pytest.raises(AnalysisException, match=f"did you mean '{near}'"):
            spark.sql(sql).collect()
    assert not (tmp_path / "new").exists()
    assert sorted(Path(t).rglob("*")) == before


@pytest.mark.parametrize("key", ["hoodie.blob.batching.max.gap.bytes", "hoodie.blob.batching.lookahead.size"])
def test_settings_of_hudi_under_the_same_prefix_pass(spark, clean_session, t, key):
    spark.conf.set(key, "4096")
    assert hv.search(spark, str(t), "emb", [1.0, 2.0, 3.0], 1).count() == 1


def test_a_misspelt_option_is_named(spark, t, tmp_path):
    t, frame = str(t), tables.frame(spark, range(2), dimension=3)
    for ask in (
        lambda given: hv.write(frame, str(tmp_path / "new"), record_key="id", options=given),
        lambda given: hv.blobs.prepare(frame, t, blobs=["name"], options=given),
        lambda given: hv.open(t, column="emb", options=given),
        lambda given: hv.table_services.cluster(spark, t, order_by=["id"], options=given),
    ):
        with pytest.raises(errors.InvalidOptionError, match=r"'hoodie\.vector\.invalidd' is no setting; did you mean"):
            ask({"hoodie.vector.invalidd": "skip"})
    assert not (tmp_path / "new").exists()


def test_a_write_warns_of_settings_among_the_properties_of_its_table(spark, workspace, caplog):
    spark.sql(
        f"CREATE TABLE with_setting (id INT, name STRING) USING hudi LOCATION '{tables.fresh_path(workspace)}' "
        "TBLPROPERTIES (primaryKey = 'id', 'hoodie.vector.invalidd' = 'skip')"
    )
    with caplog.at_level(logging.WARNING, "hudi_vector.writing.writer"):
        hv.write(spark.createDataFrame([(1, "a")], "id INT, name STRING"), "with_setting", record_key="id")
    (said,) = [record.getMessage() for record in caplog.records if "invalidd" in record.getMessage()]
    assert "has no effect as a property of a table" in said
    assert "did you mean 'hoodie.vector.invalid'?" in said
