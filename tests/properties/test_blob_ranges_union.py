"""Bytes that ranges cover equal a set of bytes, whatever overlaps, touches or is empty."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.blobs.counts.cover import covered_bytes

FILES = 3
ranges = st.lists(st.tuples(st.integers(0, FILES - 1), st.integers(0, 40), st.integers(0, 15)), max_size=25)


@given(ranges)
def test_covered_bytes_are_a_set_of_bytes(given_ranges: list[tuple[int, int, int]]) -> None:
    file, begin, size = np.array(given_ranges, np.int64).reshape(-1, 3).T
    covered = covered_bytes(file, begin, begin + size, FILES)
    bytes_of = [
        {place for f, b, n in given_ranges if f == number for place in range(b, b + n)} for number in range(FILES)
    ]
    assert covered.tolist() == [len(places) for places in bytes_of]
    assert covered.dtype == np.int64


@given(ranges, st.randoms(use_true_random=False))
def test_their_order_does_not_matter(given_ranges: list[tuple[int, int, int]], random) -> None:
    shuffled = random.sample(given_ranges, len(given_ranges))
    first, second = (
        covered_bytes(file, begin, begin + size, FILES)
        for file, begin, size in (np.array(some, np.int64).reshape(-1, 3).T for some in (given_ranges, shuffled))
    )
    assert first.tolist() == second.tolist()


def test_ranges_beyond_32_bits() -> None:
    far = np.array([0, 1 << 40, (1 << 40) + 5], np.int64)
    assert covered_bytes(np.zeros(3, np.int64), far, far + 10, 1).tolist() == [25]
