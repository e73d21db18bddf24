"""Writing vector tables with real Hudi: what is stored is read back through Spark and pyarrow."""

from __future__ import annotations

import glob
import logging
import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrameReader
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType
from support.frames import planned
from support.quick import QUICK, quick_statements

from hudi_vector.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    InvalidVectorError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from hudi_vector.schema import VectorType, vector_field
from hudi_vector.table.config import parse_properties
from hudi_vector.writing import writer
from hudi_vector.writing.findings import Findings, inspect_rows
from hudi_vector.writing.partition_values import FolderNames, refusing_partitions
from hudi_vector.writing.vectors.columns import vector_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAIN = "id long, p string, ts long, emb array<double>"


def rows(spark: SparkSession, values, schema: str | StructType = PLAIN) -> DataFrame:
    return spark.createDataFrame(values, schema)


def numbered(spark: SparkSession, ids, ts: int = 1) -> DataFrame:
    return rows(spark, [(i, "ab"[i % 2], ts, [float(i), ts + 0.5, -1.0]) for i in ids])


def write(frame: DataFrame, table: str, options=None, **arguments):
    """`hv.write` with the settings that make a commit quick; `writer.write` has Hudi's own."""
    return writer.write(frame, table, options={**QUICK, **(options or {})}, **arguments)


def content(spark: SparkSession, path: str, *columns: str) -> list[tuple]:
    found = spark.read.format("hudi").load(path).select(*(columns or ("id", "p", "ts", "emb")))
    return sorted(tuple(row) for row in found.collect())


def timeline(path: str) -> set[str]:
    return set(os.listdir(f"{path}/.hoodie/timeline"))


def completed(path: str) -> set[str]:
    return {name for name in timeline(path) if "_" in name and not name.startswith(".") and "rollback" not in name}


def properties(path: str) -> dict[str, str]:
    with open(f"{path}/.hoodie/hoodie.properties", encoding="utf-8") as file:
        return parse_properties(file.read())


def base_files(path: str) -> list[pq.ParquetFile]:
    return [pq.ParquetFile(file) for file in glob.glob(f"{path}/**/*.parquet", recursive=True)]


def column_of(file: pq.ParquetFile, name: str):
    group = file.metadata.row_group(0)
    return next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == name)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def handed_over(monkeypatch) -> list[DataFrame]:
    """The rows that would have gone to Hudi, for tests of the check alone: a commit costs seconds."""
    frames: list[DataFrame] = []

    def keep(_spark, _files, frame, _plan, **_) -> None:
        frames.append(frame)

    monkeypatch.setattr(writer, "hand_to_hudi", keep)
    return frames


