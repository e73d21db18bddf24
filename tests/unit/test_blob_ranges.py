"""Which reads get which ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.storage.ranges import Reads, plan_reads, sparing_gap


def plan(ranges: list[tuple[int, int, int]], max_gap: int = 0, max_read: int = 1 << 20) -> Reads:
    """Plan (file, offset, length) of rows whose bytes follow one another in the output."""
    file, offset, length = np.array(ranges, np.int64).reshape(-1, 3).T
    return plan_reads(file, offset, length, np.cumsum(length) - length, max_gap=max_gap, max_read=max_read)


def shown(reads: Reads) -> list[tuple[int, int, int, list[int]]]:
    """(file, offset, length, rows) of each read."""
    places = zip(reads.file.tolist(), reads.offset.tolist(), reads.length.tolist(), strict=True)
    return [(*place, reads.rows(index).tolist()) for index, place in enumerate(places)]


@pytest.mark.parametrize(
    ("what", "ranges", "max_gap", "wanted"),
    [
        ("nothing", [], 10, []),
        ("no bytes", [(0, 5, 0), (1, 0, 0)], 10, []),
        ("one", [(3, 7, 2)], 10, [(3, 7, 2, [0])]),
        ("touching", [(0, 0, 5), (0, 5, 5)], 0, [(0, 0, 10, [0, 1])]),
        ("at the gap", [(0, 0, 5), (0, 9, 1)], 4, [(0, 0, 10, [0, 1])]),
        ("past the gap", [(0, 0, 5), (0, 9, 1)], 3, [(0, 0, 5, [0]), (0, 9, 1, [1])]),
        ("any order", [(0, 9, 1), (0, 0, 5), (0, 6, 2)], 1, [(0, 0, 10, [0, 1, 2])]),
        ("overlapping", [(0, 0, 6), (0, 4, 6)], 0, [(0, 0, 10, [0, 1])]),
        ("the same twice", [(0, 4, 6), (0, 4, 6)], 0, [(0, 4, 6, [0, 1])]),
        ("nested, then near the outer end", [(0, 0, 100), (0, 10, 5), (0, 101, 4)], 1, [(0, 0, 105, [0, 1, 2])]),
        ("nested, then far from the outer end", [(0, 0, 100), (0, 10, 5), (0, 102, 4)], 1, [(0, 0, 100, [0, 1]), (0, 102, 4, [2])]),
        ("other files", [(1, 5, 5), (0, 0, 5), (1, 0, 5)], 9, [(0, 0, 5, [1]), (1, 0, 10, [0, 2])]),
        ("a long range in the file before", [(0, 0, 900), (1, 10, 5), (1, 40, 5)], 0, [(0, 0, 900, [0]), (1, 10, 5, [1]), (1, 40, 5, [2])]),
        ("a zero length between", [(0, 0, 5), (0, 5, 0), (0, 5, 5)], 0, [(0, 0, 10, [0, 2])]),
        ("ends of int64", [(0, 2**63 - 11, 10), (0, 0, 1)], 9, [(0, 0, 1, [1]), (0, 2**63 - 11, 10, [0])]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_reads(what: str, ranges: list, max_gap: int, wanted: list) -> None:
    assert shown(plan(ranges, max_gap)) == wanted


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        # Ten bytes at most: what fits in one read is in one read.
        ([(0, 0, 4), (0, 4, 6), (0, 10, 1)], [(0, 0, 10, [0, 1]), (0, 10, 1, [2])]),
        ([(0, 0, 4), (0, 5, 4), (0, 11, 2)], [(0, 0, 9, [0, 1]), (0, 11, 2, [2])]),
        # A longer range is read in parts, and what is left of it goes with its neighbours.
        ([(0, 0, 25)], [(0, 0, 10, [0]), (0, 10, 10, [0]), (0, 20, 5, [0])]),
        ([(0, 0, 25), (0, 26, 3)], [(0, 0, 10, [0]), (0, 10, 10, [0]), (0, 20, 9, [0, 1])]),
        # A nested range is served where it begins.
        ([(0, 0, 20), (0, 12, 4)], [(0, 0, 10, [0]), (0, 10, 10, [0, 1])]),
        ([(0, 0, 10), (0, 3, 9)], [(0, 0, 10, [0]), (0, 3, 9, [1])]),
    ],
)
def test_a_read_has_a_largest_size(ranges: list, wanted: list) -> None:
    assert shown(plan(ranges, max_gap=2, max_read=10)) == wanted


def test_overlapping_reads_are_marked() -> None:
    ranges = [(0, 0, 6), (0, 4, 6), (1, 0, 6), (1, 6, 6), (2, 0, 6), (3, 0, 6), (3, 0, 6)]
    assert plan(ranges).overlapping.tolist() == [True, False, False, True]


def test_neighbours_in_file_and_output_are_one_run() -> None:
    reads = plan([(0, 10, 5), (0, 15, 5), (0, 20, 5), (0, 5, 5), (0, 27, 1), (1, 0, 3)], max_gap=4)
    runs = list(zip(reads.run_source.tolist(), reads.run_target.tolist(), reads.run_size.tolist(), strict=True))
    assert runs == [(5, 15, 5), (10, 0, 15), (27, 20, 1), (0, 21, 3)]
    assert reads.first_run.tolist() == [0, 3, 4]


def test_a_container_in_key_order_is_one_run_per_read() -> None:
    rows = [(0, 20_000 * row, 20_000) for row in range(20_000)]
    reads = plan(rows, max_read=8 << 20)
    assert len(reads) == len(reads.run_size) == -(-20_000 // ((8 << 20) // 20_000))
    assert reads.run_size.sum() == 20_000 * 20_000


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 200), st.integers(0, 30)), max_size=12),
    st.integers(0, 90),
    st.integers(0, 99),
)
def test_a_sparing_gap_is_the_widest_that_reads_no_more_between_ranges_than_of_them(
    ranges: list[tuple[int, int, int]], most: int, spare: int
) -> None:
    def unwanted(max_gap: int) -> int:
        return int(plan(ranges, max_gap).length.sum()) - len(wanted)

    file, offset, length = np.array(ranges, np.int64).reshape(-1, 3).T
    wanted = {(f, byte) for f, begin, count in ranges for byte in range(begin, begin + count)}
    gap, afforded = sparing_gap(file, offset, length, most, spare), max(len(wanted), spare)
    assert 0 <= gap <= most
    assert unwanted(gap) <= afforded
    assert all(unwanted(wider) > afforded or unwanted(wider) == unwanted(gap) for wider in range(gap + 1, most + 1))
