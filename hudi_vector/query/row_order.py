"""The order of rows by their columns, for every column type, as Spark orders them.

NULLs come first; then values ascending: NaN is above all other numbers and equal to itself, −0.0 equals 0.0, text is
compared by its UTF-8 bytes, structs field by field, arrays element by element, a prefix before the longer array. Spark
does not order maps; here they are ordered by their entries as text, so that the order does not depend on the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.kernels.topk import Ints

__all__ = ["order_of_keys"]


def order_of_keys(keys: pa.Table) -> Ints:
    """Return the place of each row, from 0, when rows are ordered by their columns, the most significant first.

    The result has shape (rows,) and holds every place once: rows that are equal in all columns keep their order.

    Example:
        >>> order_of_keys(pa.table({"a": [2.0, None, float("nan"), 2.0], "b": ["x", "y", "z", "a"]})).tolist()
        [2, 0, 3, 1]
    """
    codes = [_codes(column.combine_chunks()) for column in keys.columns]
    order = np.lexsort(codes[::-1]) if codes else np.arange(keys.num_rows)
    places = np.empty(keys.num_rows, np.int64)
    places[order] = np.arange(keys.num_rows)
    return places


def _codes(column: Any) -> Ints:
    """Return codes, shape (rows,): equal values have equal codes, larger values larger ones; NULL has code 0."""
    array = _as_array(column)
    kind = array.type
    if pa.types.is_null(kind) or not len(array):
        return np.zeros(len(array), np.int64)
    if pa.types.is_dictionary(kind):
        return _codes(array.dictionary_decode())
    if pa.types.is_map(kind):
        texts = [None if value is None else repr(sorted(value, key=repr)).encode() for value in array.to_pylist()]
        return _ranks(pa.array(texts, pa.large_binary()))
    if pa.types.is_struct(kind):
        fields = [_codes(field) for field in array.flatten()]
        return _with_nulls(_dense(fields, len(array)), array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _of_lists(array)
    if pa.types.is_floating(kind):
        return _of_floats(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        array = array.cast(pa.large_binary())
    return _ranks(array)


def _as_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _ranks(array: Any) -> Ints:
    ranks = np.zeros(len(array), np.int64)
    ranks[np.asarray(array.is_valid())] = pc.rank(array.drop_null(), tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks


def _of_floats(array: Any) -> Ints:
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    # numpy sorts NaN last and treats all NaNs, and both zeros, as one value.
    _, codes = np.unique(values + 0.0, return_inverse=True)
    return _with_nulls(codes.astype(np.int64), array)


def _of_lists(array: Any) -> Ints:
    """Return the codes of lists, ordered as the tuples of their elements' codes."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    elements = _codes(array.flatten())
    ends = np.cumsum(lengths)
    lists = [tuple(elements[end - length : end].tolist()) for end, length in zip(ends, lengths, strict=True)]
    known = {value: code for code, value in enumerate(sorted(set(lists)))}
    return _with_nulls(np.array([known[value] for value in lists], np.int64), array)


def _dense(codes: Sequence[Ints], rows: int) -> Ints:
    """Return one code for each combination of codes, ordered like the combinations."""
    if not codes:
        return np.zeros(rows, np.int64)
    order = np.lexsort(list(codes)[::-1])
    changed: npt.NDArray[np.bool_] = np.zeros(rows, np.bool_)
    for code in codes:
        changed[1:] |= code[order[1:]] != code[order[:-1]]
    dense = np.empty(rows, np.int64)
    dense[order] = np.cumsum(changed)
    return dense


def _with_nulls(codes: Ints, array: Any) -> Ints:
    if not array.null_count:
        return codes + 1
    return np.where(np.asarray(array.is_null()), 0, codes + 1)