@pytest.fixture(scope="module")
def kept(spark, tmp_path_factory) -> str:
    """A table no test changes: what is refused must leave it as it is."""
    path = str(tmp_path_factory.mktemp("kept") / "table")
    frame = rows(spark, [(1, "a", 1, [1.0, 2.0, 3.0], [1.0])], PLAIN + ", plain array<float>")
    write(frame, path, record_key="id", partition_by="p", ordering="ts", vectors={"emb": 3})
    return path


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_table_is_made_appended_to_and_deleted_from(spark, path, table_type):
    layout = {"record_key": "id", "partition_by": "p", "ordering": "ts"}
    written = writer.write if table_type == "cow" else write  # one of them with Hudi's own settings
    first = written(numbered(spark, range(4)), path, table_type=table_type, vectors={"emb": 3}, **layout)
    # Neither the vectors nor the table type need be said again.
    second = written(numbered(spark, [3, 4], ts=2), path, **layout)

    assert content(spark, path) == [
        (0, "a", 1, [0.0, 1.5, -1.0]),
        (1, "b", 1, [1.0, 1.5, -1.0]),
        (2, "a", 1, [2.0, 1.5, -1.0]),
        (3, "b", 2, [3.0, 2.5, -1.0]),
        (4, "a", 2, [4.0, 2.5, -1.0]),
    ]
    assert (first.inserted, first.updated, first.deleted, first.invalid) == (4, 0, 0, {})
    assert (second.inserted, second.updated, second.deleted) == (1, 1, 0)
    times = dict(content(spark, path, "id", "_hoodie_commit_time"))
    assert (times[0], times[4]) == (first.instant, second.instant)
    assert second.path == f"file:{path}"
    made = properties(path)
    assert made["hoodie.table.type"] == {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[table_type]
    assert (made["hoodie.table.name"], made["hoodie.table.ordering.fields"]) == ("table", "ts")

    field = spark.read.format("hudi").load(path).schema["emb"]
    assert field == vector_field("emb", 3)
    for file in base_files(path):
        assert file.metadata.metadata[b"hoodie.vector.columns"] == b"emb:VECTOR(3)"
        assert file.schema.column(file.schema.names.index("emb")).physical_type == "FIXED_LEN_BYTE_ARRAY"
        column = column_of(file, "emb")
        assert column.compression == "SNAPPY"
        assert not column.has_dictionary_page
        assert "PLAIN_DICTIONARY" not in column.encodings
        assert "RLE_DICTIONARY" not in column.encodings

    # A delete needs the key and the partition, and no ordering: it then counts as newer.
    third = written(numbered(spark, [1, 4]).select("id", "p"), path, operation="delete", record_key="id")
    assert (third.inserted, third.updated, third.deleted) == (0, 0, 2)
    assert content(spark, path, "id") == [(0,), (2,), (3,)]
    assert spark.read.format("hudi").load(path).schema["emb"] == field


def test_every_kind_of_input(spark, path):
    from pyspark.ml.linalg import Vectors
    from pyspark.mllib.linalg import Vectors as OldVectors

    def as_bytes(values, dtype):
        return np.array(values, dtype).tobytes()

    frame = spark.createDataFrame(
        [
            (
                "a",
                [0.1, 2.0],
                Vectors.dense([1.0, 2.0]),
                OldVectors.sparse(2, [1], [3.5]),
                as_bytes([1.5, 2.5], "<f4"),
                as_bytes([1e300, -0.1], "<f8"),
            ),
            (
                "b",
                [3.0, 4.0],
                Vectors.sparse(2, [0], [7.0]),
                OldVectors.dense([5.0, 6.0]),
                None,
                as_bytes([3, 4], "<f8"),
            ),
            ("c", None, None, None, as_bytes([-1, -2], "<f4"), None),
        ],
        ["key", "reals", "ml", "old", "bytes4", "bytes8"],
    )
    frame = (
        frame.withColumn("floats", F.col("reals").cast("array<float>"))
        .withColumn("ints", F.expr("array(key = 'a', key = 'b')").cast("array<int>"))
        .withColumn("longs", F.expr("array(-128L, 127L)"))
        .withColumn("small", F.expr("array(1S, -1S)"))
        .withColumn("tiny", F.expr("array(1Y, -1Y)"))
        .withColumn("decimals", F.when(F.col("key") == "a", F.expr("array(1.25BD, -2.50BD)")))
    )
    result = write(
        frame,
        path,
        record_key="key",
        vectors={
            "reals": 2,
            "ml": 2,
            "old": (2, "double"),
            "bytes4": 2,
            "bytes8": (2, "double"),
            "floats": (2, "double"),
            "ints": 2,
            "longs": "VECTOR(2, INT8)",
            "small": (2, "int8"),
            "tiny": 2,
            "decimals": (2, "double"),
        },
    )
    assert (result.inserted, result.invalid) == (3, {})
    table = spark.read.format("hudi").load(path)
    a, b, c = (row.asDict() for row in table.orderBy("key").collect())
    tenth = float(np.float32(0.1))
    assert (a["reals"], b["reals"], c["reals"]) == ([tenth, 2.0], [3.0, 4.0], None)
    assert (a["ml"], b["ml"], c["ml"]) == ([1.0, 2.0], [7.0, 0.0], None)
    assert (a["old"], b["old"], c["old"]) == ([0.0, 3.5], [5.0, 6.0], None)
    assert (a["bytes4"], b["bytes4"], c["bytes4"]) == ([1.5, 2.5], None, [-1.0, -2.0])
    assert (a["bytes8"], b["bytes8"], c["bytes8"]) == ([1e300, -0.1], [3.0, 4.0], None)
    assert (a["floats"], a["ints"], b["ints"]) == ([tenth, 2.0], [1.0, 0.0], [0.0, 1.0])
    assert (a["longs"], a["small"], a["tiny"]) == ([-128, 127], [1, -1], [1.0, -1.0])
    assert (a["decimals"], b["decimals"]) == ([1.25, -2.5], None)
    for file in base_files(path):
        assert file.metadata.metadata[b"hoodie.vector.columns"].decode().count("VECTOR(2") == 11


INVALID = [
    (1, "a", 1, [1.0, 2.0, 3.0]),
    (2, "a", 1, [1.0, 2.0]),
    (3, "a", 1, [1.0, None, 3.0]),
    (4, "a", 1, [1.0, float("nan"), 3.0]),
    (5, "a", 1, [1.0, float("-inf"), 3.0]),
    (6, "a", 1, [1.0, 1e39, 3.0]),
    (7, "a", 1, None),
    (8, "a", 1, []),
]
COUNTS = {
    "emb": {"wrong length": 2, "NULL element": 1, "NaN or infinite element": 2, "element out of range": 1},
}


def test_invalid_vectors_stop_the_write(spark, path):
    with pytest.raises(InvalidVectorError) as raised:
        write(rows(spark, INVALID), path, record_key="id", vectors={"emb": 3})
    assert str(raised.value) == (
        "nothing was written: 6 of 8 rows hold an invalid vector ('emb': 2 with wrong length, 1 with NULL element, "
        "2 with NaN or infinite element, 1 with element out of range), the first at id = 2; "
        "correct them, or set hoodie.vector.invalid to skip or null"
    )
    assert not os.path.exists(path)


def test_a_wrong_length_alone_is_a_dimension_mismatch(spark, path):
    with pytest.raises(DimensionMismatchError, match=r"1 of 1 row .* at id = 2, p = 'a';"):
        write(rows(spark, INVALID[1:2]), path, record_key=["id", "p"], vectors={"emb": 3})


def test_invalid_vectors_are_skipped(spark, path, caplog):
    with caplog.at_level(logging.WARNING, logger="hudi_vector"):
        result = write(
            rows(spark, INVALID), path, record_key="id", vectors={"emb": 3}, options={"hoodie.vector.invalid": "skip"}
        )
    assert content(spark, path, "id", "emb") == [(1, [1.0, 2.0, 3.0]), (7, None)]
    assert (result.inserted, result.skipped, result.invalid) == (2, 6, COUNTS)
    assert "6 of 8 rows with an invalid vector were left out ('emb': 2 with wrong length" in caplog.text


def test_invalid_vectors_become_null(clean_session, path, caplog, handed_over):
    spark = clean_session
    spark.conf.set("hoodie.vector.invalid", "null")
    with caplog.at_level(logging.WARNING, logger="hudi_vector"):
        result = write(rows(spark, INVALID), path, record_key="id", vectors={"emb": 3})
    (frame,) = handed_over
    stored = sorted(tuple(row) for row in frame.select("id", "emb").collect())
    assert stored == [(1, [1.0, 2.0, 3.0]), *[(i, None) for i in range(2, 9)]]
    assert (result.skipped, result.invalid) == (0, COUNTS)
    assert "were written with NULL in their place" in caplog.text


@pytest.mark.parametrize(
    ("chosen", "jobs"),
    [([0, 6], False), ([0, 2, 6], True), (range(8), True), ([], False)],
    ids=["valid", "one", "all", "none"],
)
def test_rows_in_the_plan_are_checked_like_others(spark, chosen, jobs):
    """Valid ones are without a job: few rows that come from Python are in the plan."""
    held = planned(spark, [INVALID[place] for place in chosen], PLAIN)
    columns = [vector_column(held.schema["emb"], VectorType(3, "float"), nullable=True)]
    others = inspect_rows(held.coalesce(1), columns, ("id",), None, skips_invalid=False)
    context = spark.sparkContext
    group = f"checking {chosen}"
    context.setJobGroup(group, "")
    try:
        assert inspect_rows(held, columns, ("id",), None, skips_invalid=False) == others
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert others.rows == len(chosen)
    assert bool(context.statusTracker().getJobIdsForGroup(group)) == jobs


@pytest.mark.parametrize(
    ("kind", "elements", "valid"),
    [
        ("array<double>", "127, -128, 0.5", False),
        ("array<double>", "127, -129, 0", False),
        ("array<double>", "127, -128, -0.0", True),
        ("array<decimal(6,2)>", "127, -128, 0.25", False),
        ("array<bigint>", "4294967296, 0, 0", False),
        ("array<smallint>", "128, 0, 0", False),
    ],
)
@pytest.mark.usefixtures("handed_over")
def test_what_fits_into_int8(spark, path, kind, elements, valid):
    frame = spark.sql(f"select 1L id, cast(array({elements}) as {kind}) emb")
    if valid:
        assert write(frame, path, record_key="id", vectors={"emb": (3, "int8")}).invalid == {}
        return
    with pytest.raises(InvalidVectorError, match="'emb': 1 with element out of range"):
        write(frame, path, record_key="id", vectors={"emb": (3, "int8")})


@pytest.mark.parametrize(("largest", "valid"), [(2.0**128 - 2.0**103, False), (2.0**128 - 2.0**104, True)])
def test_a_double_that_overflows_a_float_is_invalid(spark, path, handed_over, largest, valid):
    frame = rows(spark, [(1, [largest, -largest])], "id long, emb array<double>")
    if valid:
        write(frame, path, record_key="id", vectors={"emb": 2})
        assert np.isfinite(handed_over[0].first()["emb"]).all()
        return
    with pytest.raises(InvalidVectorError, match="'emb': 1 with element out of range"):
        write(frame, path, record_key="id", vectors={"emb": 2})


def test_bytes_of_another_width_are_invalid(spark, path):
    frame = rows(spark, [(1, b"\0" * 12), (2, b"\0" * 11), (3, None)], "id long, emb binary")
    with pytest.raises(DimensionMismatchError, match=r"1 of 3 rows .*'emb': 1 with wrong length.* at id = 2;"):
        write(frame, path, record_key="id", vectors={"emb": 3})


def test_rows_that_change_between_check_and_write_are_not_stored(spark, path, monkeypatch):
    monkeypatch.setattr(writer, "inspect_rows", lambda *_: Findings(rows=1))
    with pytest.raises(Exception, match="a vector is invalid that was valid when it was checked"):
        write(rows(spark, INVALID[3:4]), path, record_key="id", vectors={"emb": 3})
    assert completed(path) == set()


def test_a_column_without_nulls_stays_one(spark, path):
    schema = StructType([StructField("id", LongType()), vector_field("emb", 2, nullable=False)])
    write(rows(spark, [(1, [1.0, 2.0])], schema), path, record_key="id")
    nullable = rows(spark, [(2, [3.0, 4.0])], "id long, emb array<float>")
    with pytest.raises(InvalidVectorError, match="'emb': 1 with NULL vector"):
        write(rows(spark, [(3, None)], "id long, emb array<float>"), path, record_key="id")
    with pytest.raises(InvalidArgumentError) as raised:
        write(nullable, path, record_key="id", options={"hoodie.vector.invalid": "null"})
    assert str(raised.value) == (
        "column 'emb' takes no NULL, so hoodie.vector.invalid = null cannot be used; "
        "use skip or fail, or make the column nullable"
    )
    write(nullable, path, record_key="id")
    assert content(spark, path, "id", "emb") == [(1, [1.0, 2.0]), (2, [3.0, 4.0])]
    assert not spark.read.format("hudi").load(path).schema["emb"].nullable


def wrong_inputs(spark):
    """DataFrame, arguments, error and message of what is refused when written to the table ``kept``."""
    good = rows(spark, [(2, "a", 1, [1.0, 2.0, 3.0], [1.0])], PLAIN + ", plain array<float>")
    layout = {"record_key": "id", "partition_by": "p", "ordering": "ts"}
    return [
        (good, {**layout, "vectors": {"emb": 4}}, DimensionMismatchError,
         ("column 'emb' of '{t}' is VECTOR(3) and cannot take VECTOR(4); "
         "a vector column keeps its type, so write to another column or table")),
        (good, {**layout, "vectors": {"emb": (3, "double")}}, InvalidArgumentError,
         ("column 'emb' of '{t}' is VECTOR(3) and cannot take VECTOR(3, DOUBLE); "
         "a vector column keeps its type, so write to another column or table")),
        (good, {**layout, "vectors": {"plain": 1}}, InvalidArgumentError,
         "column 'plain' of '{t}' is array<float> and cannot take VECTOR(1); write to another column or table"),
        (good, {**layout, "vectors": {"embed": 3}}, UnknownColumnError,
         "column 'embed' does not exist in 'the DataFrame'; did you mean 'emb'?"),
        (good.drop("emb"), layout, InvalidArgumentError,
         ("column 'emb' (VECTOR(3)) of '{t}' is not in the DataFrame; "
         "add it, or change single columns with SQL UPDATE or MERGE")),
        (good.drop("plain"), layout, InvalidArgumentError,
         ("column 'plain' (array<float>) of '{t}' is not in the DataFrame; "
         "add it, or change single columns with SQL UPDATE or MERGE")),
        (good.withColumn("emb", F.lit("x")), layout, InvalidTypeError,
         ("column 'emb' is string and cannot be stored as VECTOR(3); "
         "give an array of numbers, a Spark ML vector, or the elements' bytes (binary)")),
        (good.withColumn("emb", F.array(F.lit("x"))), layout, InvalidTypeError,
         ("column 'emb' is array<string> and cannot be stored as VECTOR(3); "
         "give an array of numbers, a Spark ML vector, or the elements' bytes (binary)")),
        (good.withColumn("emb", F.array(F.lit(1.0))), layout, DimensionMismatchError,
         ("nothing was written: 1 of 1 row holds an invalid vector ('emb': 1 with wrong length), the first at id = 2; "
         "correct them, or set hoodie.vector.invalid to skip or null")),
        (good, {**layout, "record_key": "ts"}, InvalidArgumentError,
         "'{t}' has the record key 'id' and cannot be written with 'ts'; give 'id', or write to another table"),
        (good, {**layout, "partition_by": "ts"}, InvalidArgumentError,
         "'{t}' has the partition fields 'p' and cannot be written with 'ts'; give 'p', or write to another table"),
        (good, {**layout, "table_type": "mor"}, InvalidArgumentError,
         ("'{t}' has the table type 'COPY_ON_WRITE' and cannot be written with 'MERGE_ON_READ'; "
         "give 'COPY_ON_WRITE', or write to another table")),
        (good.drop("ts"), layout, UnknownColumnError,
         "column 'ts' does not exist in 'the DataFrame'; its columns are id, p, emb, plain"),
        (good.withColumnRenamed("plain", "EMB"), layout, InvalidArgumentError,
         "columns 'emb' and 'EMB' of the DataFrame are one; rename one"),
        (good.union(good), {**layout, "operation": "insert"}, InvalidArgumentError,
         ("nothing was written: 1 record key occurs more than once in the DataFrame, the first is id = 2, "
         "and operation 'insert' would store each row; drop the duplicates, use operation 'upsert', "
         "or set hoodie.datasource.insert.dup.policy to drop or none")),
        (good.union(good), {**layout, "operation": "bulk_insert"}, InvalidArgumentError,
         ("nothing was written: 1 record key occurs more than once in the DataFrame, the first is id = 2, "
         "and operation 'bulk_insert' would store each row; drop the duplicates, use operation 'upsert', "
         "or set hoodie.datasource.insert.dup.policy to drop or none")),
    ]  # fmt: skip


def test_wrong_inputs_leave_no_trace(spark, kept):
    before, files = timeline(kept), sorted(glob.glob(f"{kept}/**", recursive=True))
    for frame, arguments, error, message in wrong_inputs(spark):
        with pytest.raises(error) as raised:
            write(frame, kept, **arguments)
        assert str(raised.value) == message.format(t=kept)
    assert timeline(kept) == before
    assert sorted(glob.glob(f"{kept}/**", recursive=True)) == files


def test_places_that_take_no_table(clean_session, tmp_path):
    spark = clean_session
    frame = numbered(spark, [1])
    frame.createOrReplaceTempView("a_view")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for table, arguments, error, message in [
        (f"{tmp_path}/full", {}, InvalidArgumentError,
         f"'{tmp_path}/full' is not empty and holds no Hudi table; write to an empty folder"),
        ("a_view", {}, UnsupportedTableError, "'a_view' is a temporary view; write to the table's name or path"),
        ("nowhere.t", {}, TableNotFoundError, "database 'nowhere' does not exist; create it, or write to a path"),
        (f"{tmp_path}/new", {"operation": "delete"}, TableNotFoundError,
         f"there is no table '{tmp_path}/new' to delete from; name one that exists"),
    ]:  # fmt: skip
        with pytest.raises(error) as raised:
            write(frame, table, record_key="id", **arguments)
        assert str(raised.value) == message
    sentence = "^df is a DataFrame of Spark, pandas or polars, an Arrow table, or .* not list; convert it first$"
    with pytest.raises(InvalidTypeError, match=sentence):
        write([1], "t", record_key="id")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("table_type", [pytest.param("cow", marks=pytest.mark.hudi_defaults), "mor"])
def test_inserts_never_store_a_key_twice(spark, path, table_type):
    layout = {"record_key": "id", "table_type": table_type, "operation": "insert"}
    write(numbered(spark, [1, 2]), path, vectors={"emb": 3}, **layout)
    before = completed(path)
    with pytest.raises(InvalidArgumentError) as raised:
        write(numbered(spark, [2, 3]), path, **layout)
    assert str(raised.value) == (
        f"nothing was written: '{path}' holds record key '2' already; "
        "use operation 'upsert', or set hoodie.datasource.insert.dup.policy to drop or none"
    )
    assert completed(path) == before

    twice = numbered(spark, [2, 3]).union(numbered(spark, [3], ts=2))
    dropped = write(twice, path, options={"hoodie.datasource.insert.dup.policy": "drop"}, **layout)
    assert [row[0] for row in content(spark, path, "id")] == [1, 2, 3]
    assert dropped.inserted == 1


def test_one_key_in_two_partitions_is_two_rows(spark, path):
    frame = rows(spark, [(1, "a", 1, [1.0]), (1, "b", 1, [2.0])])
    write(frame, path, record_key="id", partition_by=["p", "ts"], operation="bulk_insert", vectors={"emb": 1})
    assert content(spark, path, "p", "emb") == [("a", [1.0]), ("b", [2.0])]
    assert properties(path)["hoodie.table.keygenerator.type"] == "COMPLEX"
    with pytest.raises(InvalidArgumentError, match="the first is id = 1, and operation 'insert' would"):
        write(frame, path, record_key="id", operation="insert", options={"hoodie.index.type": "GLOBAL_SIMPLE"})
    other = rows(spark, [(2, "a", 1, [1.0])])
    with pytest.raises(InvalidArgumentError, match="Hudi cannot look up by a global index which keys"):
        write(other, path, record_key="id", operation="insert", options={"hoodie.index.type": "GLOBAL_SIMPLE"})
    assert content(spark, path, "id") == [(1,), (1,)]


@pytest.mark.parametrize("value", ["..", "a/../../b", ".", ".hoodie", "a//b", "/a"])
def test_no_row_is_written_where_no_reader_looks(spark, tmp_path, value):
    frame = rows(spark, [(1, "fine", 1, [1.0]), (2, value, 1, [2.0])])
    with pytest.raises(InvalidArgumentError, match=f"'p' holds '{value}', which .* none of the table's partitions"):
        writer.write(frame, tmp_path / "t", record_key="id", partition_by="p", vectors={"emb": 1})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("hive_style", [False, True])
@pytest.mark.parametrize("url_encode", [False, True])
def test_which_partition_values_are_refused(spark, hive_style, url_encode):
    """The parts of the path as Hudi makes it decide; readers with its metadata table need names of all of them."""

    def is_odd(path: str, metadata: bool) -> bool:
        parts = path.split("/")
        return bool({".", ".."} & set(parts)) or parts[0] == ".hoodie" or (metadata and "" in parts)

    def folder(name: str, value: str | None) -> str:
        shown = "x" if not value else value.replace("/", "%2F") if url_encode else value
        return f"{name}={shown}" if hive_style else shown

    def refuses(row: tuple, names: FolderNames) -> bool:
        checked = refusing_partitions(planned(spark, [row], "p string, q string"), ("p", "q"), names)
        try:
            return checked.count() != 1
        except Exception as problem:
            return "InvalidArgumentError: nothing was written: a row's partition column" in str(problem)

    values = [None, "", "a", "..a", "a..", ".a", "...", ".hoodie_x", "..", ".", ".hoodie", ".hoodie/a", "a/.hoodie"]
    values += ["a/b", "a//b", "/a", "a/", "/", "../a", "a/..", "a/./b", "a/../b"]
    for metadata in (False, True):
        names = FolderNames(hive_style, url_encode, metadata)
        for row in [*((value, "x") for value in values), *(("x", value) for value in values)]:
            path = f"{folder('p', row[0])}/{folder('q', row[1])}"
            assert refuses(row, names) == is_odd(path, metadata), (row, metadata)


def test_partitions_and_tables_are_overwritten(spark, path):
    layout = {"record_key": "id", "partition_by": "p"}
    write(numbered(spark, range(4)), path, vectors={"emb": 3}, **layout)
    write(numbered(spark, [10]), path, operation="insert_overwrite", **layout)
    assert [row[0] for row in content(spark, path, "id")] == [1, 3, 10]
    result = write(numbered(spark, [11]), path, operation="insert_overwrite_table", **layout)
    assert [row[0] for row in content(spark, path, "id")] == [11]
    assert result.instant in {name.partition("_")[0] for name in completed(path) if name.endswith("replacecommit")}


def test_a_bulk_insert_is_sorted(spark, path):
    frame = numbered(spark, [7, 1, 5, 3, 9, 2]).withColumn("ts", -F.col("id")).coalesce(1)
    write(frame, path, record_key="id", operation="bulk_insert", sort_by="ts", vectors={"emb": 3})
    (file,) = base_files(path)
    assert file.read(columns=["id"])["id"].to_pylist() == [9, 7, 5, 3, 2, 1]


def test_the_sessions_codec_stays(clean_session, path, kept):
    spark = clean_session
    spark.conf.set("hoodie.parquet.compression.codec", "zstd")
    # Hudi's own columns and the vectors' type come along with a DataFrame that was read from a Hudi table.
    write(spark.read.format("hudi").load(kept), path, record_key="id")
    assert {column_of(file, "emb").compression for file in base_files(path)} == {"ZSTD"}
    assert spark.read.format("hudi").load(path).schema["emb"] == vector_field("emb", 3)


@pytest.fixture
def database(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS writing")
    yield "writing"
    spark.sql("DROP DATABASE writing CASCADE")


def test_a_catalog_table_is_made_that_sql_can_write(spark, database):
    name = f"{database}.made"
    layout = {"record_key": "id", "partition_by": "p", "ordering": "ts"}
    first = write(numbered(spark, range(3)), name, table_type="mor", vectors={"emb": 3}, **layout)
    assert spark.table(name).count() == 3
    assert spark.table(name).schema["emb"] == vector_field("emb", 3)
    shown = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert (shown["primaryKey"], shown["type"], shown["orderingFields"]) == ("id", "mor", "ts")
    assert not any("dup.policy" in key or "_hudi_vector" in key for key in shown)

    with quick_statements(spark):
        spark.sql(f"INSERT INTO {name} (id, ts, emb, p) VALUES (7, 1, array(7f, 7f, 7f), 'b')")
        spark.sql(
            f"MERGE INTO {name} t USING (SELECT 1L id, 9L ts, array(9f, 9f, 9f) emb, 'b' p) s "
            "ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    second = write(numbered(spark, [2, 3], ts=5), name, **layout)
    assert (second.inserted, second.updated) == (1, 1)
    assert second.path == first.path
    found = sorted(tuple(row) for row in spark.sql(f"SELECT id, p, ts, emb FROM {name}").collect())
    assert found == [
        (0, "a", 1, [0.0, 1.5, -1.0]),
        (1, "b", 9, [9.0, 9.0, 9.0]),
        (2, "a", 5, [2.0, 5.5, -1.0]),
        (3, "b", 5, [3.0, 5.5, -1.0]),
        (7, "b", 1, [7.0, 7.0, 7.0]),
    ]


def test_a_table_made_with_sql_keeps_its_properties(spark, database):
    name = f"{database}.by_hand"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, ts BIGINT, emb VECTOR(3), p STRING) USING hudi PARTITIONED BY (p) "
        "TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', 'hoodie.parquet.compression.codec' = 'zstd')"
    )
    result = write(numbered(spark, range(3)), f"spark_catalog.{name}", record_key="id")
    assert [tuple(row) for row in spark.sql(f"SELECT id, p, emb FROM {name} ORDER BY id").collect()] == [
        (i, "ab"[i % 2], [float(i), 1.5, -1.0]) for i in range(3)
    ]
    folder = result.path.removeprefix("file:")
    assert {column_of(file, "emb").compression for file in base_files(folder)} == {"ZSTD"}
    assert {os.path.basename(os.path.dirname(file)) for file in glob.glob(f"{folder}/*/*.parquet")} == {"p=a", "p=b"}
    with pytest.raises(DimensionMismatchError, match=r"is VECTOR\(3\) and cannot take VECTOR\(2\)"):
        write(numbered(spark, [9]), name, record_key="id", vectors={"emb": 2})
    spark.sql(f"CREATE TABLE {database}.other (id BIGINT) USING parquet")
    with pytest.raises(UnsupportedTableError) as raised:
        write(numbered(spark, [9]), f"{database}.other", record_key="id")
    assert str(raised.value) == f"'{database}.other' is no Hudi table (it is of type parquet); name another table"


def _local(kind: str):
    import pandas as pd
    import pyarrow as pa

    vectors = [np.array([i, 1.0, -i], np.float32) for i in range(6)]
    if kind == "pandas":
        return pd.DataFrame({"id": range(6), "emb": vectors, "title": list("abcdef")})
    if kind == "lists":
        return pd.DataFrame({"id": range(6), "emb": [v.tolist() for v in vectors], "title": [*"abcde", None]})
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(vectors)), 3)
    table = pa.table({"id": pa.array(range(6), pa.int32()), "emb": fixed, "title": [*"abcde", None]})
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(table)
    return table.to_reader() if kind == "stream" else table


