"""The Arrow side of a batch search: query vectors from query rows, and output rows from the rows found."""

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
    """The rows found: query, distance and rank (from 1) of each, the requested columns, and further columns by name."""

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
    """Return the vectors of the query rows, shape (m, d), float64; the row number of each; and how many rows had none.

    Rows whose vector is NULL or invalid have none. `dimension` is the corpus's dimension, or None if it declares none;
    then the first vector gives the length. `label` is the name of the query rows in messages. Raises
    DimensionMismatchError if a vector has another length.
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
    """Return the output columns from the rows found and the query rows.

    `at` is the query row of each query vector. `unmatched` are query rows without a match that are wanted: each gives
    one output row, in its place among the query rows, with NULL in the columns that the search adds.
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
