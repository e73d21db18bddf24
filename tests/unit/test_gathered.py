"""Hits of many slices, merged on the way, are those that one merge in the end finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_vector as hv
from hudi_vector.query import local
from hudi_vector.query.indexed import slices
from hudi_vector.query.merge import SliceHits

K, QUERIES, FILES = 3, 20, 60


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Fewer rows than k in each, so that no file bounds a query by itself; every vector twice."""
    numbers = np.random.default_rng(3).integers(-3, 4, (FILES, 4)).astype("f4")
    paths = []
    for number in range(FILES):
        paths.append(str(tmp_path / f"{number:02d}.parquet"))
        pair = pa.FixedSizeListArray.from_arrays(pa.array(np.tile(numbers[number], 2)), 4)
        pq.write_table(pa.table({"id": [2 * number, 2 * number + 1], "emb": pair}), paths[-1])
    return paths


@pytest.mark.parametrize("max_distance", [None, 8.0])
@pytest.mark.parametrize("threads", ["1", "4"])
def test_few_are_held(
    files: list[str], threads: str, max_distance: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = np.random.default_rng(4).standard_normal((QUERIES, 4)) * 2
    held: list[int] = []
    merge = local.merge_winners

    def noted(plan: object, parts: list[SliceHits]) -> object:
        held.append(sum(len(part.hits) for part in parts))
        return merge(plan, parts)  # type: ignore[arg-type]

    def found() -> pa.Table:
        options = {"hoodie.vector.search.local.threads": threads}
        with hv.open(files=files, column="emb", options=options) as t:
            batch = t.search_batch(asked, K, metric="l2", columns=["id"], max_distance=max_distance)
            return batch.table

    monkeypatch.setattr(local, "merge_winners", noted)
    monkeypatch.setattr(slices, "_TOGETHER_BYTES", 0)  # the hits of files that are scanned together are few already
    expected, whole = found(), max(held)
    held.clear()
    monkeypatch.setattr(local, "_HELD_HITS", 10)
    assert found().equals(expected)
    assert len(held) > 1
    assert max(held) <= 4 * K * QUERIES + 2 * QUERIES < whole