@pytest.mark.parametrize("kind", ["pandas", "lists", "arrow", "polars", "stream"])
def test_rows_of_pandas_and_arrow_at_a_path_object(spark, tmp_path, kind):
    import hudi_vector as hv

    table = tmp_path / "local"
    how = {"record_key": "id", "vectors": {"emb": 3}, "operation": "bulk_insert", "options": QUICK}
    assert hv.write(_local(kind), table, **how, spark=spark).inserted == 6
    found = hv.search(spark, table, "emb", [5.0, 1.0, -5.0], 2, metric="l2", columns=["id", "title"])
    assert found.columns == ["id", "title", "_distance"]
    assert [row["id"] for row in found.collect()] == [5, 4]
    assert spark.read.format("hudi").load(str(table)).schema["emb"].metadata["hudi_type"] == "VECTOR(3)"
    assert spark.read.format("hudi").load(str(table)).schema["id"].dataType.simpleString() == (
        "bigint" if kind in ("pandas", "lists") else "int"
    )
    with hv.open(table, column="emb") as opened:
        assert len(opened.search([0.0, 0.0, 0.0], 3)) == 3
    if kind == "pandas":
        frame = spark.read.format("hudi").load(str(table))
        assert hv.knn_join(frame, table, "emb", "emb", 1).count() == 6
        assert hv.search_batch(spark, table, "emb", table, "emb", 1).count() == 6
        assert hv.vector_search(frame, table, "emb", "emb", 1).count() == 6
        assert hv.index.build_if_missing(spark, table, column="emb") is not None
        assert hv.index.verify(spark, table, column="emb") is not None
        assert hv.table_services.maintain(spark, table, dry_run=True) is not None
        assert hv.blobs.inventory(spark, table).count() == 0


