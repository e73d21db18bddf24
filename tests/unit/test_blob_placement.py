"""Where blobs go, by their sizes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.blobs.settings import MAX_INLINE_SIZE, BlobSettings
from hudi_vector.blobs.storing.placement import IN_CONTAINER, IN_OWN_FILE, IN_ROW, NOWHERE, place


def placed(sizes: list[int], **settings: int) -> list[int]:
    return place(np.array(sizes, np.int64), BlobSettings(**settings)).tolist()


def test_around_every_bound() -> None:
    sizes = [-1, 0, 99, 100, 101, 999, 1000, 1001]
    assert placed(sizes, inline_threshold=100, max_element_size=1000) == [
        NOWHERE,
        IN_ROW,
        IN_ROW,
        IN_CONTAINER,
        IN_CONTAINER,
        IN_CONTAINER,
        IN_CONTAINER,
        IN_OWN_FILE,
    ]


def test_a_threshold_of_zero_puts_everything_out_of_line() -> None:
    assert placed([-1, 0, 1], inline_threshold=0) == [NOWHERE, IN_CONTAINER, IN_CONTAINER]


def test_a_threshold_above_the_element_size_leaves_no_containers() -> None:
    assert placed([5, 49, 50], inline_threshold=50, max_element_size=10) == [IN_ROW, IN_ROW, IN_OWN_FILE]


def test_no_rows() -> None:
    assert placed([]) == []


@given(
    st.lists(st.integers(-1, 2**31 - 1)),
    st.integers(0, MAX_INLINE_SIZE),
    st.integers(1, 256 << 20),
)
def test_it_is_what_the_rule_says(sizes: list[int], threshold: int, element: int) -> None:
    def rule(size: int) -> int:
        if size < 0:
            return NOWHERE
        if size < threshold:
            return IN_ROW
        return IN_CONTAINER if size <= element else IN_OWN_FILE

    found = placed(sizes, inline_threshold=threshold, max_element_size=element)
    assert found == [rule(size) for size in sizes]
    assert all(place != IN_ROW for size, place in zip(sizes, found, strict=True) if size > MAX_INLINE_SIZE)
