"""Codes of one byte: what they stand for is near, and what lies outside of the range is told."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.kernels import quantise


@given(st.integers(1, 50), st.integers(1, 9), st.integers(-12, 12), st.floats(-1e6, 1e6), st.integers(0, 99))
def test_what_was_trained_on_is_within_half_a_level(
    rows: int, dimension: int, power: int, offset: float, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    values = chance.normal(size=(rows, dimension)) * 10.0**power + offset
    values[:, 0] = offset
    low, scale = quantise.ranges(values)
    codes, clipped = quantise.encode(values, low, scale)
    assert not clipped.any()
    assert scale[0] == 0
    assert (codes[:, 0] == 0).all()
    off = np.abs(quantise.decode(codes, low, scale) - values)
    assert (off[:, 1:] <= scale[1:] * (0.5 + 1e-6) + np.abs(values[:, 1:]) * 1e-7 + 1e-44).all()
    assert (off[:, 0] <= abs(offset) * 1e-7 + 1e-44).all()


def test_what_lies_outside_is_clipped_and_told() -> None:
    low, scale = quantise.ranges(np.array([[0.0, 5.0, -1.0], [1.0, 5.0, 1.0]]))
    rows = np.array([[0.5, 5, 0], [-1, 5, 0], [0.5, 5, 9], [0.5, 4, 0], [1, 5, 1], [0, 5, -1]])
    codes, clipped = quantise.encode(rows, low, scale)
    assert clipped.tolist() == [False, True, True, True, False, False]
    assert codes[1, 0] == 0
    assert codes[2, 2] == 255
    assert np.allclose(quantise.decode(codes, low, scale)[[1, 2, 3]], [[0, 5, 0], [0.5, 5, 1], [0.5, 5, 0]], atol=0.01)
