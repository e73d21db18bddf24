"""The winners' columns: every Spark type as Spark itself reads it, every leaf of a struct, NULLs anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StructType
from support import tables
from support.quick import QUICK, set_to

import hudi_vector as hv
from hudi_vector import options
from hudi_vector.errors import UnsupportedTableError

TYPES = """
    id LONG,
    a_boolean BOOLEAN, a_byte TINYINT, a_short SMALLINT, an_int INT, a_long LONG, a_float FLOAT, a_double DOUBLE,
    a_decimal DECIMAL(10, 2), a_wide_decimal DECIMAL(38, 10), a_string STRING, a_binary BINARY, a_date DATE,
    a_timestamp TIMESTAMP, a_timestamp_ntz TIMESTAMP_NTZ,
    an_array ARRAY<INT>, strings ARRAY<STRING>, structs ARRAY<STRUCT<x: INT, y: STRING>>,
    a_map MAP<STRING, DOUBLE>, deep_map MAP<STRING, ARRAY<LONG>>,
    a_struct STRUCT<i: INT, s: STRING, d: DATE, n: STRUCT<t: TIMESTAMP, b: BINARY, l: ARRAY<DOUBLE>>>
"""
# Hudi 1.2 writes no arrays with NULL elements.
VALUES = [
    """1L, true, cast(1 as tinyint), cast(-300 as smallint), 2147483647, -9223372036854775808L, 1.5F, double('NaN'),
    12345678.91, 1234567890123456789012345678.0123456789, 'ünïcode 🚀', x'00FF10', date'1969-12-31',
    timestamp'2024-03-10 02:30:00.123456', timestamp_ntz'1950-01-01 00:00:00.5',
    array(1, 2, 3), array('a', ''), array(named_struct('x', 1, 'y', 'q'), named_struct('x', NULL, 'y', NULL)),
    map('k', 1.5D, 'n', NULL), map('a', array(1L, 2L)),
    named_struct('i', 7, 's', 'text', 'd', date'2000-02-29',
      'n', named_struct('t', timestamp'2001-01-01 00:00:00', 'b', x'01', 'l', array(0.5D)))""",
    "2L, " + ", ".join(["NULL"] * 20),
    """3L, false, cast(-128 as tinyint), cast(0 as smallint), 0, 0L, float('-Infinity'), -0.0D,
    -0.01, -0.0000000001, '', x'', date'9999-12-31',
    timestamp'1901-01-01 00:00:00', timestamp_ntz'2262-12-31 23:59:59.999999',
    array(), array('only'), array(), map(), map('e', array()),
    named_struct('i', NULL, 's', NULL, 'd', NULL, 'n', NULL)""",
]


@pytest.fixture(scope="module", params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def typed(request, spark, workspace):
    """Three rows of every type; on a merge-on-read table they stand in a log file too."""
    schema = spark.createDataFrame([], TYPES).schema
    names = schema.fieldNames()
    query = " UNION ALL ".join(f"SELECT * FROM VALUES ({values}) AS t({', '.join(names)})" for values in VALUES)
    raw = spark.sql(query)
    casted = raw.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in schema.fields])
    vector = F.transform(F.sequence(F.lit(1), F.lit(4)), lambda i: (i * F.col("id")).cast("float"))
    rows = casted.withColumn("emb", vector)
    frame = spark.createDataFrame(rows.rdd, StructType([*schema.fields, hv.vector_field("emb", 4)]))
    path = tables.fresh_path(workspace, "typed")
    # A bulk insert has no columns of bytes.
    how = {"datasource__write__table__type": request.param, "datasource__write__operation": "insert"}
    tables.write(frame, path, **how)
    if request.param == "MERGE_ON_READ":
        tables.write(frame.filter("id <> 2"), path)
    return str(path)


def rows_of(frame):
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"])


def test_every_type_is_decoded_as_spark_decodes_it(spark, typed):
    found = hv.search(spark, typed, "emb", [1.0, 2.0, 3.0, 5.0], 10)
    expected = spark.read.format("hudi").load(typed).drop("emb")
    found = found.select(*expected.columns, "_distance")  # Hudi's own columns too
    assert [(f.name, f.dataType) for f in found.schema.fields[:-1]] == [
        (f.name, f.dataType) for f in expected.schema.fields
    ]
    for mine, theirs in zip(rows_of(found.drop("_distance")), rows_of(expected), strict=True):
        for name, value in theirs.items():
            assert repr(mine[name]) == repr(value), name


def test_every_leaf_selected_from_the_function_equals_the_whole(spark, typed):
    leaves = ["a_struct.i", "a_struct.s", "a_struct.d", "a_struct.n.t", "a_struct.n.b", "a_struct.n.l", "structs.y"]
    array = "ARRAY(1.0D, 2.0D, 3.0D, 5.0D)"
    expected = {row["id"]: row for row in spark.read.format("hudi").load(typed).selectExpr("id", *leaves).collect()}
    for leaf in leaves:
        text = f"SELECT id, {leaf} AS leaf FROM hudi_vector_search('{typed}', 'emb', {array}, 10)"
        for row in spark.sql(text).collect():
            assert repr(row["leaf"]) == repr(expected[row["id"]][leaf.rpartition(".")[2]]), leaf


def test_what_hudi_rs_cannot_merge_is_read_by_spark_and_the_report_says_so(spark, typed):
    hv.search(spark, typed, "emb", [1.0, 2.0, 3.0, 5.0], 10).select("a_struct").collect()
    report = hv.last_reports()[0]
    logs = "log file" in hv.explain(hv.search, spark, typed, "emb", [1.0, 2.0, 3.0, 5.0])
    assert (report.execution == "spark") == logs
    assert ("cannot be merged" in report.execution_reason) == logs
    if logs:
        why = "hudi-rs does not read the type of column 'a_struct' from them; search in a session of Spark, or let Hudi"
        with hv.open(typed, column="emb") as opened, pytest.raises(UnsupportedTableError, match=why):
            opened.search([1.0, 2.0, 3.0, 5.0], 10)


def test_a_large_query_set_falls_back_too(spark, typed, clean_session):
    spark.conf.set(options.BATCH_COLLECT_MAX_BYTES.key, "0")
    logs = "log file" in hv.explain(hv.search, spark, typed, "emb", [1.0, 2.0, 3.0, 5.0])
    queries = np.array([[1.0, 2.0, 3.0, 5.0], [3.0, 1.0, 0.0, 0.0]])
    batch = hv.search_batch(spark, typed, "emb", queries, k=3).orderBy("_hudi_query_index", "_rank")
    assert ("MapInArrow" in batch._jdf.queryExecution().analyzed().toString()) != logs
    found = [(row["_hudi_query_index"], row["id"], row["a_struct"]) for row in batch.collect()]
    single = [hv.search(spark, typed, "emb", query, 3).collect() for query in queries.tolist()]
    assert found == [(number, row["id"], row["a_struct"]) for number, rows in enumerate(single) for row in rows]
    assert (hv.last_reports()[0].execution == "spark") == logs


def test_filters_over_every_simple_type(spark, typed):
    frame = spark.read.format("hudi").load(typed)
    for condition in (
        "a_boolean", "a_byte < 0", "a_short = -300", "an_int IS NULL", "a_long < 0", "a_float < 0", "a_double = -0.0",
        "isnan(a_double)", "a_decimal < 0", "a_wide_decimal > 1", "a_string LIKE '%🚀'", "a_binary = x''",
        "a_date < date'2000-01-01'", "a_timestamp > timestamp'2000-01-01 00:00:00'",
        "a_timestamp_ntz < timestamp_ntz'2000-01-01 00:00:00'", "a_struct.i = 7", "a_struct.n.b = x'01'",
        "size(an_array) = 3", "a_map['k'] = 1.5",
    ):  # fmt: skip
        expected = sorted(row["id"] for row in frame.filter(condition).select("id").collect())
        mine = hv.search(spark, typed, "emb", [1.0, 2.0, 3.0, 5.0], 10, filter=condition).select("id").collect()
        assert sorted(row["id"] for row in mine) == expected, condition


NARROW = "id LONG, f FLOAT, d DOUBLE, i INT, l LONG, m MAP<STRING, FLOAT>, a ARRAY<FLOAT>"
WIDE = "id LONG, f DOUBLE, d STRING, i FLOAT, l DOUBLE, m MAP<STRING, DOUBLE>, a ARRAY<DOUBLE>"


@pytest.fixture(scope="module")
def widened(spark, workspace):
    """Files from before and from after the types of columns were widened."""
    path = tables.fresh_path(workspace, "widened")
    for schema, ids in ((NARROW, range(4)), (WIDE, range(4, 6))):
        rows = [
            (i, i + 0.1, str(i) if schema == WIDE else i * 1e10, 2**24 + i, 2**53 + i, {"k": i + 0.1}, [i + 0.1, 0.7])
            for i in ids
        ]
        if schema == WIDE:
            rows = [(i, f, d, float(n), float(m), *rest) for i, f, d, n, m, *rest in rows]
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        tables.write(frame, path, datasource__write__operation="insert", parquet__small__file__limit="0")
    assert len(list(path.glob("*.parquet"))) == 2
    return str(path)


@pytest.mark.parametrize(
    "condition", ["id >= 0", "f = 1.1D", "f > 1.1D AND f < 3", "d = '1.0E10'", "i = 16777216", "l > 9e15"]
)
def test_values_from_before_a_type_was_widened_are_those_of_spark(spark, widened, condition):
    wanted = {row["id"]: row.asDict() for row in spark.read.format("hudi").load(widened).where(condition).collect()}
    query = [0.3, 0.4]
    names = ["id", "f", "d", "i", "l", "m", "a"]
    found = hv.search(spark, widened, "a", query, 9, metric="l2", filter=condition, columns=names).collect()
    with hv.open(widened, column="a") as opened:
        read = opened.search(query, 9, metric="l2", filter=condition, columns=names).rows()
    for rows in ([row.asDict() for row in found], read):
        assert {row["id"] for row in rows} == set(wanted)
        for row in rows:
            assert {name: dict(row[name]) if name == "m" else row[name] for name in names} == {
                name: wanted[row["id"]][name] for name in names
            }
            exact = np.linalg.norm(np.array(wanted[row["id"]]["a"]) - query)
            assert row["_distance"] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_dates_of_sparks_older_calendar_are_read_by_spark(spark, tmp_path, table_type):
    """Spark notes in the footer that they are other numbers; the slice with log files is merged by hudi-rs."""
    path = str(tmp_path / "t")
    with set_to(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        rows = spark.sql("SELECT id, date'1500-03-01' AS d, array(id * 1.0F, 1F) AS emb FROM range(3)").coalesce(1)
        layout = {"record_key": "id", "vectors": {"emb": 2}, "table_type": table_type, "options": QUICK}
        hv.write(rows, path, operation="bulk_insert", **layout)
        if table_type == "mor":
            hv.write(rows.where("id = 1"), path, **layout)
    assert {str(row.d) for row in spark.read.format("hudi").load(path).collect()} == {"1500-03-01"}
    for asked in ({"columns": ["id", "d"]}, {"columns": ["id"], "filter": "d = DATE '1500-03-01'"}):
        for execution in ("local", "distributed"):
            hits = hv.search(spark, path, "emb", [0.0, 1.0], 5, metric="l2", execution=execution, **asked)
            assert [str(row["d"]) if "d" in row else "1500-03-01" for row in hits.collect()] == ["1500-03-01"] * 3
        with (
            pytest.raises(UnsupportedTableError, match=r"column 'd' of .* \(LEGACY\), which only Spark reads"),
            hv.open(path, column="emb") as opened,
        ):
            opened.search([0.0, 1.0], 5, **asked)
    assert len(hv.search(spark, path, "emb", [0.0, 1.0], 5, columns=["id"]).collect()) == 3
