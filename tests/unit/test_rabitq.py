"""Bits of rotated vectors: what they stand for, how far that is off, and what their products with queries are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.indexed import fingerprint, segment_of, vectors

from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.kinds.segment import Segment
from hudi_vector.kernels import rabitq
from hudi_vector.kernels.rotation import rotated

DIMENSIONS = st.sampled_from([1, 2, 3, 7, 8, 17, 64, 100, 384])


def rows_of(seed: int, dimension: int, spread: float = 3.0) -> np.ndarray:
    """Rows of many lengths, the first one of zeros, the second one with a single element."""
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(40, dimension)) * np.exp(spread * chance.normal(size=(40, 1)))
    rows[:2] = 0
    rows[1, -1] = -7.5
    return rows


@given(st.integers(0, 1000), DIMENSIONS)
def test_a_rotation_keeps_lengths_and_products(seed: int, dimension: int) -> None:
    rows = rows_of(seed, dimension)
    turned = rotated(rows)
    scale = np.linalg.norm(rows, axis=1)
    assert (np.abs(turned @ turned.T - rows @ rows.T) <= 1e-12 * np.outer(scale, scale)).all()
    assert np.allclose(rotated(rows[3:4]), turned[3:4], rtol=1e-12, atol=1e-12 * scale.max())


def test_a_rotation_spreads_what_lies_in_one_element() -> None:
    """Also for a dimension that is no power of two; and it never changes, since codes are stored."""
    turned = rotated(np.eye(192))
    assert np.abs(turned).max() < 0.5
    assert rotated(np.eye(5))[0].tolist() == [-0.625, 0.3125, -0.0625, -0.5625, -0.4375]


@given(st.integers(0, 1000), DIMENSIONS, st.sampled_from(rabitq.BITS))
def test_a_code_says_how_far_it_is_off(seed: int, dimension: int, bits: int) -> None:
    rows = rows_of(seed, dimension)
    codes = rabitq.encode(rows, bits)
    assert codes.shape == (40, rabitq.code_bytes(dimension, bits))
    assert rabitq.is_sound(codes)
    found = rabitq.decode(codes, dimension, bits)
    off = np.linalg.norm(rows - found.rows, axis=1)
    assert (off <= found.error * (1 + 1e-6)).all()
    assert (found.error <= off * 1.1 + 0.1 * np.linalg.norm(rows, axis=1)).all()
    assert found.rows[0].tolist() == [0.0] * dimension
    # What a code lacks of its vector is at right angles to the vector, but for the rounding of its two numbers.
    squares = (rows**2).sum(axis=1)
    assert np.allclose((rows * found.rows).sum(axis=1)[2:], squares[2:], rtol=0.03)


@given(st.integers(0, 1000), DIMENSIONS)
def test_products_are_looked_up(seed: int, dimension: int) -> None:
    codes = rabitq.encode(rows_of(seed, dimension, 1.0), 1)
    weights = np.random.default_rng(seed).normal(size=dimension).astype(np.float32)
    expected = rabitq.decode(codes, dimension, 1).rows.astype(np.float64) @ weights
    made = rabitq.products(codes, rabitq.tables(weights), dimension)
    scale = np.linalg.norm(weights) * np.linalg.norm(rabitq.decode(codes, dimension, 1).rows, axis=1)
    assert (np.abs(made - expected) <= 1e-5 * scale).all()


@pytest.mark.parametrize(("bits", "most"), [(1, 0.10), (2, 0.05), (4, 0.015)])
def test_estimates_are_right_on_average(bits: int, most: float) -> None:
    """Over many rows and queries the error of a product has no drift, and shrinks with the bits."""
    chance = np.random.default_rng(0)
    rows, queries = rotated(chance.normal(size=(500, 100))), rotated(chance.normal(size=(50, 100)))
    lengths = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(rows, axis=1))
    off = (queries @ (rabitq.decode(rabitq.encode(rows, bits), 100, bits).rows - rows).T) / lengths
    assert abs(off.mean()) < most / 50
    assert off.std() < most


@pytest.mark.parametrize("change", [(0, 255), (1, 255), (2, 255)])
def test_numbers_that_no_vector_has_are_known(change: tuple[int, int]) -> None:
    codes = rabitq.encode(np.ones((3, 8)), 1)
    codes[1, change[0]] = change[1]
    assert rabitq.is_sound(codes) == (change[0] == 0)


def test_a_segment_whose_codes_no_vector_has_is_refused() -> None:
    values = vectors("normal", 60, 8, "float", 1)
    model = train_model(values, kind="ivf_rabitq", metric="l2", element="float", num_partitions=3)
    made = segment_of(model, values)
    arrays = {name: getattr(made, name).copy() for name in Segment.stored(model)}
    header, file = {"rows": 60, "clipped": 0}, fingerprint("a_0_1.parquet")
    read = Segment.of(model, file, header, arrays)
    assert (read.square.tolist(), read.error.tolist()) == (made.square.tolist(), made.error.tolist())
    arrays["codes"][3, 1] = 255
    with pytest.raises(ValueError, match="numbers that no vector has"):
        Segment.of(model, file, header, arrays)
    arrays["codes"] = arrays["codes"][:-1]
    with pytest.raises(ValueError, match="not as many codes as positions"):
        Segment.of(model, file, header, arrays)