def test_a_first_load_by_upsert_is_told_of_bulk_insert(spark, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("hudi_vector.writing.writer._MANY_ROWS", 6)
    hint = f"'{tmp_path}/t' is a new table: operation='bulk_insert' writes its first 6 rows several times faster"
    for told in (True, False):  # the second write finds the table
        caplog.clear()
        write(numbered(spark, range(6)), f"{tmp_path}/t", record_key="id", vectors={"emb": 3}, options=QUICK)
        assert (hint in caplog.text) is told
    caplog.clear()
    write(
        numbered(spark, range(6)), f"{tmp_path}/u", record_key="id", vectors={"emb": 3}, operation="bulk_insert",
        options=QUICK,
    )  # fmt: skip
    assert "bulk_insert" not in caplog.text


def test_rows_go_to_the_session_that_is_given(spark, tmp_path):
    import pandas as pd

    from hudi_vector.writing.local_frames import spark_frame

    other = spark.newSession()
    rows = pd.DataFrame({"id": [1]})
    assert spark_frame(rows, other).sparkSession is other
    assert spark_frame(rows).sparkSession._jsparkSession.equals(spark.getActiveSession()._jsparkSession)
    frame = spark.range(1)
    assert spark_frame(frame, spark) is frame
    with pytest.raises(InvalidArgumentError, match="belongs to another session than spark; leave spark out"):
        write(frame, f"{tmp_path}/t", record_key="id", spark=other)


def test_what_is_no_dataframe_is_named_with_its_package(spark, tmp_path):
    import pandas as pd
    import pyarrow as pa

    import hudi_vector as hv

    kind = f"{pd.DataFrame.__module__}.DataFrame"
    assert kind.startswith("pandas")
    for rows, sentence in [
        (3, "or an object with __arrow_c_stream__, not int; convert it first"),
        (pd.Series([1]), f"not {pd.Series.__module__}.Series;"),
        (pd.DataFrame({"id": []}), f"a {kind} without rows does not say what its columns hold"),
        (pd.DataFrame([[1, 2]], columns=["id", "id"]), "df has two columns 'id'"),
        (pd.DataFrame({"id": [1, 2], "x": [[1], "a"]}), f"the {kind} cannot be given to Spark: "),
        (
            pa.table({"u": pa.array([1], pa.uint64()), "id": [1]}),
            "column 'u' is uint64 in Arrow, of which Spark has no",
        ),
    ]:
        for call in (
            lambda rows=rows: hv.write(rows, tmp_path / "none", record_key="id"),
            lambda rows=rows: hv.blobs.prepare(rows, str(tmp_path / "none")),
        ):
            with pytest.raises((InvalidTypeError, InvalidArgumentError)) as refused:
                call()
            assert sentence in str(refused.value)
            assert "\n" not in str(refused.value)
    assert not (tmp_path / "none").exists()


def test_a_table_is_not_loaded_for_its_columns(spark, tmp_path, monkeypatch):
    """They follow from its timeline, and Hudi loads a table by many requests, one after another."""
    path = str(tmp_path / "known")
    more = {"record_key": "id", "vectors": {"emb": 3}, "blobs": {"img": {"inline.threshold": "4"}}}
    frames = [
        numbered(spark, ids, ts).selectExpr("*", "CAST(repeat(p, 9) AS BINARY) AS img")
        for ts, ids in ((1, (1, 2)), (2, (2, 3)))
    ]
    write(frames[0], path, **more)
    loaded, load = [], DataFrameReader.load
    monkeypatch.setattr(DataFrameReader, "load", lambda *given, **how: loaded.append(given) or load(*given, **how))
    done = write(frames[1], path, **more)
    assert (loaded, done.updated, done.inserted) == ([], 1, 1)
    assert [row[0] for row in content(spark, path, "id")] == [1, 2, 3]
    assert loaded, "it is counted"
