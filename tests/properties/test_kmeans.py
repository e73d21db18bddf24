"""Coarse clusters of vectors, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.kernels import kmeans


@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 12), st.integers(0, 5))
def test_each_vector_has_its_nearest_centre(rows: int, dimension: int, clusters: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(rows, dimension)).astype(np.float32)
    centres = chance.normal(size=(clusters, dimension)).astype(np.float32)
    distances = ((vectors[:, None, :].astype(np.float64) - centres) ** 2).sum(axis=2)
    found = kmeans.nearest(vectors, centres)
    assert np.allclose(distances[np.arange(rows), found], distances.min(axis=1), atol=1e-4)


@given(st.integers(1, 40), st.integers(1, 6), st.data())
def test_training_moves_centres_to_the_means_of_their_vectors(rows: int, dimension: int, data: st.DataObject) -> None:
    clusters = data.draw(st.integers(1, rows))
    vectors = np.random.default_rng(rows).normal(size=(rows, dimension)).astype(np.float32)
    centres = kmeans.train(vectors, clusters, iterations=100)
    label = kmeans.nearest(vectors, centres)
    for cluster in set(label.tolist()):
        assert np.allclose(centres[cluster], vectors[label == cluster].mean(axis=0), atol=1e-5)
    assert np.array_equal(centres, kmeans.train(vectors, clusters, iterations=100))


def test_well_apart_clusters_are_found() -> None:
    chance = np.random.default_rng(1)
    middle = np.eye(4, 16, dtype=np.float32) * 100
    vectors = np.repeat(middle, 50, axis=0) + chance.normal(size=(200, 16)).astype(np.float32)
    best = min((kmeans.train(vectors, 4, seed=seed) for seed in range(8)), key=lambda centres: spread(vectors, centres))
    assert len({tuple(kmeans.nearest(vectors[i : i + 50], best)) for i in range(0, 200, 50)}) == 4


def spread(vectors: np.ndarray, centres: np.ndarray) -> float:
    return float(((vectors - centres[kmeans.nearest(vectors, centres)]) ** 2).sum())


def test_equal_vectors_and_wrong_numbers() -> None:
    same = np.ones((5, 2), np.float32)
    assert np.array_equal(kmeans.train(same, 3), np.ones((3, 2), np.float32))
    for clusters in (0, 6):
        with pytest.raises(InvalidArgumentError, match="5 vectors make no"):
            kmeans.train(same, clusters)
    assert kmeans.nearest(np.empty((0, 2)), np.ones((1, 2), np.float32)).shape == (0,)


@given(st.permutations(range(12)))
def test_centres_in_a_line_come_in_their_order(order):
    """As many centres as rows are the rows themselves."""
    rows = np.array([[number * 3.0, number % 2 * 0.1] for number in order], np.float32)
    line = kmeans.train(rows, len(rows))[:, 0].tolist()
    assert line in (sorted(line), sorted(line, reverse=True))


def test_centres_alike_come_one_after_the_other():
    """Five far groups of ten centres each: a group is left only when all of it was named."""
    chance = np.random.default_rng(5)
    group = np.arange(50) % 5
    rows = 100 * np.eye(5, 8)[group] + chance.normal(size=(50, 8))
    found = kmeans.train(rows[chance.permutation(50)], 50)
    assert np.count_nonzero(np.diff(found[:, :5].argmax(axis=1))) == 4
