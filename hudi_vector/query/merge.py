"""Candidates of many slices into the k rows of each query, in the order of decision 4.

Distance first; rows of equal distance by record key (UTF-8 bytes), partition path and commit sequence number;
where the table keeps no meta fields, by file and position, or by the columns that the snapshot names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Hits, Ints, rank_within
from hudi_vector.query.row_order import order_of_keys

__all__ = ["SliceHits", "Winners", "break_ties", "merge_hits", "order_of_keys"]

KeysOf = Callable[[npt.NDArray[np.int64]], "pa.Table | None"]
SliceKeysOf = Callable[[int, npt.NDArray[np.int64]], "pa.Table | None"]


@dataclass(frozen=True)
class SliceHits:
    """What a slice offers: at most k rows a query. `keys` has a row for each hit where positions do not last."""

    slice_index: int
    hits: Hits
    keys: pa.Table | None = None


@dataclass(frozen=True)
class Winners:
    """The rows found, by query and rank; all arrays have shape (w,), ranks begin at 1.

    `key_row` is the row of `keys` that names a winner of a merged slice, −1 for the others.
    """

    query: Ints
    distance: Floats
    rank: Ints
    slice_index: Ints
    position: Ints
    keys: pa.Table | None
    key_row: Ints

    def __len__(self) -> int:
        return len(self.query)

    def of_slice(self, index: int) -> SliceHits:
        """The winners of one slice, as candidates again."""
        here = np.flatnonzero(self.slice_index == index)
        hits = Hits(self.query[here], self.distance[here], self.position[here])
        named = self.key_row[here]
        keys = self.keys.take(pa.array(named)) if self.keys is not None and len(named) and named[0] >= 0 else None
        return SliceHits(index, hits, keys)

    def parts(self) -> list[SliceHits]:
        """The winners of every slice, as candidates again."""
        return [self.of_slice(int(index)) for index in np.unique(self.slice_index)]


def break_ties(hits: Hits, k: int, keys_of: KeysOf) -> Hits:
    """At most k hits a query: ties at the k-th distance are decided by the rows' keys.

    Args:
        hits: All hits of one slice up to the k-th distance of each query.
        k: How many are wanted.
        keys_of: The key columns of rows at given positions; None if the table keeps no keys.

    Returns:
        The hits, by query and distance.
    """
    order, rank = rank_within(hits.query, hits.distance, hits.position)
    hits = hits.take(order)
    if not len(rank) or rank.max() < k:
        return hits
    last = np.full(int(hits.query.max()) + 1, np.inf)
    last[hits.query[rank == k - 1]] = hits.distance[rank == k - 1]
    crowded = np.zeros(len(last), np.bool_)
    crowded[hits.query[rank >= k]] = True
    tied = np.flatnonzero(crowded[hits.query] & (hits.distance == last[hits.query]))
    place = np.zeros(len(hits), np.int64)
    place[tied] = _places(hits.position[tied], keys_of)
    order, rank = rank_within(hits.query, hits.distance, place)
    return hits.take(order[rank < k])


def _places(positions: Ints, keys_of: KeysOf) -> Ints:
    distinct, inverse = np.unique(positions, return_inverse=True)
    keys = keys_of(distinct)
    ranks = np.arange(len(distinct)) if keys is None else order_of_keys(keys)
    return ranks[inverse]


def merge_hits(parts: Sequence[SliceHits], k: int, keys_of: SliceKeysOf) -> Winners:
    """The k nearest rows of every query, from the candidates of all slices.

    Args:
        parts: The candidates, slice by slice.
        k: How many rows a query gets at the most.
        keys_of: The key columns of rows of a slice, asked only where distances tie.

    Returns:
        The winners, by query and rank.
    """
    query = _joined([part.hits.query for part in parts])
    distance = np.concatenate([np.empty(0, np.float64), *(part.hits.distance for part in parts)])
    position = _joined([part.hits.position for part in parts])
    slice_index = _joined([np.full(len(part.hits), part.slice_index, np.int64) for part in parts])
    keys, key_row = _known_keys(parts)

    order, _ = rank_within(query, distance)
    same = _neighbours_tie(query[order], distance[order])
    place = np.zeros(len(query), np.int64)
    tied = order[same]
    if len(tied):
        place[tied] = _tie_places(tied, slice_index, position, keys, key_row, keys_of)
    order, rank = rank_within(query, distance, place, slice_index, position)
    order, rank = order[rank < k], rank[rank < k]
    return Winners(query[order], distance[order], rank + 1, slice_index[order], position[order], keys, key_row[order])


def _tie_places(
    tied: Ints, slice_index: Ints, position: Ints, keys: pa.Table | None, key_row: Ints, keys_of: SliceKeysOf
) -> Ints:
    tables: list[pa.Table] = []
    rows: list[Ints] = []
    known = tied[key_row[tied] >= 0]
    if len(known):
        assert keys is not None
        tables.append(keys.take(pa.array(key_row[known])))
        rows.append(known)
    unknown = tied[key_row[tied] < 0]
    for index in np.unique(slice_index[unknown]):
        here = unknown[slice_index[unknown] == index]
        table = keys_of(int(index), position[here])
        if table is None:
            return np.zeros(len(tied), np.int64)  # slice order and position decide
        tables.append(table)
        rows.append(here)
    places = np.empty(len(position), np.int64)
    places[np.concatenate(rows)] = order_of_keys(pa.concat_tables(tables))
    return places[tied]


def _neighbours_tie(query: Ints, distance: Floats) -> npt.NDArray[np.bool_]:
    """Which hits, in order, have the query and distance of a neighbour."""
    equal = (query[1:] == query[:-1]) & (distance[1:] == distance[:-1])
    return np.concatenate((equal, [False])) | np.concatenate(([False], equal)) if len(query) else equal.astype(np.bool_)


def _known_keys(parts: Sequence[SliceHits]) -> tuple[pa.Table | None, Ints]:
    tables, rows, done = [], [], 0
    for part in parts:
        if part.keys is None:
            rows.append(np.full(len(part.hits), -1, np.int64))
            continue
        rows.append(np.arange(done, done + len(part.hits), dtype=np.int64))
        tables.append(part.keys)
        done += len(part.hits)
    return pa.concat_tables(tables) if tables else None, _joined(rows)


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)
