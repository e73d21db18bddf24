"""The order of rows by columns of any type."""

from __future__ import annotations

import datetime as dt
import functools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.query.row_order import order_of_keys

NAN = float("nan")


def compared(a: Any, b: Any) -> int:
    """As Spark compares: NULL first, NaN largest, structs and arrays from their start."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) - math.isnan(b)
        return (a > b) - (a < b)
    if isinstance(a, dict):
        return next((c for c in (compared(a[name], b[name]) for name in ("x", "w")) if c), 0)
    if isinstance(a, list):
        return next((c for c in map(compared, a, b) if c), (len(a) > len(b)) - (len(a) < len(b)))
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return (a > b) - (a < b)


def expected(rows: list[tuple[Any, ...]]) -> list[int]:
    def both(i: int, j: int) -> int:
        return next((c for c in map(compared, rows[i], rows[j]) if c), i - j)

    places = [0] * len(rows)
    for place, row in enumerate(sorted(range(len(rows)), key=functools.cmp_to_key(both))):
        places[row] = place
    return places


FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, -2.0, NAN, float("inf"), float("-inf")])
WORDS = st.sampled_from([None, "", "a", "ab", "ä", "\uffee", "\U0001f600"])
STRUCT = pa.struct([("x", pa.float64()), ("w", pa.string())])
COLUMNS = [
    (pa.float32(), FLOATS),
    (pa.float64(), FLOATS),
    (pa.string(), WORDS),
    (pa.int8(), st.sampled_from([None, -128, 0, 3])),
    (pa.bool_(), st.sampled_from([None, True, False])),
    (pa.binary(), st.sampled_from([None, b"", b"\xff", b"a"])),
    (pa.decimal128(10, 2), st.sampled_from([None, Decimal("1.50"), Decimal("-3.00")])),
    (pa.date32(), st.sampled_from([None, dt.date(1900, 1, 1), dt.date(2020, 1, 1)])),
    (pa.null(), st.none()),
    (pa.list_(pa.float32()), st.none() | st.lists(FLOATS, max_size=3)),
    (pa.list_(pa.int32(), 2), st.none() | st.lists(st.sampled_from([None, 1, 2]), min_size=2, max_size=2)),
    (STRUCT, st.none() | st.fixed_dictionaries({"x": FLOATS, "w": WORDS})),
    (pa.list_(STRUCT), st.none() | st.lists(st.none() | st.fixed_dictionaries({"x": FLOATS, "w": WORDS}), max_size=2)),
]


@given(data=st.data())
def test_rows_are_ordered_as_spark_orders_them(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*[values for _, values in chosen]), max_size=12))
    arrays = [pa.array([row[i] for row in rows], kind) for i, (kind, _) in enumerate(chosen)]
    table = pa.table(arrays, names=[str(i) for i in range(len(arrays))])
    halves = pa.concat_tables([table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)])
    assert order_of_keys(halves).tolist() == expected(rows)


def test_maps_are_ordered_however_their_entries_lie() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    maps = pa.array([[("b", 1), ("a", 2)], None, [("a", 2), ("b", 1)], []], kind)
    places = order_of_keys(pa.table({"m": maps, "n": [1, 1, 0, 1]})).tolist()
    assert places[1] == 0
    assert places[2] < places[0], "equal maps leave it to the next column"


@pytest.mark.parametrize("rows", [0, 3])
def test_without_columns_rows_keep_their_order(rows: int) -> None:
    table = pa.table({"a": pa.nulls(rows)})
    np.testing.assert_array_equal(order_of_keys(table), np.arange(rows))
    np.testing.assert_array_equal(order_of_keys(table.select([])), np.arange(table.select([]).num_rows))
