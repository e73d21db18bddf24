"""Query rows in, output rows out: what a batch search does with Arrow on either side of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import DimensionMismatchError
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of

__all__ = ["Column", "Found", "assemble", "query_vectors"]


@dataclass(frozen=True)
class Found:
    """Rows found: for each its query, its distance, its rank from 1, the columns asked for, and others by name."""

    query: npt.NDArray[np.int64]
    distance: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]
    rows: pa.Table
    added: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """An output column: its name, the side it comes from, and its name there.

    Sides are ``query``, ``corpus``, ``index``, ``distance``, ``rank``, and ``added`` for others that the search adds.
    """

    name: str
    side: str
    source: str


def query_vectors(
    rows: pa.Table, column: VectorColumn, label: str, dimension: int | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], int]:
    """The vectors of the rows that ask.

    Args:
        rows: The query rows, the vectors among their columns.
        column: Which column that is.
        label: How messages name the query rows.
        dimension: The corpus's dimension, if it has one.

    Returns:
        Vectors, shape (m, d), float64; the row each stands in; and how many rows had none that is usable.

    Raises:
        DimensionMismatchError: A row's vector has another length than the corpus.
    """
    array = rows.column(column.name)
    chunk = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    lengths = np.asarray(pc.list_value_length(chunk.drop_null())) if len(chunk) else np.empty(0, np.int64)
    expected = dimension or (int(lengths[0]) if len(lengths) else 0)
    wrong = lengths[lengths != expected]
    if len(wrong):
        raise DimensionMismatchError(
            f"{len(wrong)} rows of '{label}' have query vectors of other lengths (such as "
            f"{int(wrong[0])}) than {expected}; give vectors of one length, that of the searched column"
        )
    counts = ScanCounts()
    sized = replace(column, dimension=expected, is_vector=False)
    block = block_of(chunk, sized, np.arange(len(chunk), dtype=np.int64), counts)
    return block.values.astype(np.float64), block.positions, counts.nulls + counts.invalid


def assemble(
    columns: Sequence[Column],
    found: Found,
    rows: pa.Table,
    at: npt.NDArray[np.int64],
    unmatched: npt.NDArray[np.int64] | None = None,
) -> pa.Table:
    """Output columns from what was found and the rows that asked.

    Args:
        columns: The output columns, in order.
        found: The rows found.
        rows: The query rows.
        at: The query row of each query vector.
        unmatched: Query rows for which nothing was found and that are wanted all the same.

    Returns:
        A row for each row found; one for each unmatched row, in its place among the query rows, NULL in what the
        search adds.
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
            index = rows.column(column.source).take(taken) if column.source else taken
            out.append(index)
        else:
            values = _of_found(column, found)
            out.append(values if place is None else values.take(place))
    return pa.table(out, names=[column.name for column in columns])


def _of_found(column: Column, found: Found) -> Any:
    if column.side == "corpus":
        return found.rows.column(column.source)
    if column.side == "added":
        return found.added[column.source]
    return pa.array(found.rank.astype(np.int32)) if column.side == "rank" else pa.array(found.distance)
