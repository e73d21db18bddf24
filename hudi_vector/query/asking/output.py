"""The output of rows that ask: its columns, the rows found, and the assembly of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.topk import Ints

__all__ = ["Column", "Found", "assemble", "sources", "unmatched"]


@dataclass(frozen=True)
class Found:
    """The rows found: query, distance and rank (from 1) of each, the requested columns, and further columns by name."""

    query: npt.NDArray[np.int64]
    distance: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]
    rows: pa.Table
    added: Mapping[str, pa.Array] = field(default_factory=dict)

    @classmethod
    def nothing(cls) -> Found:
        """Return the answer without rows, which has no columns either."""
        return cls(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), pa.table({}))


@dataclass(frozen=True)
class Column:
    """An output column: its name, the side it comes from, and its name there.

    Sides are ``query``, ``corpus``, ``index``, ``distance``, ``rank``, and ``added`` for others that the search adds.
    """

    name: str
    side: str
    source: str


def sources(columns: Sequence[Column], side: str) -> list[str]:
    """Return the names that the columns of one side have there, each once."""
    return list(dict.fromkeys(column.source for column in columns if column.side == side))


def unmatched(matched: Ints, begin: int, end: int) -> Ints:
    """Return the rows from `begin` to `end` (exclusive) that are not in `matched`, ascending."""
    alone = np.ones(end - begin, np.bool_)
    alone[matched - begin] = False
    return begin + np.flatnonzero(alone)


def assemble(
    columns: Sequence[Column], found: Found, rows: pa.Table, at: Ints, unmatched: Ints | None = None
) -> pa.Table:
    """Return the output columns from the rows found and the rows that ask, in the order of the latter and by rank.

    `at` is the asking row of each query. `unmatched` are asking rows without a match that are wanted: each gives one
    output row, in its place, with NULL in the columns that the search finds. If nothing is found, these columns may be
    missing from `found`, and are then NULL of Arrow's null type.
    """
    asking = at[found.query]
    place: Any = None
    if unmatched is not None and len(unmatched):
        both = np.concatenate([asking, unmatched])
        order = np.argsort(both, kind="stable")
        place = pa.array(order, mask=order >= len(asking))
        asking = both[order]
    taken = pa.array(asking)
    out: list[Any] = []
    for column in columns:
        if column.side == "query":
            out.append(rows.column(column.source).take(taken))
        elif column.side == "index":
            out.append(rows.column(column.source).take(taken) if column.source else taken)
        else:
            values = _of_found(column, found)
            out.append(values if place is None else values.take(place))
    return pa.table(out, names=[column.name for column in columns])


def _of_found(column: Column, found: Found) -> Any:
    if column.side == "rank":
        return pa.array(found.rank.astype(np.int32))
    if column.side == "distance":
        return pa.array(found.distance)
    rows = dict(zip(found.rows.column_names, found.rows.columns, strict=True))
    held = found.added if column.side == "added" else rows
    return held[column.source] if len(found.query) else held.get(column.source, pa.nulls(0))
