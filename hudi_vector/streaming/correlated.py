"""Filters that depend on the row that asks: rows with the same values of its columns are searched together."""

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
    """The columns of the row that asks in a predicate.

    Args:
        predicate: A condition, or None.
        left: What the predicate calls that row.

    Returns:
        Each column once.
    """
    if predicate is None:
        return ()
    found = [node for node in walk(predicate) if isinstance(node, Column) and node.name == left]
    return tuple(dict.fromkeys(found))


def groups_of(
    rows: pa.Table, at: npt.NDArray[np.int64], asked: tuple[Column, ...]
) -> list[tuple[Values, npt.NDArray[np.int64]]]:
    """Rows that ask, by the values of the columns that a filter compares with.

    Args:
        rows: The rows.
        at: Those of them that are wanted.
        asked: The columns.

    Returns:
        The values of the columns, as literals hold them, and which of the wanted rows have them.
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
    """The condition for rows that have certain values.

    Args:
        predicate: A condition.
        asked: The columns of the row that asks.
        values: Their values.

    Returns:
        The condition with the values in the place of the columns.
    """
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
