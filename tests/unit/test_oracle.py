"""The oracle of searches refuses wrong answers, those among rows that are as far up to rounding too."""

from __future__ import annotations

import pytest
from support.oracle import Ranking, assert_ranked

# Three rows that rounding may bring into any order, two that are exactly as far, and at last two of which k takes one.
ORDERED = [(1.0, "a"), (1.0 + 1e-12, "b"), (1.0 + 2e-12, "c"), (2.0, "d"), (2.0, "e"), (3.0, "f"), (3.0 + 1e-12, "g")]
EXPECTED = Ranking([*ORDERED, (4.0, "h")], [1.0] * 8, 6)


def assert_names(names: str) -> None:
    assert_ranked([row[0] for row in ORDERED[:6]], [(name,) for name in names], EXPECTED)


@pytest.mark.parametrize("names", ["abcdef", "cabdef", "bacdeg"])
def test_rounding_may_bring_rows_into_another_order(names: str) -> None:
    assert_names(names)


@pytest.mark.parametrize("names", ["abcedf", "abxdef", "aacdef", "abcdeh", "abgdef", "abcde"])
def test_any_other_row_or_order_is_wrong(names: str) -> None:
    with pytest.raises(AssertionError):
        assert_names(names)


def test_distances_are_close_and_in_order() -> None:
    rows = [(name,) for name in "abcdef"]
    far = [row[0] for row in ORDERED[:6]]
    for wrong in ([1.0 + 1e-5, *far[1:]], [*far[:3], 2.0 + 1e-7, *far[4:]]):
        with pytest.raises(AssertionError):
            assert_ranked(wrong, rows, EXPECTED)


def test_nothing_is_found_where_nothing_is() -> None:
    assert_ranked([], [], Ranking([], [], 3))
