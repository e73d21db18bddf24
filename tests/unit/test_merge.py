"""Candidates into winners: ties within a slice, across slices, with keys known or asked for."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.kernels.topk import Hits
from hudi_vector.query.merge import SliceHits, Winners, break_ties, merge_hits, order_of_keys
from hudi_vector.read.spec import TIE_COLUMNS

_Hit = tuple[int, float, int]
_Key = tuple[str, str, str]


def hits(*rows: _Hit) -> Hits:
    query, distance, position = zip(*rows, strict=True) if rows else ((), (), ())
    return Hits(np.array(query, np.int64), np.array(distance, np.float64), np.array(position, np.int64))


def key_table(keys: list[_Key]) -> pa.Table:
    columns = [pa.array([key[i] for key in keys], pa.string()) for i in range(3)]
    return pa.table(columns, names=list(TIE_COLUMNS))


def listed(found: Hits) -> list[_Hit]:
    return list(zip(found.query.tolist(), found.distance.tolist(), found.position.tolist(), strict=True))


def won(winners: Winners) -> list[tuple[int, int, int, int]]:
    columns = (winners.query, winners.rank, winners.slice_index, winners.position)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def no_keys(*arguments: object) -> pa.Table:
    raise AssertionError("keys are asked only where distances tie")


def test_without_ties_the_nearest_come_first_and_no_key_is_read() -> None:
    assert listed(break_ties(hits((0, 2.0, 1), (0, 1.0, 5), (1, 3.0, 0)), 2, no_keys)) == [
        (0, 1.0, 5),
        (0, 2.0, 1),
        (1, 3.0, 0),
    ]


def test_ties_at_the_kth_distance_are_decided_by_key() -> None:
    keys = {1: ("b", "p", "1"), 2: ("a", "q", "1"), 3: ("a", "p", "2"), 4: ("a", "p", "1")}
    asked = []

    def keys_of(positions: np.ndarray) -> pa.Table:
        asked.extend(positions.tolist())
        return key_table([keys[position] for position in positions.tolist()])

    found = break_ties(hits((0, 0.5, 9), *((0, 1.0, position) for position in keys)), 3, keys_of)
    assert listed(found) == [(0, 0.5, 9), (0, 1.0, 4), (0, 1.0, 3)]
    assert asked == [1, 2, 3, 4]


def test_without_keys_positions_decide() -> None:
    assert listed(break_ties(hits((0, 1.0, 3), (0, 1.0, 1), (0, 1.0, 2)), 2, lambda positions: None)) == [
        (0, 1.0, 1),
        (0, 1.0, 2),
    ]


def test_no_hits() -> None:
    assert listed(break_ties(hits(), 3, no_keys)) == []
    assert won(merge_hits([], 3, no_keys)) == []
    assert won(merge_hits([SliceHits(0, hits())], 3, no_keys)) == []


def test_keys_are_ordered_by_their_bytes_nulls_first() -> None:
    names = ["b", "ä", "a", "B", "", "z", "\U0001f600", "\uffee"]
    keys = pa.table({"k": pa.array([*names, None])})
    wanted = sorted(names, key=lambda name: name.encode())
    places = order_of_keys(keys).tolist()
    assert places[-1] == 0
    assert [name for _, name in sorted(zip(places, names, strict=False))] == wanted


def test_slices_are_merged_by_distance() -> None:
    parts = [SliceHits(0, hits((0, 2.0, 0), (1, 1.0, 7))), SliceHits(3, hits((0, 1.0, 4), (1, 2.0, 8), (1, 3.0, 9)))]
    assert won(merge_hits(parts, 2, no_keys)) == [(0, 1, 3, 4), (0, 2, 0, 0), (1, 1, 0, 7), (1, 2, 3, 8)]


@pytest.mark.parametrize("known", [(), (0,), (1,), (0, 1)])
def test_ties_across_slices_are_decided_by_key(known: tuple[int, ...]) -> None:
    keys = {(0, 5): ("c", "", ""), (0, 6): ("a", "", ""), (1, 5): ("b", "", ""), (1, 6): ("a", "", "9")}
    parts = []
    for index in (0, 1):
        named = key_table([keys[index, 5], keys[index, 6]]) if index in known else None
        parts.append(SliceHits(index, hits((0, 1.0, 5), (0, 1.0, 6)), named))

    def keys_of(index: int, positions: np.ndarray) -> pa.Table:
        assert index not in known
        return key_table([keys[index, position] for position in positions.tolist()])

    winners = merge_hits(parts, 3, keys_of)
    assert won(winners) == [(0, 1, 0, 6), (0, 2, 1, 6), (0, 3, 1, 5)]
    for place, row in enumerate(winners.key_row.tolist()):
        index, position = int(winners.slice_index[place]), int(winners.position[place])
        assert (row >= 0) == (index in known)
        if row >= 0:
            assert winners.keys is not None
            assert tuple(winners.keys.slice(row, 1).to_pylist()[0].values()) == keys[index, position]


def test_without_keys_slice_and_position_decide() -> None:
    parts = [SliceHits(0, hits((0, 1.0, 9))), SliceHits(1, hits((0, 1.0, 2), (0, 1.0, 1)))]
    assert won(merge_hits(parts, 2, lambda index, positions: None)) == [(0, 1, 0, 9), (0, 2, 1, 1)]


def test_winners_of_a_slice_are_candidates_again() -> None:
    parts = [SliceHits(2, hits((0, 1.0, 5), (1, 2.0, 6)), key_table([("a", "", ""), ("b", "", "")]))]
    again = merge_hits(parts, 2, no_keys).of_slice(2)
    assert listed(again.hits) == [(0, 1.0, 5), (1, 2.0, 6)]
    assert again.keys is not None
    assert again.keys.column(0).to_pylist() == ["a", "b"]
    assert merge_hits([again], 2, no_keys).of_slice(1).keys is None


@given(st.data())
def test_any_split_into_slices_gives_the_winners_of_a_sort(data: st.DataObject) -> None:
    count, k = data.draw(st.integers(0, 25)), data.draw(st.integers(1, 6))
    rows = []
    for number in range(count):
        query, distance = data.draw(st.integers(0, 2)), float(data.draw(st.integers(0, 3)))
        rows.append((query, distance, f"{data.draw(st.integers(0, 4))}", number, data.draw(st.integers(0, 2))))
    key_of = {(row[4], row[3]): (row[2], "", f"{row[3]:03d}") for row in rows}

    def keys_of(index: int, positions: np.ndarray) -> pa.Table:
        return key_table([key_of[index, position] for position in positions.tolist()])

    parts = []
    for index in range(3):
        mine = hits(*((row[0], row[1], row[3]) for row in rows if row[4] == index))
        kept = break_ties(mine, k, lambda positions, index=index: keys_of(index, positions))
        named = keys_of(index, kept.position) if data.draw(st.booleans()) else None
        parts.append(SliceHits(index, kept, named))
    ordered = sorted(rows, key=lambda row: (row[0], row[1], row[2], row[3]))
    wanted = [
        (query, rank, row[4], row[3])
        for query, group in itertools.groupby(ordered, key=lambda row: row[0])
        for rank, row in enumerate(itertools.islice(group, k), 1)
    ]
    assert won(merge_hits(parts, k, keys_of)) == wanted
