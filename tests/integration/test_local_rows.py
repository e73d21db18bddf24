"""Rows that Python makes arrive in Spark as they are, as bytes of rows and through Arrow alike."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hudi_vector.spark.catalyst.handles import frame_of
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.catalyst.unsafe_rows import MOST_ROWS, fits_unsafe
from hudi_vector.writing.local_frames import spark_frame

UTC = dt.timezone.utc
EDGES = {
    BooleanType(): [True, False],
    ByteType(): [-128, 127, 0],
    ShortType(): [-(2**15), 2**15 - 1],
    IntegerType(): [-(2**31), 2**31 - 1, -1],
    LongType(): [-(2**63), 2**63 - 1, -1],
    FloatType(): [-0.0, 1.5, float("inf"), float("nan"), 1.401298464324817e-45],
    DoubleType(): [-0.0, -1.5, float("-inf"), float("nan"), 5e-324],
    DateType(): [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)],
    TimestampType(): [dt.datetime(1900, 1, 1, tzinfo=UTC), dt.datetime(2262, 4, 12, 1, 2, 3, 456789, UTC)],
    TimestampNTZType(): [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    StringType(): ["", "seven..", "eight...", "nine.....", "\u00e9\U0001f600", "x" * 1000, "\0"],
    BinaryType(): [b"", b"\x00\xff", b"12345678", bytes(999)],
}


def drawn(kinds, rows, seed):
    """A table of edge cases and NULLs, and its rows."""
    draw = random.Random(seed)
    schema = StructType([StructField(f"c{place}", kind) for place, kind in enumerate(kinds)])
    found = [[draw.choice([None, *EDGES[kind]]) for kind in kinds] for _ in range(rows)]
    columns = [pa.array([row[place] for row in found], field.type) for place, field in enumerate(arrow_fields(schema))]
    return schema, pa.table(columns, names=schema.names), found


def read(spark, schema, table):
    """The rows as Spark collects them."""
    relation = lazy_relation(spark, "made", schema, [], lambda names: table.select(list(names)), lambda: "made")
    return frame_of(spark, relation)


def same(got, made, kind):
    if isinstance(made, float) and math.isnan(made):
        return math.isnan(got)
    if isinstance(kind, TimestampType) and made is not None:
        return got.timestamp() == made.timestamp()
    return got == made and str(got) == str(made) if isinstance(made, float) else got == made


def assert_rows(got, made, schema):
    assert len(got) == len(made)
    for row, expected in zip(got, made, strict=True):
        for value, wanted, field in zip(row, expected, schema.fields, strict=True):
            assert same(bytes(value) if isinstance(value, bytearray) else value, wanted, field.dataType), field


@pytest.mark.parametrize("rows", [1, 40, MOST_ROWS + 1])
def test_every_type_arrives_with_its_edges_and_nulls(spark, rows):
    schema, table, made = drawn(list(EDGES), rows, rows)
    small = rows <= MOST_ROWS
    assert fits_unsafe(table, schema) == small
    assert_rows(read(spark, schema, table).collect(), made, schema)


def test_more_columns_than_bits_in_a_word(spark):
    kinds = list(EDGES) * 11
    schema, table, made = drawn(kinds, 9, 3)
    assert len(kinds) > 128
    assert_rows(read(spark, schema, table).collect(), made, schema)
    last = schema.names[-1]
    assert [row[0] for row in read(spark, schema, table).select(last).collect()] == [row[-1] for row in made]


@pytest.mark.parametrize("rows", [0, 1, 5, MOST_ROWS + 1])
def test_rows_without_columns_are_counted(spark, rows):
    schema, table, _ = drawn([LongType(), StringType()], rows, 1)
    assert read(spark, schema, table).count() == rows
    assert len(read(spark, schema, table).collect()) == rows


def test_types_that_only_arrow_carries(spark):
    schema = StructType(
        [
            StructField("d", DecimalType(38, 9)),
            StructField("a", ArrayType(IntegerType())),
            StructField("s", StructType([StructField("x", StringType())])),
            StructField("l", LongType()),
        ]
    )
    made = [(Decimal("1.500000000"), [1, None], ("q",), 7), (None, None, None, None)]
    columns = [
        pa.array([made[0][0], None], pa.decimal128(38, 9)),
        pa.array([[1, None], None], pa.list_(pa.int32())),
        pa.array([{"x": "q"}, None], pa.struct([("x", pa.string())])),
        pa.array([7, None], pa.int64()),
    ]
    table = pa.table(columns, names=schema.names)
    assert not fits_unsafe(table, schema)
    assert [tuple(row) for row in read(spark, schema, table).collect()] == made


def test_rows_stay_after_the_statement_that_made_them(spark):
    """Spark keeps copies: the bytes of Python's rows are shared by all rows of a statement."""
    schema, table, made = drawn([StringType(), LongType(), BinaryType()], 30, 5)
    kept = read(spark, schema, table).cache()
    try:
        assert_rows(kept.collect(), made, schema)
        assert kept.where("c0 IS NOT NULL").count() == sum(row[0] is not None for row in made)
    finally:
        kept.unpersist()


