"""Columns of files in the types of the table."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.read.conform import conform, vector_type
from hudi_vector.schema import HUDI_TYPE, VectorType


def one(array: pa.Array, kind: pa.DataType, metadata: dict[str, str] | None = None) -> pa.ChunkedArray:
    made = conform(pa.table({"c": array}), [pa.field("c", kind, metadata=metadata)])
    assert made.schema.names == ["c"]
    assert made.column(0).type == kind
    return made.column(0)


INFINITE = float("inf")
LISTS = pa.list_(pa.field("element", pa.int64()))
STRUCT = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())])
AT = pa.struct({"at": pa.timestamp("us")})
CASES: list[tuple[pa.Array, pa.DataType, list[Any]]] = [
    (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
    (pa.array([1, None], pa.int32()), pa.float64(), [1.0, None]),
    (pa.array([1.5, None], pa.float32()), pa.float64(), [1.5, None]),
    (
        pa.array([0.1, -123456.79, -0.0, 1e10, INFINITE, None], pa.float32()),
        pa.float64(),
        [0.1, -123456.79, -0.0, 1e10, INFINITE, None],
    ),
    (pa.array([[("k", 0.1)]], pa.map_(pa.string(), pa.float32())), pa.map_(pa.string(), pa.float64()), [[("k", 0.1)]]),
    (pa.array([[1.1, None]], pa.list_(pa.float32())), pa.list_(pa.field("element", pa.float64())), [[1.1, None]]),
    (pa.array([2**24 + 1, None], pa.int32()), pa.float32(), [2.0**24, None]),
    (pa.array([2**53 + 3, None], pa.int64()), pa.float64(), [2.0**53 + 4, None]),
    (
        pa.array([0.0, -0.0, 1e10, 1e7, 9999999.0, 0.001, -0.00025, 1.5, 1e-300, INFINITE, None]),
        pa.string(),
        ["0.0", "-0.0", "1.0E10", "1.0E7", "9999999.0", "0.001", "-2.5E-4", "1.5", "1.0E-300", "Infinity", None],
    ),
    (pa.array([5.1, 1e10, float("nan")], pa.float32()), pa.string(), ["5.1", "1.0E10", "NaN"]),
    (pa.array([True, None]), pa.bool_(), [True, None]),
    (pa.array(["x", None], pa.large_string()), pa.string(), ["x", None]),
    (pa.array([b"x", None]), pa.string(), ["x", None]),
    (pa.array(["x", None]), pa.binary(), [b"x", None]),
    (pa.array([b"ab", None], pa.binary(2)), pa.binary(), [b"ab", None]),
    (pa.array(["x", None, "x"]).dictionary_encode(), pa.string(), ["x", None, "x"]),
    (
        pa.array([1_000, None], pa.timestamp("ms", "UTC")),
        pa.timestamp("us", "UTC"),
        [datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), None],
    ),
    (
        pa.array([-1001, -1000, -1, 1999, None], pa.timestamp("ns")),
        pa.timestamp("us"),
        [*(datetime(1970, 1, 1) + timedelta(microseconds=n) for n in (-2, -1, -1, 1)), None],
    ),
    (
        pa.array([{"at": -1}], pa.struct({"at": pa.timestamp("ns")})),
        AT,
        [{"at": datetime(1969, 12, 31, 23, 59, 59, 999999)}],
    ),
    (pa.array([Decimal("1.20"), None], pa.decimal128(5, 2)), pa.decimal128(10, 2), [Decimal("1.20"), None]),
    (
        pa.array([(-120).to_bytes(4, "big", signed=True), None], pa.binary(4)),
        pa.decimal128(9, 2),
        [Decimal("-1.20"), None],
    ),
    (pa.array([[1, None], None, []], pa.list_(pa.int32())), LISTS, [[1, None], None, []]),
    (pa.array([[1], None], pa.large_list(pa.int32())), LISTS, [[1], None]),
    (pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), LISTS, [[1, 2], [3, 4]]),
    (
        pa.array([{"a": 1}, None, {"a": None}], pa.struct({"a": pa.int32()})),
        STRUCT,
        [{"a": 1, "b": None}, None, {"a": None, "b": None}],
    ),
    (pa.array([{"B": "x", "old": 1, "A": 2}]), STRUCT, [{"a": 2, "b": "x"}]),
    (
        pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        pa.map_(pa.string(), pa.int64()),
        [[("k", 1)], None, []],
    ),
    (
        pa.array([[{"a": 1}], None], pa.list_(pa.struct({"a": pa.int32()}))),
        pa.list_(pa.field("element", STRUCT)),
        [[{"a": 1, "b": None}], None],
    ),
    (
        pa.array([{"s": {"a": 1}}, {"s": None}], pa.struct({"s": pa.struct({"a": pa.int32()})})),
        pa.struct({"s": STRUCT}),
        [{"s": {"a": 1, "b": None}}, {"s": None}],
    ),
    (
        pa.array([[("k", {"a": 1})]], pa.map_(pa.string(), pa.struct({"a": pa.int32()}))),
        pa.map_(pa.string(), STRUCT),
        [[("k", {"a": 1, "b": None})]],
    ),
]


@pytest.mark.parametrize(("array", "kind", "wanted"), CASES, ids=lambda value: str(getattr(value, "type", ""))[:40])
def test_values_are_brought_to_the_tables_type(array: pa.Array, kind: pa.DataType, wanted: list[Any]) -> None:
    assert one(array, kind).to_pylist() == wanted
    assert one(array.slice(0, 0), kind).to_pylist() == []
    twice = pa.concat_arrays([array, array])
    for start in range(len(twice) + 1):
        assert one(twice.slice(start), kind).to_pylist() == (wanted + wanted)[start:]
        assert one(twice.slice(start, 1), kind).to_pylist() == (wanted + wanted)[start : start + 1]
    chunked = conform(pa.table({"c": pa.chunked_array([array, array.slice(1)])}), [pa.field("c", kind)])
    assert chunked.column(0).to_pylist() == wanted + wanted[1:]


@pytest.mark.parametrize("kind", [case[1] for case in CASES], ids=str)
def test_a_column_the_file_lacks_is_null(kind: pa.DataType) -> None:
    made = conform(pa.table({"other": [1, 2]}), [pa.field("c", kind)])
    assert made.column("c").to_pylist() == [None, None]
    assert made.schema.field("c").type == kind


def test_columns_come_as_asked_for() -> None:
    batch = pa.record_batch({"B": [1], "a": ["x"], "rest": [0]})
    made = conform(batch, [pa.field("a", pa.string()), pa.field("b", pa.int64())])
    assert made.to_pylist() == [{"a": "x", "b": 1}]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array(["x"]), pa.int64()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([{"a": 1}]), pa.int64()),
        (pa.array([["x"]]), LISTS),
        (pa.array([{"a": "x"}]), STRUCT),
    ],
)
def test_what_does_not_fit_is_said(array: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTableError, match=r"column 'c.*' is stored as .* cannot be read as"):
        one(array, kind)


@pytest.mark.parametrize("element", ["float", "double", "int8"])
def test_vectors_become_lists(element: str) -> None:
    vector = VectorType(3, element)
    numbers = [None, [1, 2, 3], [4, 5, 6], None, [-7, 8, 9]]
    raw = [None if row is None else np.array(row, vector.dtype).tobytes() for row in numbers]
    kind = pa.list_(pa.field("element", vector.arrow_element, nullable=False))
    stored = pa.array(raw, pa.binary(vector.width))
    metadata = {HUDI_TYPE: vector.descriptor}
    for start in range(6):
        assert one(stored.slice(start), kind, metadata).to_pylist() == numbers[start:]
    assert one(stored.slice(0, 1), kind, metadata).to_pylist() == [None]
    assert one(pa.array([], pa.binary(vector.width)), kind, metadata).to_pylist() == []
    assert one(pa.nulls(2, pa.binary(vector.width)), kind, metadata).to_pylist() == [None, None]


def test_vectors_of_another_width_are_refused() -> None:
    kind = pa.list_(pa.field("element", pa.float32(), nullable=False))
    with pytest.raises(UnsupportedTableError, match="column 'c' is stored as fixed_size_binary"):
        one(pa.array([b"12345678"], pa.binary(8)), kind, {HUDI_TYPE: "VECTOR(3)"})


@pytest.mark.parametrize(("text", "wanted"), [("VECTOR(3)", VectorType(3)), ("BLOB", None), (None, None)])
def test_which_fields_are_vectors(text: str | None, wanted: VectorType | None) -> None:
    assert vector_type(pa.field("c", pa.binary(), metadata={HUDI_TYPE: text} if text else None)) == wanted
