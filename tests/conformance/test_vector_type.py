"""The cases of Hudi's tests of VECTOR columns: tables that this package writes, read by Hudi, and searched by both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import ArrayType, ByteType, DoubleType, FloatType
from support import tables
from support.quick import QUICK
from support.upstream import answer, assert_rows

import hudi_vector as hv
from hudi_vector.errors import HudiVectorError

WIDE = np.random.default_rng(7).random((10, 1536)).astype("<f4")
BYTES = np.random.default_rng(8).integers(-128, 128, (10, 16)).astype("i1")
VECTORS = {"small": 2, "exact": (4, "double"), "tiny": (16, "int8"), "wide": 1536}


def row(number: int, ts: int, value: float) -> tuple:
    """A row whose vectors tell its number and the write it came by."""
    exact = None if number % 3 == 0 else [number + value] * 4
    tags = ["a", "b"] if number % 2 else None
    return (number, ts, f"p{number % 2}", tags, [value, -1.5], exact, BYTES[number].tolist(), WIDE[number].tolist())


COLUMNS = "id INT, ts INT, part STRING, tags ARRAY<STRING>, small ARRAY<FLOAT>, exact ARRAY<DOUBLE>, tiny ARRAY<TINYINT>, wide ARRAY<FLOAT>"


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request, spark, workspace):
    """Three writes and a delete: rows 0 to 2 were changed twice, 3 and 4 once, 7 is gone, 1 has a late update that lost."""
    path = str(tables.fresh_path(workspace, f"conform_{request.param}"))
    how = {
        "record_key": "id",
        "ordering": "ts",
        "partition_by": "part",
        "table_type": request.param,
        "vectors": VECTORS,
    }
    for rows, columns in [
        ([row(i, 1, 1.0) for i in range(10)], COLUMNS),
        ([row(i, 2, 2.0) for i in range(5)], COLUMNS),
        ([(*row(i, 3, 3.0), f"new {i}") for i in (0, 2)] + [(*row(1, 3, 3.0), None)], f"{COLUMNS}, later STRING"),
    ]:
        hv.write(spark.createDataFrame(rows, columns), path, options=QUICK, **how)
    gone = spark.read.format("hudi").load(path).where("id = 7")
    tables.write(
        gone.drop(*[name for name in gone.columns if name.startswith("_hoodie_")]),
        path,
        datasource__write__operation="delete",
        datasource__write__partitionpath__field="part",
        table__name=Path(path).name,
    )
    return path


LAST = {0: 3.0, 1: 3.0, 2: 3.0, 3: 2.0, 4: 2.0, 5: 1.0, 6: 1.0, 8: 1.0, 9: 1.0}
"""The first element of `small` in every row that is there."""


def test_hudi_reads_the_types_as_declared(spark, table):
    schema = spark.read.format("hudi").load(table).schema
    for name, element, declared in [
        ("small", FloatType(), "VECTOR(2)"),
        ("exact", DoubleType(), "VECTOR(4, DOUBLE)"),
        ("tiny", ByteType(), "VECTOR(16, INT8)"),
        ("wide", FloatType(), "VECTOR(1536)"),
    ]:
        assert schema[name].dataType == ArrayType(element, containsNull=False)
        assert schema[name].metadata["hudi_type"] == declared
    assert "hudi_type" not in schema["tags"].metadata


def test_hudi_reads_every_value(spark, table):
    found = {each.id: each for each in spark.read.format("hudi").load(table).collect()}
    assert set(found) == set(LAST)
    for number, value in LAST.items():
        each = found[number]
        assert each.small == [value, -1.5]
        assert each.exact == (None if number % 3 == 0 else [number + value] * 4)
        assert each.tags == (["a", "b"] if number % 2 else None)
        assert each.part == f"p{number % 2}"
        assert each.later == (f"new {number}" if number in (0, 2) else None)
        np.testing.assert_array_equal(np.array(each.tiny, "i1"), BYTES[number])
        np.testing.assert_array_equal(np.array(each.wide, "<f4"), WIDE[number])


@pytest.mark.parametrize("columns", [["id", "part"], ["id", "exact"], ["wide"], ["tiny", "id", "small"]], ids=" ".join)
def test_any_choice_of_columns(spark, table, columns):
    frame = spark.read.format("hudi").load(table)
    rows = [tuple(each[name] for name in columns) for each in frame.collect()]
    assert sorted(map(repr, map(tuple, frame.select(*columns).collect()))) == sorted(map(repr, rows))


@pytest.mark.parametrize(
    ("column", "query"),
    [
        ("small", [2.5, -1.5]),
        ("exact", [4.0] * 4),
        ("tiny", BYTES[4].tolist()),
        ("wide", WIDE[5].tolist()),
    ],
)
def test_the_rows_found_are_the_nearest(spark, table, column, query):
    array = "ARRAY(" + ", ".join(f"{float(x)!r}D" for x in query) + ")"
    statement = f"SELECT id, _hudi_distance FROM {{f}}('{table}', '{column}', {array}, 20, 'l2')"
    mine = answer(spark.sql(statement.format(f="hudi_vector_search")))
    if (
        column == "exact"
    ):  # Hudi's function takes seconds, and each element type has its statement in test_vector_search
        assert_rows(mine, answer(spark.sql(statement.format(f="hudi_vector_search_native"))))
    kept = spark.read.format("hudi").load(table).select("id", column).collect()
    truth = [
        (each.id, float(np.linalg.norm(np.array(each[column], float) - np.array(query, float))))
        for each in kept
        if each[column] is not None
    ]
    assert_rows(mine, truth)


def test_another_length_is_refused_by_both(spark, table, workspace):
    wrong = spark.createDataFrame([(1, [1.0, 2.0])], "id INT, v ARRAY<FLOAT>")
    path = tables.fresh_path(workspace, "conform_wrong")
    with pytest.raises(HudiVectorError, match="1 with wrong length"):
        hv.write(wrong, str(path), record_key="id", vectors={"v": 3})
    declared = spark.createDataFrame(wrong.rdd, wrong.select("id").schema.add(hv.vector_field("v", 3)))
    with pytest.raises(Exception, match="dimension mismatch"):
        tables.write(declared, path, datasource__write__operation="insert")


def test_another_dimension_of_a_table_is_refused(spark, table):
    other = (
        spark.createDataFrame([row(1, 9, 9.0)], COLUMNS)
        .selectExpr("*", "'x' AS later")
        .withColumn("small", F.array(*[F.lit(0.0)] * 5))
    )
    with pytest.raises(HudiVectorError, match="small"):
        hv.write(other, table, record_key="id", ordering="ts", partition_by="part", vectors={**VECTORS, "small": 5})
