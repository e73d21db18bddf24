"""How slices are divided among tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.workers import balanced


@pytest.mark.parametrize(
    ("sizes", "groups", "wanted"),
    [
        ([], 3, []),
        ([5], 3, [[0]]),
        ([1, 2, 3], 1, [[2, 1, 0]]),
        ([5, 1, 4], 2, [[0], [2, 1]]),
        ([7, 7, 7], 3, [[0], [1], [2]]),
    ],
)
def test_items_are_divided(sizes: list[int], groups: int, wanted: list[list[int]]) -> None:
    assert balanced(sizes, groups) == wanted


@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 8))
def test_every_item_is_in_one_group_of_nearly_equal_size(sizes: list[int], groups: int) -> None:
    found = balanced(sizes, groups)
    assert sorted(index for group in found for index in group) == list(range(len(sizes)))
    assert len(found) == min(groups, len(sizes))
    if sizes:
        loads = [sum(sizes[index] for index in group) for group in found]
        assert max(loads) <= sum(sizes) / groups + max(sizes)
