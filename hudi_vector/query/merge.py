"""The merge of candidates from many slices into the k rows of each query.

Rows are ordered by distance; rows of equal distance by record key (UTF-8 bytes), partition path and commit sequence
number. In a table without these meta fields they are ordered by file and position, or by the columns that the snapshot
names. In a search for groups, a group is as near as its nearest row, by the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Hits, Ints, rank_within
from hudi_vector.query.row_order import order_of_keys
from hudi_vector.storage import parallel

__all__ = ["SliceHits", "Winners", "break_ties", "merge_hits", "order_of_keys", "within_groups"]

KeysOf = Callable[[npt.NDArray[np.int64]], "pa.Table | None"]
SliceKeysOf = Callable[[int, npt.NDArray[np.int64]], "pa.Table | None"]


@dataclass(frozen=True)
class SliceHits:
    """The candidates of one slice, at most k for each query.

    `keys` has a row for each hit if the slice's positions are not stable, otherwise it is None.
    """

    slice_index: int
    hits: Hits
    keys: pa.Table | None = None

    def take(self, mask: npt.NDArray[np.bool_]) -> SliceHits:
        """Return the candidates where the mask, shape (h,), is True."""
        keys = self.keys.filter(pa.array(mask)) if self.keys is not None else None
        return SliceHits(self.slice_index, self.hits.take(mask), keys)


@dataclass(frozen=True)
class Winners:
    """The rows found, by query and rank; all arrays have shape (w,), ranks begin at 1.

    `key_row` is the row of `keys` that identifies a winner of a merged slice, −1 for other winners. `by_column` and
    `group` are those of the hits; `group_rank` is the rank of each row's group from 1, None in a search for rows.
    """

    query: Ints
    distance: Floats
    rank: Ints
    slice_index: Ints
    position: Ints
    keys: pa.Table | None
    key_row: Ints
    by_column: Floats | None = None
    group: npt.NDArray[Any] | None = None
    group_rank: Ints | None = None

    def __len__(self) -> int:
        return len(self.query)

    @property
    def found_rank(self) -> Ints:
        """Return the rank of each row, or of its group in a search for groups: the numbers that k limits."""
        return self.rank if self.group_rank is None else self.group_rank

    def take(self, chosen: npt.NDArray[Any]) -> Winners:
        """Return the winners at the given indices, or where the mask is True, with their ranks."""

        def of(values: Any) -> Any:
            return None if values is None else values[chosen]

        return Winners(
            self.query[chosen],
            self.distance[chosen],
            self.rank[chosen],
            self.slice_index[chosen],
            self.position[chosen],
            self.keys,
            self.key_row[chosen],
            of(self.by_column),
            of(self.group),
            of(self.group_rank),
        )

    def of_slice(self, index: int) -> SliceHits:
        """Return the winners of one slice in the form of candidates."""
        here = np.flatnonzero(self.slice_index == index)
        hits = Hits(self.query, self.distance, self.position, self.by_column, self.group).take(here)
        named = self.key_row[here]
        keys = self.keys.take(pa.array(named)) if self.keys is not None and len(named) and named[0] >= 0 else None
        return SliceHits(index, hits, keys)

    def parts(self) -> list[SliceHits]:
        """Return the winners of every slice in the form of candidates."""
        return [self.of_slice(int(index)) for index in np.unique(self.slice_index)]


def break_ties(hits: Hits, k: int, keys_of: KeysOf, per_group: int | None = None) -> Hits:
    """Return at most k hits for each query, by query and distance; the rows' keys decide ties at the k-th distance.

    `hits` are all hits of one slice up to the k-th distance. `keys_of` returns the key columns of rows at given
    positions, or None if the table has no keys; positions decide then. With `per_group`, at most as many hits of each
    of k groups are returned, by group.
    """
    if per_group is not None:
        return _group_ties(hits, k, keys_of, per_group)
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


def _group_ties(hits: Hits, k: int, keys_of: KeysOf, per_group: int) -> Hits:
    order, _ = rank_within(hits.query, hits.distance, hits.position)
    hits = hits.take(order)
    chosen, _ = within_groups(hits.query, hits.group, k, per_group)
    if len(chosen) == len(hits):
        return hits.take(chosen)
    place = np.zeros(len(hits), np.int64)
    tied = np.flatnonzero(_neighbours_tie(hits.query, hits.distance))
    if len(tied):
        place[tied] = _places(hits.position[tied], keys_of)
        order, _ = rank_within(hits.query, hits.distance, place, hits.position)
        hits = hits.take(order)
        chosen, _ = within_groups(hits.query, hits.group, k, per_group)
    return hits.take(chosen)


def within_groups(query: Ints, group: Any, k: int, per_group: int) -> tuple[Ints, Ints]:
    """Return which rows are found in a search for groups, by query and group, and the rank of each one's group, from 0.

    The rows are given by the query and the key or code of the group of each, the best first in each query.
    """
    known: dict[Any, int] = {}
    code = np.fromiter((known.setdefault(key, len(known)) for key in group), np.int64, len(query))
    _, first, pair = np.unique(query * (len(known) + 1) + code, return_index=True, return_inverse=True)
    order, rank = rank_within(query[first], first)
    rank_of_pair = np.empty(len(first), np.int64)
    rank_of_pair[order] = rank
    order, rank = rank_within(pair)
    number = np.empty(len(query), np.int64)
    number[order] = rank
    kept = np.flatnonzero((rank_of_pair[pair] < k) & (number < per_group))
    of_group = rank_of_pair[pair[kept]]
    order, _ = rank_within(query[kept], of_group, kept)
    return kept[order], of_group[order]


def _places(positions: Ints, keys_of: KeysOf) -> Ints:
    distinct, inverse = np.unique(positions, return_inverse=True)
    keys = keys_of(distinct)
    ranks = np.arange(len(distinct)) if keys is None else order_of_keys(keys)
    return ranks[inverse]


def merge_hits(parts: Sequence[SliceHits], k: int, keys_of: SliceKeysOf, per_group: int | None = None) -> Winners:
    """Return the k nearest rows of every query from the candidates of all slices, by query and rank.

    `keys_of` returns the key columns of rows of a slice, or None without keys. It is called by threads, for all slices
    at once, and only where distances tie. With `per_group`, at most as many rows of each of the k nearest groups are
    returned, by query, group and distance.
    """
    hits = Hits.joined([part.hits for part in parts])
    query, distance, position = hits.query, hits.distance, hits.position
    slice_index = _joined([np.full(len(part.hits), part.slice_index, np.int64) for part in parts])
    keys, key_row = _known_keys(parts)

    order, _ = rank_within(query, distance)
    same = _neighbours_tie(query[order], distance[order])
    place = np.zeros(len(query), np.int64)
    tied = order[same]
    if len(tied):
        place[tied] = _tie_places(tied, slice_index, position, keys, key_row, keys_of)
    order, rank = rank_within(query, distance, place, slice_index, position)
    group_rank = None
    if per_group is None:
        order, rank = order[rank < k], rank[rank < k]
    else:
        group = hits.group if hits.group is not None else np.empty(0, object)
        chosen, group_rank = within_groups(query[order], group[order], k, per_group)
        order, group_rank = order[chosen], group_rank + 1
        _, rank = rank_within(query[order])
    won = hits.take(order)
    where = slice_index[order], won.position, keys, key_row[order]
    return Winners(won.query, won.distance, rank + 1, *where, won.by_column, won.group, group_rank)


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
    of_slices = [unknown[slice_index[unknown] == index] for index in np.unique(slice_index[unknown])]
    read = parallel.each(lambda here: keys_of(int(slice_index[here[0]]), position[here]), of_slices, decodes=True)
    for table, here in zip(read, of_slices, strict=True):
        if table is None:
            return np.zeros(len(tied), np.int64)  # without keys, slice order and position decide
        tables.append(table)
        rows.append(here)
    places = np.empty(len(position), np.int64)
    places[np.concatenate(rows)] = order_of_keys(pa.concat_tables(tables))
    return places[tied]


def _neighbours_tie(query: Ints, distance: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask of the hits, in order, that have the query and distance of a neighbour."""
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
