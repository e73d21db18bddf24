"""The Arrow types of Spark's types, beside those that pyspark itself uses."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.spark.catalyst.local_rows import arrow_fields

_FLAT: list[DataType] = [
    BinaryType(), BooleanType(), ByteType(), DateType(), DayTimeIntervalType(), DecimalType(20, 3), DoubleType(),
    FloatType(), IntegerType(), LongType(), ShortType(), StringType(), TimestampNTZType(), TimestampType(),
]  # fmt: skip


def _field(kind: DataType, *, nullable: bool = True) -> pa.Field:
    (found,) = arrow_fields(StructType([StructField("c", kind, nullable)]))
    return found


@pytest.mark.parametrize("kind", _FLAT, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("nullable", [True, False])
def test_types_are_those_that_pyspark_uses(kind: DataType, nullable: bool) -> None:
    assert_as_pyspark(kind, nullable)


@pytest.mark.parametrize("nullable", [True, False])
def test_a_type_that_users_define_is_what_pyspark_uses(nullable: bool) -> None:
    from pyspark.ml.linalg import VectorUDT  # with SciPy, for nothing in each process that collects tests

    assert_as_pyspark(VectorUDT(), nullable)


def assert_as_pyspark(kind: DataType, nullable: bool) -> None:
    nested = StructType([StructField("a", ArrayType(kind, nullable)), StructField("m", MapType(StringType(), kind))])
    for wanted in (kind, ArrayType(kind, nullable), MapType(kind, kind, nullable), nested):
        assert _field(wanted, nullable=nullable) == pa.field("c", to_arrow_type(wanted), nullable)


def test_a_column_of_nulls_has_its_type() -> None:
    assert _field(NullType()).type == to_arrow_type(NullType())


@pytest.mark.parametrize("kind", [ArrayType(NullType(), False), MapType(StringType(), NullType(), False)])
def test_spark_says_that_the_nulls_of_an_empty_array_or_map_are_never_null(kind: DataType) -> None:
    empty = pa.array([[]], _field(kind).type)
    assert empty.to_pylist() == [[]]


@pytest.mark.parametrize(
    ("kind", "named"),
    [(ArrayType(CharType(3)), r"char\(3\)"), (MapType(NullType(), NullType(), False), r"map<void,void>")],
)
def test_a_type_that_arrow_lacks_is_named(kind: DataType, named: str) -> None:
    with pytest.raises(UnsupportedTableError, match=rf"columns of the type {named} cannot be read through Arrow"):
        _field(kind)


def test_types_need_no_distutils() -> None:
    code = (
        "import sys; sys.modules['distutils'] = None\n"
        "from pyspark.sql.types import ArrayType, FloatType, StructType\n"
        "from hudi_vector.spark.catalyst.local_rows import arrow_fields\n"
        "print(arrow_fields(StructType().add('emb', ArrayType(FloatType(), False)))[0].type)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "list<element: float not null>\n"
