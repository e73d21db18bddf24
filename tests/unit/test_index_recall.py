"""Recall targets end to end: whatever k is, searches by an index of files find the part that was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_vector as hv
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.kernels.metrics import exact_distances

ROWS, DIMENSION = 12_000, 32
NUMBERS = np.random.default_rng(3)
CENTRES = NUMBERS.standard_normal((80, DIMENSION)) * 2


def clustered(count: int) -> np.ndarray:
    return (CENTRES[NUMBERS.integers(0, len(CENTRES), count)] + NUMBERS.standard_normal((count, DIMENSION))).astype(
        "f4"
    )


VALUES, QUERIES = clustered(ROWS), clustered(50)


@pytest.fixture(scope="module")
def nearest() -> np.ndarray:
    """The distances of each query, the smallest first."""
    return np.sort([exact_distances(VALUES, query, "l2") for query in QUERIES], axis=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("clustered")
    paths = [str(folder / f"{number}.parquet") for number in range(3)]
    for path, part in zip(paths, np.array_split(VALUES, 3), strict=True):
        held = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), DIMENSION)
        pq.write_table(pa.table({"emb": held}), path)
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_holds_for_few_rows_and_many(files: list[str], nearest: np.ndarray, tmp_path: Path, kind: str) -> None:
    directory = str(tmp_path / "indexes")
    hv.index.build_if_missing(None, files=files, column="emb", directory=directory, kind=kind, metric="l2")
    options = {"hoodie.vector.cache.max.bytes": "0"}  # vectors in memory would answer in place of the index
    with hv.open(files=files, column="emb", index_directory=directory, options=options) as t:
        for k in (1, 10, 40, 100, 500, 1000, 1300):
            found = t.search(QUERIES[0], k, metric="l2", recall_target=0.95)
            near = t.search_batch(QUERIES, k, metric="l2", recall_target=0.95).column("_distance").to_numpy()
            shares = (near.reshape(len(QUERIES), k) <= nearest[:, k - 1, None]).mean(axis=1)
            assert np.array_equal(found.column("_distance").to_numpy(), near[:k]), "a batch is its single searches"
            assert np.mean(shares) >= 0.93, k
            assert (found.plan.index is None or found.plan.index.certain) == (k > 1000)
