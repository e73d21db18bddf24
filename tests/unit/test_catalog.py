"""CREATE TABLE from what a DataFrame says of its columns, which may be the words of others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    UserDefinedType,
    VarcharType,
)

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.writing.catalog import create_table


def made(kind: DataType, name: str = "c", **metadata: str) -> str:
    statement = create_table("`t`", StructType([StructField(name, kind, True, dict(metadata))]), (), {"k": "v"})
    found = re.fullmatch(r"CREATE TABLE `t` \((.*)\) USING hudi TBLPROPERTIES \('k' = 'v'\)", statement, re.DOTALL)
    assert found is not None, statement
    return found[1]


VECTOR = ArrayType(FloatType())


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("VECTOR(3)", "VECTOR(3)"),
        (" vector ( 3 , double ) ", "VECTOR(3, DOUBLE)"),
        ("VECTOR(3, INT8)", "VECTOR(3, INT8)"),
        ("VECTOR(3)\n", "VECTOR(3)"),
        ("BLOB", "BLOB"),
        ("blob", "BLOB"),
    ],
)
def test_types_of_hudi_are_spelled_anew(said: str, wanted: str) -> None:
    assert made(VECTOR, hudi_type=said) == f"`c` {wanted}"


@pytest.mark.parametrize(
    "said",
    [
        "INT) USING parquet LOCATION '/victim' --",
        "VECTOR(3)) USING hudi LOCATION '/victim' TBLPROPERTIES ('a' = 'b') --",
        "VECTOR(3) COMMENT 'x'",
        "VECTOR(0)",
        "VECTOR(3, STRING)",
        "BLOB, evil STRING",
        "BLOB /* */",
        "STRING",
        "x" * 10_000,
    ],
)
def test_whatever_is_no_type_of_hudi_is_refused(said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"says hudi_type = .*it may be VECTOR") as refused:
        made(VECTOR, hudi_type=said)
    assert len(str(refused.value)) < 400


@given(st.text(max_size=40))
def test_no_metadata_reach_the_statement_as_they_are(said: str) -> None:
    try:
        found = made(VECTOR, hudi_type=said)
    except InvalidArgumentError:
        return
    assert re.fullmatch(r"`c` (VECTOR\(\d+(, (DOUBLE|INT8))?\)|BLOB|ARRAY<float>)", found)


def test_types_of_spark() -> None:
    nested = StructType([StructField("a b", IntegerType()), StructField("`x>, evil INT", ArrayType(StringType()))])
    for kind, wanted in (
        (IntegerType(), "int"),
        (DecimalType(10, 2), "decimal(10,2)"),
        (VarcharType(5), "varchar(5)"),
        (TimestampNTZType(), "timestamp_ntz"),
        (VECTOR, "ARRAY<float>"),
        (MapType(StringType(), nested), "MAP<string, STRUCT<`a b`: int, ```x>, evil INT`: ARRAY<string>>>"),
    ):
        assert made(kind) == f"`c` {wanted}"
    assert made(IntegerType(), "a`, evil INT", comment="it's \\' ) --") == (
        "`a``, evil INT` int COMMENT 'it\\'s \\\\\\' ) --'"
    )


def test_a_type_that_is_none_of_a_table_is_refused() -> None:
    class Own(UserDefinedType):  # type: ignore[type-arg]
        def simpleString(self) -> str:  # noqa: N802 - Spark's name
            return "int) USING parquet --"

    with pytest.raises(InvalidArgumentError, match="which a table has no column of; cast it"):
        made(Own())
