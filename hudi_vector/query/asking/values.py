"""Conditions that depend on the asking row: rows with the same values in the compared columns are searched together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.kernels.topk import Ints
from hudi_vector.read.predicate.change import exchanged, literal_values
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import Column, Literal, walk

__all__ = [
    "LEFT_MARK",
    "Values",
    "alike",
    "asked_columns",
    "bound",
    "codes",
    "groups_of",
    "left_columns",
    "of_left",
    "values_at",
]

LEFT_MARK = "\0l."
"""The prefix of the names of the asking row's columns in conditions, and in tables with columns of both sides."""

Values = tuple[Hashable, ...]
"""The values of the asking row in a condition, as literals hold them."""


def of_left(field: Column) -> Column:
    """Return a field of the struct of the asking row as a column of that row, with `LEFT_MARK`."""
    return Column(LEFT_MARK + field.path[0], field.type, field.path[1:])


def asked_columns(predicate: Predicate | None) -> tuple[Column, ...]:
    """Return the asking row's columns, and fields of them, that a condition compares with, each once."""
    found = [] if predicate is None else list(walk(predicate))
    return tuple(dict.fromkeys(n for n in found if isinstance(n, Column) and n.name.startswith(LEFT_MARK)))


def left_columns(predicate: Predicate | None) -> set[str]:
    """Return the names of the asking row's columns in a condition, without the mark."""
    return {column.name.removeprefix(LEFT_MARK) for column in asked_columns(predicate)}


def bound(predicate: Predicate, asked: Sequence[Column], values: Values) -> Predicate:
    """Return the condition with the asking row's columns replaced by their values."""
    known = dict(zip(asked, values, strict=True))

    def change(node: Predicate) -> Predicate | None:
        return Literal(known[node], node.type) if isinstance(node, Column) and node in known else None

    return exchanged(predicate, change)


def groups_of(rows: pa.Table, at: Ints, asked: Sequence[Column]) -> list[tuple[Values, Ints]]:
    """Group asking rows by the values of the columns `asked`, in the order of the first row of each group.

    `at` selects rows. Each group holds the values and positions in `at`.
    """
    groups = alike(rows, at, asked)
    values = values_at(rows, np.array([at[members[0]] for members in groups], np.int64), asked)
    return list(zip(values, groups, strict=True))


def alike(rows: pa.Table, at: Ints, asked: Sequence[Column]) -> list[Ints]:
    """Group asking rows as `groups_of` does, but return only the positions in `at`, ascending in each group."""
    if not asked or not len(at):
        return [np.arange(len(at))] if len(at) else []
    taken = pa.array(at)
    every = np.stack([codes(_of_rows(rows, column).take(taken)) for column in asked])
    _, first, group = np.unique(every, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first[group.ravel()], kind="stable")
    ends = np.cumsum(np.bincount(group.ravel())[np.argsort(first)])[:-1]
    return list(np.split(order, ends))


def values_at(rows: pa.Table, at: Ints, asked: Sequence[Column]) -> list[Values]:
    """Return the values of the columns `asked` in the selected rows."""
    taken = pa.array(at)
    columns = [literal_values(_of_rows(rows, column).take(taken), column.type) for column in asked]
    return list(zip(*columns, strict=True)) if columns else [()] * len(at)


def _of_rows(rows: pa.Table, column: Column) -> pa.ChunkedArray:
    array = rows.column(column.name.removeprefix(LEFT_MARK))
    for field in column.path:
        array = pc.struct_field(array, [field])
    return array


def codes(column: pa.ChunkedArray) -> Ints:
    """Return a code from 0 for each value of a column, shape (rows,); equal values have equal codes, and so have NULLs.

    Example:
        >>> codes(pa.chunked_array([["b", "a", None, "b"]])).tolist()
        [0, 1, 2, 0]
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    if pa.types.is_nested(array.type):
        array = pa.array([repr(value) for value in array.to_pylist()], pa.string())
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array, null_encoding="encode")
    return np.asarray(array.indices.fill_null(-1)).astype(np.int64)
