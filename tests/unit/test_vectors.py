"""Arrow columns of vectors as blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.errors import DataFileError
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of

NAN, INF = float("nan"), float("inf")
DTYPES = {"float": "<f4", "double": "<f8", "int8": "i1"}
_Rows = list["list[Any] | None"]


def stored(rows: _Rows, element: str = "float", width: int = 2) -> pa.Array:
    dtype = np.dtype(DTYPES[element])
    raw = [None if row is None else np.array(row, dtype).tobytes() for row in rows]
    return pa.array(raw, pa.binary(width * dtype.itemsize))


def lists(rows: _Rows, kind: Any = pa.list_, element: str = "float") -> pa.Array:
    return pa.array(rows, kind(pa.from_numpy_dtype(np.dtype(DTYPES[element]))))


def fixed(rows: _Rows) -> pa.Array:
    return pa.array(rows, pa.list_(pa.float32(), 2))


def read(array: pa.Array, element: str = "float", first: int = 10) -> tuple[list[Any], list[int], int, int]:
    counts = ScanCounts()
    column = VectorColumn("emb", 2, element)
    block = block_of(array, column, np.arange(first, first + len(array)), counts)
    assert block.values.dtype == np.dtype(DTYPES[element])
    assert block.values.shape == (len(block.positions), 2)
    return block.values.tolist(), block.positions.tolist(), counts.nulls, counts.invalid


ROWS: _Rows = [None, [1, 2], [3, 4], None, [5, 6], None]


@pytest.mark.parametrize("make", [stored, lists, lambda rows: lists(rows, pa.large_list), fixed])
def test_nulls_are_left_out_and_counted_at_any_offset(make: Any) -> None:
    array = make(ROWS)
    for start in range(len(ROWS) + 1):
        for stop in range(start, len(ROWS) + 1):
            kept = [(10 + i, row) for i, row in enumerate(ROWS[start:stop]) if row is not None]
            values, positions, nulls, invalid = read(array.slice(start, stop - start))
            assert values == [row for _, row in kept]
            assert positions == [position for position, _ in kept]
            assert nulls == stop - start - len(kept)
            assert invalid == 0


@pytest.mark.parametrize("element", ["float", "double", "int8"])
@pytest.mark.parametrize("make", [stored, lists])
def test_every_element_type(make: Any, element: str) -> None:
    array = make([[1, -2], None, [127, 0]], element=element)
    assert read(array, element) == ([[1, -2], [127, 0]], [10, 12], 1, 0)


def test_stored_vectors_are_not_copied() -> None:
    array = stored([[1, 2], [3, 4]])
    counts = ScanCounts()
    block = block_of(array, VectorColumn("emb", 2, "float"), np.arange(2), counts)
    assert block.values.__array_interface__["data"][0] == array.buffers()[1].address


@pytest.mark.parametrize("make", [lists, lambda rows: lists(rows, pa.large_list)])
def test_lists_of_another_length_are_invalid(make: Any) -> None:
    rows = [[1, 2], [], [3], [4, 5, 6], None, [7, 8]]
    assert read(make(rows)) == ([[1, 2], [7, 8]], [10, 15], 1, 3)
    assert read(make(rows).slice(1)) == ([[7, 8]], [14], 1, 3)
    assert read(make([[], [1]])) == ([], [], 0, 2)


def test_fixed_size_lists_of_another_length_are_invalid() -> None:
    array = pa.array([[1, 2, 3], None], pa.list_(pa.float32(), 3))
    assert read(array) == ([], [], 1, 1)


@pytest.mark.parametrize("make", [lists, fixed])
def test_null_elements_make_a_vector_invalid(make: Any) -> None:
    rows = [[1, None], [1, 2], [None, None], None, [3, 4]]
    assert read(make(rows)) == ([[1, 2], [3, 4]], [11, 14], 1, 2)
    assert read(make(rows).slice(2)) == ([[3, 4]], [12], 1, 1)


@pytest.mark.parametrize("make", [stored, lists, fixed])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_nan_and_infinity_make_a_vector_invalid(make: Any, bad: float) -> None:
    assert read(make([[1, bad], [1, 2], None])) == ([[1, 2]], [11], 1, 1)


def test_elements_under_a_null_list_do_not_count() -> None:
    values = pa.array([1, 2, 9, 9, 3, 4], pa.float32())
    array = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), values, mask=pa.array([False, True, False]))
    assert read(array) == ([[1, 2], [3, 4]], [10, 12], 1, 0)


def test_zero_vectors_are_vectors() -> None:
    assert read(stored([[0, 0]])) == ([[0, 0]], [10], 0, 0)


def test_another_stored_width_is_refused() -> None:
    with pytest.raises(DataFileError, match=r"stored with 12 bytes a vector; VECTOR\(2, FLOAT\) has 8"):
        read(stored([[1, 2, 3]], width=3))
