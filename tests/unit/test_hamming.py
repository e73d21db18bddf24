"""The metric hamming without Spark: counts of differing bits, beside Python's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.written_table import Row, WrittenTable

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, InvalidVectorError
from hudi_vector.kernels.metrics import METRICS, exact_distances, require_comparable
from hudi_vector.kernels.topk import Bounds, TopK, make_block

BYTES = st.integers(-128, 127)


def differing(one: Any, other: Any) -> int:
    return sum(((int(a) ^ int(b)) & 0xFF).bit_count() for a, b in zip(one, other, strict=True))


@given(st.data(), st.integers(1, 9), st.integers(1, 40), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_top_k_is_brute_force(data: st.DataObject, dimension: int, rows: int, queries: int, k: int) -> None:
    values = data.draw(hnp.arrays(np.int8, (rows, dimension), elements=BYTES))
    asked = data.draw(hnp.arrays(np.int16, (queries, dimension), elements=st.integers(-128, 255)))
    block, invalid = make_block(values, np.arange(rows))
    top = TopK(asked.astype(np.float64), "hamming", k, Bounds.of(queries))
    top.offer(block)
    hits = top.hits()
    assert invalid == 0
    for number, query in enumerate(asked):
        mine = hits.take(hits.query == number)
        counts = [differing(row, query) for row in values]
        assert [counts[position] for position in mine.position] == mine.distance.tolist()
        assert mine.distance.tolist()[:k] == sorted(counts)[:k]
    least, largest = METRICS["hamming"].screen(asked.astype(np.float64), np.dtype(np.float32)).spans(block)
    assert np.array_equal(least, largest)
    assert least.tolist() == [[differing(row, query) for query in asked] for row in values]


def test_a_byte_may_be_written_with_or_without_its_sign() -> None:
    rows = np.array([[-1, 0]], np.int8)
    for query in ([255.0, 0.0], [-1.0, 0.0]):
        assert exact_distances(rows, np.array(query), "hamming").tolist() == [0.0]
    packed = np.packbits(np.array([[1, 1, 1, 1, 0, 0, 0, 1]], np.uint8), axis=1).astype(np.float64)
    assert exact_distances(np.array([[0]], np.int8), packed[0], "hamming").tolist() == [5.0]


@pytest.mark.parametrize("wrong", [0.5, 256.0, -129.0])
def test_what_is_no_byte_is_refused(wrong: float) -> None:
    with pytest.raises(
        InvalidVectorError, match=r"the metric hamming compares bits.*give whole numbers from -128 to 255"
    ):
        exact_distances(np.zeros((1, 1), np.int8), np.array([wrong]), "hamming")


def test_columns_that_hold_no_bits_are_refused() -> None:
    with pytest.raises(
        InvalidArgumentError, match="hamming compares vectors of INT8, and column 'emb' holds FLOAT; give"
    ):
        require_comparable("hamming", "emb", "float")
    with pytest.raises(
        InvalidArgumentError, match="hamming does not compare sparse vectors, and column 'terms' has them"
    ):
        require_comparable("hamming", "terms", None)


def test_an_opened_table(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(-128, 128, (50, 4))
    rows = [Row(i, "a", None, None, tuple(map(float, vector))) for i, vector in enumerate(numbers)]
    written = WrittenTable(tmp_path / "t", element="int8")
    written.commit({("a", "f1"): rows[:20], ("a", "f2"): rows[20:]})
    queries = np.random.default_rng(2).integers(-128, 128, (3, 4))
    with hv.open(written.path, column="emb") as t:
        for query in queries:
            found = t.search(query.tolist(), 5, metric="hamming", columns=["id"]).table.to_pylist()
            best = sorted((differing(vector, query), str(i)) for i, vector in enumerate(numbers))[:5]
            assert [(row["_distance"], str(row["id"])) for row in found] == best
        batch = t.search_batch(queries.tolist(), 5, metric="hamming", columns=["id"]).table
        assert len(batch) == 15
        with pytest.raises(InvalidVectorError, match="compares bits"):
            t.search([0.5, 0, 0, 0], 5, metric="hamming")
        within = t.search(queries[0].tolist(), 50, metric="hamming", max_distance=12).table
        assert len(within) == sum(differing(vector, queries[0]) <= 12 for vector in numbers)
    with pytest.raises(InvalidArgumentError, match=r"no kind of index serves the metric hamming.*give cosine"):
        hv.index.create(None, str(written.path), "emb", metric="hamming")
