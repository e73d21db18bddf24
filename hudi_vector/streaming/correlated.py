"""Filters that depend on the asking row: rows with the same values in the compared columns are searched together."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.read.predicate.change import exchanged, literal_values
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import Column, Literal, walk

__all__ = ["asked_columns", "bound", "groups_of"]

Values = tuple[Hashable, ...]


def asked_columns(predicate: Predicate | None, left: str) -> tuple[Column, ...]:
    """Return the asking row's columns in a predicate, each once; `left` is the asking row's name in the predicate."""
    if predicate is None:
        return ()
    found = [node for node in walk(predicate) if isinstance(node, Column) and node.name == left]
    return tuple(dict.fromkeys(found))


def groups_of(
    rows: pa.Table, at: npt.NDArray[np.int64], asked: tuple[Column, ...]
) -> list[tuple[Values, npt.NDArray[np.int64]]]:
    """Group asking rows by the values of the columns `asked`.

    `at` selects rows. Each group holds the values, as literals hold them, and positions in `at`.
    """
    if not asked:
        return [((), np.arange(len(at)))]
    taken = pa.array(at)
    columns = [literal_values(_column(rows, column).take(taken), column.type) for column in asked]
    groups: dict[Values, list[int]] = {}
    for number, values in enumerate(zip(*columns, strict=True)):
        groups.setdefault(values, []).append(number)
    return [(values, np.array(members, np.int64)) for values, members in groups.items()]


def bound(predicate: Predicate, asked: tuple[Column, ...], values: Values) -> Predicate:
    """Return the condition with the asking row's columns replaced by their values."""
    known = dict(zip(asked, values, strict=True))

    def change(node: Predicate) -> Predicate | None:
        return Literal(known[node], node.type) if isinstance(node, Column) and node in known else None

    return exchanged(predicate, change)


def _column(rows: pa.Table, column: Column) -> pa.ChunkedArray:
    name, *path = column.path
    array = rows.column(name)
    for step in path:
        array = pc.struct_field(array, [step])
    return array