_KINDS = st.recursive(
    st.sampled_from(
        [
            pa.bool_(), pa.int8(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float16(), pa.float32(),
            pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
            pa.binary(3), pa.date32(), pa.decimal128(9, 2), pa.timestamp("ms", "UTC"), pa.timestamp("ns", "Asia/Tokyo"),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_), inner.map(pa.large_list), inner.map(lambda kind: pa.list_(kind, 2)),
        st.tuples(inner, inner).map(lambda kinds: pa.struct(list(zip("ab", kinds, strict=True)))),
    ),
    max_leaves=4,
)  # fmt: skip


def _drawn_value(draw, kind):
    """A value of an Arrow type, or NULL."""
    types = pa.types
    if draw.random() < 0.2:
        return None
    if types.is_struct(kind):
        return {field.name: _drawn_value(draw, field.type) for field in kind}
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        count = kind.list_size if types.is_fixed_size_list(kind) else draw.randrange(4)
        return [_drawn_value(draw, kind.value_type) for _ in range(count)]
    if types.is_boolean(kind):
        return draw.random() < 0.5
    if types.is_integer(kind):
        return draw.randrange(100)
    if types.is_floating(kind):
        return draw.choice([-0.5, 0.0, 1.25, math.inf])
    if types.is_date(kind):
        return dt.date(2020, 1, draw.randrange(1, 29))
    if types.is_timestamp(kind):
        return dt.datetime(2020, 1, 1, 2, 3, draw.randrange(60), tzinfo=UTC)
    if types.is_decimal(kind):
        return Decimal(draw.randrange(1000)) / 100
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return draw.choice(["", "\u00e9", "abc"])
    return draw.choice([b"abc", b"\x00\xff."])


def _plain(value):
    """A value of Spark or of Arrow as the same Python value."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dt.datetime):
        return value.timestamp()
    return bytes(value) if isinstance(value, bytearray) else value


@settings(max_examples=30)
@given(st.lists(_KINDS, min_size=1, max_size=3), st.integers(1, 5), st.integers(0, 2**32))
def test_rows_of_arrow_arrive_as_they_are(spark, kinds, rows, seed):
    draw = random.Random(seed)
    columns = [pa.array([_drawn_value(draw, kind) for _ in range(rows)], kind) for kind in kinds]
    table = pa.table(columns, names=[f"c{place}" for place in range(len(kinds))])
    got = [row.asDict(recursive=True) for row in spark_frame(table, spark).collect()]
    assert _plain(got) == _plain(table.to_pylist())


def test_pandas_gives_its_vectors_whole_and_its_missing_values_as_null(spark):
    frame = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "emb": [np.array([1.0, np.nan], np.float32), None, np.array([3.0, 4.0], np.float32)],
            "bits": [np.array([1, 2], np.int8)] * 3,
            "price": [1.5, np.nan, 2.5],
            "kind": pd.Categorical(["a", None, "a"]),
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
        }
    )
    got = spark_frame(frame, spark)
    assert [field.dataType.simpleString() for field in got.schema.fields] == [
        "bigint", "array<float>", "array<tinyint>", "double", "string", "timestamp",
    ]  # fmt: skip
    first, second, third = got.collect()
    assert first["emb"][0] == 1.0
    assert math.isnan(first["emb"][1])
    assert second[1:] == (None, [1, 2], None, None, None)
    assert third["emb"] == [3.0, 4.0]
    assert third["kind"] == "a"
    assert third["when"].timestamp() == dt.datetime(2020, 1, 3, tzinfo=UTC).timestamp()  # the session's zone
