"""The cluster of each vector, batch by batch, and samples of vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.kernels.kmeans import nearest
from hudi_vector.writing.rewriting import coarse_order


def batch(vectors, kind=None):
    ids = [str(number) for number in range(len(vectors))]
    return pa.RecordBatch.from_pydict(
        {
            "key": ids,
            "partition": [""] * len(ids),
            "version": ids,
            "cluster0": pa.array(vectors, kind or pa.list_(pa.float32())),
        }
    )


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=30), st.integers(0, 5))
def test_rows_without_a_vector_are_in_no_cluster(seeds, skipped):
    centres = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    vectors = [
        None if seed is None else np.random.default_rng(seed).normal(size=3).astype(np.float32) for seed in seeds
    ]
    given_batch = batch(vectors).slice(min(skipped, len(vectors)))
    (found,) = coarse_order._Numbers({"cluster0": centres})([given_batch])
    expected = [-1 if vector is None else int(nearest(vector[None], centres)[0]) for vector in vectors[skipped:]]
    assert found["cluster0"].to_pylist() == expected
    assert found["key"].to_pylist() == given_batch["key"].to_pylist()


def test_a_table_without_vectors_has_no_clusters():
    none = np.empty((0, 3), np.float32)
    (found,) = coarse_order._Numbers({"cluster0": none})([batch([[1.0, 2.0, 3.0], None])])
    assert found["cluster0"].to_pylist() == [-1, -1]


def test_integers_and_doubles_are_vectors_too():
    centres = np.array([[0, 0], [100, 0]], np.float32)
    for kind in (pa.int8(), pa.float64()):
        (found,) = coarse_order._Numbers({"cluster0": centres})([batch([[1, 2], None, [99, -1]], pa.list_(kind))])
        assert found["cluster0"].to_pylist() == [0, -1, 1]


def test_samples_are_finite_and_about_as_many_as_asked_for():
    rows = [[float(number), 1.0] for number in range(1000)]
    rows[3], rows[4] = [float("nan"), 1.0], [float("inf"), 1.0]
    whole = pa.RecordBatch.from_pydict({"vector": pa.array([*rows, None], pa.list_(pa.float32()))})

    def sample(share):
        (found,) = coarse_order._Sample(2, share)([whole])
        return np.frombuffer(found["vectors"][0].as_py(), np.float32).reshape(-1, 2)

    assert sample(1.0)[:, 0].tolist() == [number for number in range(1000) if number not in (3, 4)]
    assert 200 < len(sample(0.25)) < 300
