"""The small tables that the statements of `tests/conformance` are about, and how their answers are compared."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import hudi_vector as hv
from support import differences, tables

ROOT2, ROOT3 = math.sqrt(2) / 2, math.sqrt(3) / 3

AXES = [
    ("east", [1.0, 0.0, 0.0], "axis"),
    ("north", [0.0, 1.0, 0.0], "axis"),
    ("up", [0.0, 0.0, 1.0], "axis"),
    ("plane", [ROOT2, ROOT2, 0.0], "between two"),
    ("space", [ROOT3, ROOT3, ROOT3], "between three"),
]
"""Five directions of length one, whose distances can be said without a computer."""


def plain(spark: SparkSession, name: str, rows: Sequence[tuple[str, str]], element: str = "FLOAT") -> None:
    """A temporary view of id and v, without any table behind it; vectors in the words of SQL."""
    values = ", ".join(f"('{key}', CAST({vector} AS ARRAY<{element}>))" for key, vector in rows)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM VALUES {values} AS t(id, v)")


def views(spark: SparkSession, workspace: Path) -> Iterator[str]:
    """Every table and view that the statements name; gives the path of `conform_corpus`."""
    path = tables.fresh_path(workspace, "corpus")
    schema = StructType([StructField("id", StringType()), hv.vector_field("v", 3), StructField("label", StringType())])
    tables.write(spark.createDataFrame(AXES, schema), path, datasource__write__operation="bulk_insert")
    spark.sql(f"CREATE TABLE conform_corpus USING hudi LOCATION '{path}'")
    east, north, up = "ARRAY(1, 0, 0)", "ARRAY(0, 1, 0)", "ARRAY(0, 0, 1)"
    plain(spark, "conform_double", [("a", east), ("b", north)], "DOUBLE")
    plain(
        spark, "conform_byte", [("a", "ARRAY(127, 0, 0)"), ("b", "ARRAY(10, 5, 0)"), ("c", "ARRAY(0, 5, 0)")], "TINYINT"
    )
    plain(spark, "conform_null", [("a", east), ("b", "NULL"), ("c", north)])
    plain(spark, "conform_zero", [("a", east), ("z", "ARRAY(0, 0, 0)"), ("m", "ARRAY(-1, 0, 0)")])
    plain(spark, "conform_same", [("c", east), ("b", east), ("a", east)])
    plain(spark, "conform_ragged", [("a", east), ("b", "ARRAY(1, 0)")])
    plain(spark, "conform_nan", [("a", east), ("n", "ARRAY('NaN', 0, 0)")])
    plain(spark, "conform_hole", [("a", east), ("h", "ARRAY(NULL, 0, 0)")])
    plain(spark, "conform_asked", [("qx", east), ("qz", up)])
    plain(spark, "conform_asked_wide", [("qw", "ARRAY(1, 0, 0, 0, 0)")])
    wide = spark.table("conform_asked_wide")
    declared = wide["v"].alias("v", metadata={"hudi_type": "VECTOR(5)"})
    wide.select("id", declared).createOrReplaceTempView("conform_asked_wide")
    plain(spark, "conform_asked_double", [("qd", east)], "DOUBLE")
    spark.table("conform_same").where("id = 'y'").createOrReplaceTempView("conform_none")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW conform_named AS SELECT id AS asked, v AS question FROM conform_asked")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW conform_prices AS SELECT * FROM VALUES "
        "('east', 5.0D), ('plane', 7.0D), ('north', 9.0D) AS t(id, price)"
    )
    yield str(path)
    spark.sql("DROP TABLE conform_corpus")
    drop_views(spark)


def drop_views(spark: SparkSession) -> None:
    """No temporary view of these tests is left for others."""
    for table in spark.catalog.listTables():
        if table.isTemporary and table.name.startswith("conform_"):
            spark.catalog.dropTempView(table.name)


def own_columns(frame: DataFrame) -> list[str]:
    """The columns without those that Hudi adds to every table."""
    return [name for name in frame.columns if not name.startswith("_hoodie_")]


def answer(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows, without the columns that Hudi adds to every table; bytes as bytes."""
    return [
        tuple(bytes(row[name]) if isinstance(row[name], bytearray) else row[name] for name in own_columns(frame))
        for row in frame.collect()
    ]


def assert_rows(found: Sequence[tuple[Any, ...]], expected: Sequence[tuple[Any, ...]]) -> None:
    """The same rows in any order, numbers within what two orders of adding differ by."""
    assert len(found) == len(expected), found
    ordered = sorted(found, key=_words), sorted(expected, key=_words)
    for mine, theirs in zip(*ordered, strict=True):
        assert len(mine) == len(theirs), (mine, theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert one == (pytest.approx(other, rel=1e-6, abs=1e-7) if isinstance(other, float) else other), (
                mine,
                theirs,
            )


def _words(row: tuple[Any, ...]) -> tuple[str, ...]:
    """What tells rows apart: everything but numbers with a fraction."""
    return tuple("" if isinstance(value, float) else repr(value) for value in row)


def assert_outcome(spark: SparkSession, statement: str, wanted: differences.Outcome) -> None:
    """A statement ends as a difference says."""
    if isinstance(wanted, differences.Refused):
        with pytest.raises(Exception, match=re.escape(wanted.words)):
            spark.sql(statement).collect()
        return
    frame = spark.sql(statement)
    if isinstance(wanted, differences.Columns):
        added = [name for name in own_columns(frame) if name.startswith("_")]
        assert added == list(wanted.names)
    elif isinstance(wanted, differences.Any):
        assert frame.count() == wanted.count
    else:
        assert_rows(answer(frame), [tuple(row) for row in wanted.values])
