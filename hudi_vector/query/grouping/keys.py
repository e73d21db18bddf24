"""The keys of groups: one text of bytes for each combination of values, the same in every file, thread and process.

Values are equal as in Spark's GROUP BY: NULL equals NULL, NaN equals NaN, and −0.0 equals 0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.kernels.topk import Ints

__all__ = ["GroupCodes", "group_keys"]


class GroupCodes:
    """Codes from 0 for the keys of groups, given in the order in which keys are first seen."""

    def __init__(self) -> None:
        self._codes: dict[bytes, int] = {}

    def of_keys(self, keys: Any) -> Ints:
        """Return the code of each key."""
        codes = self._codes
        return np.fromiter((codes.setdefault(key, len(codes)) for key in keys), np.int64)

    def of(self, values: pa.Table) -> Ints:
        """Return the code of each row's group, shape (rows,)."""
        keys, number = _distinct(values)
        return self.of_keys(keys)[number]

    def among(self, wanted: pa.Table, values: pa.Table) -> Ints:
        """Return the code of each row's group, -1 for a row whose group is certainly not among the wanted ones."""
        near = np.ones(values.num_rows, np.bool_)
        for name in values.column_names:
            column = values.column(name)
            # Two zeros, and two NaN, may be other values to Arrow.
            if not pa.types.is_floating(column.type):
                near &= np.asarray(pc.is_in(column, value_set=wanted.column(name).combine_chunks()))
        codes = np.full(values.num_rows, -1, np.int64)
        codes[near] = self.of(values.filter(pa.array(near)))
        return codes

    def keys(self, codes: Ints) -> npt.NDArray[Any]:
        """Return the key of each code."""
        return _objects(list(self._codes))[codes]


def group_keys(values: pa.Table) -> npt.NDArray[Any]:
    """Return the key of each row's group, an array of bytes objects, shape (rows,).

    Example:
        >>> keys = group_keys(pa.table({"a": [1.0, None, float("nan"), None, -0.0, 0.0, float("nan")]}))
        >>> len(set(keys.tolist())), keys[1] == keys[3], keys[4] == keys[5]
        (4, True, True)
    """
    keys, number = _distinct(values)
    return _objects(keys)[number]


def _distinct(values: pa.Table) -> tuple[list[bytes], Ints]:
    """Return the keys of the distinct rows, and for each row the number of its key; two numbers may have one key."""
    columns = [_encoded(column) for column in values.columns]
    if len(columns) == 1:
        [(number, held)] = columns
        return [repr((value,)).encode() for value in held], number
    number = np.zeros(values.num_rows, np.int64)
    for codes, held in columns:
        # Made dense after each column, so that the numbers never overflow.
        _, number = np.unique(number * (len(held) + 1) + codes, return_inverse=True)
    _, first = np.unique(number, return_index=True)
    parts = [[held[code] for code in codes[first].tolist()] for codes, held in columns]
    return [repr(row).encode() for row in zip(*parts, strict=True)], number


def _encoded(column: pa.ChunkedArray) -> tuple[Ints, list[Any]]:
    """Return a code for each row, and the plain values that the codes stand for."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = pa.array([], column.type)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), [None]
    if pa.types.is_temporal(array.type):  # Python has no value for years after 9999, nor for nanoseconds
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array, null_encoding="encode")
    held = array.dictionary.to_pylist()
    if pa.types.is_floating(array.dictionary.type):
        held = [None if value is None else value + 0.0 for value in held]
    codes = np.asarray(array.indices.fill_null(len(held))).astype(np.int64)
    return codes, [*held, None]


def _objects(keys: list[bytes]) -> npt.NDArray[Any]:
    found = np.empty(len(keys), object)
    found[:] = keys
    return found
