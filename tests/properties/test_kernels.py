"""Kernels equal brute force, bit for bit between their own shapes and closely to plain references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_vector.kernels.metrics import INDEXED, exact_distances
from hudi_vector.kernels.topk import Bounds, TopK, make_block

# What stresses float32 screening: far from the origin, at the ends of the ranges, equal rows, no length at all.
KINDS = ("plain", "offset", "tiny", "huge", "mixed", "small integers", "duplicates", "zeros")
DTYPES = ("<f4", "<f8", "i1")


@dataclass(frozen=True)
class Case:
    """Rows and queries to search."""

    rows: npt.NDArray
    queries: npt.NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Case({self.rows.shape}, {self.rows.dtype}, {self.queries.shape})"


@st.composite
def cases(draw: st.DrawFn, most_rows: int = 120, most_queries: int = 7) -> Case:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, dimension = draw(st.integers(0, most_rows)), draw(st.integers(1, 40))
    queries = draw(st.integers(1, most_queries))
    dtype, kind = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(KINDS))
    values = _values(numbers, kind, dtype, count + queries, dimension)
    asked = values[count:].astype(np.float64)
    if count and draw(st.booleans()):
        asked[0] = values[0].astype(np.float64)  # a query that is a row
    return Case(np.ascontiguousarray(values[:count]), asked)


def _values(numbers: np.random.Generator, kind: str, dtype: str, count: int, dimension: int) -> npt.NDArray:
    if dtype == "i1":
        most = 3 if kind in ("small integers", "duplicates") else 128
        rows = numbers.integers(-most, most, (count, dimension)).astype(np.int8)
    else:
        rows = numbers.standard_normal((count, dimension)) * _scale(numbers, kind, dtype, count)
        if kind == "offset":
            rows = numbers.standard_normal(dimension) * 1e4 + rows * 1e-2
        if kind == "small integers":
            rows = numbers.integers(-2, 3, (count, dimension))
        rows = rows.astype(dtype)
    if kind == "duplicates" and count:
        rows = rows[numbers.integers(0, max(1, count // 5), count)]
    if kind == "zeros":
        rows[numbers.random(count) < 0.3] = 0
    return rows


def _scale(numbers: np.random.Generator, kind: str, dtype: str, count: int) -> npt.NDArray[np.float64]:
    tiny, huge = (1e-36, 1e36) if dtype == "<f4" else (1e-140, 1e140)
    if kind == "mixed":
        return numbers.choice([tiny, 1.0, huge], (count, 1))
    return np.full((count, 1), {"tiny": tiny, "huge": huge}.get(kind, 1.0))


def reference(rows: npt.NDArray, query: npt.NDArray[np.float64], metric: str) -> npt.NDArray[np.longdouble]:
    """The formulas of RFC-102 as they stand, in the widest floats there are."""
    rows, query = rows.astype(np.longdouble), query.astype(np.longdouble)
    if metric == "l2":
        return np.sqrt(((rows - query) ** 2).sum(axis=1))
    dots = (rows * query).sum(axis=1)
    if metric == "dot_product":
        return -dots
    norms = np.sqrt((rows**2).sum(axis=1)) * np.sqrt((query**2).sum())
    return np.clip(1 - np.divide(dots, norms, out=np.zeros(len(rows), np.longdouble), where=norms > 0), 0, 2)


@given(cases(), st.sampled_from(sorted(INDEXED)))
def test_distances_are_close_to_the_formulas(case: Case, metric: str) -> None:
    for query in case.queries:
        found = exact_distances(case.rows, query, metric)
        wanted = reference(case.rows, query, metric)
        wide = case.rows.astype(np.longdouble)
        squares = (wide**2).sum(axis=1) + (query.astype(np.longdouble) ** 2).sum()
        allowed = np.maximum(1e-6 * np.abs(wanted), 1e-12 * squares)
        if metric == "cosine":
            allowed = np.maximum(allowed, 1e-14)  # 1 − similarity has no more than this, however small the vectors
        assert (np.abs(found - wanted) <= allowed).all()


@given(cases(), st.sampled_from(sorted(INDEXED)), st.integers(0, 2**32))
def test_a_distance_depends_on_its_own_row_alone(case: Case, metric: str, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    query = case.queries[0]
    whole = exact_distances(case.rows, query, metric)
    order = numbers.permutation(len(case.rows))
    assert_same_bits(exact_distances(case.rows[order], query, metric), whole[order])
    one_by_one = [exact_distances(case.rows[i : i + 1], query, metric) for i in range(len(case.rows))]
    assert_same_bits(np.concatenate([*one_by_one, np.empty(0)]), whole)
    repeated = np.repeat(query[None, :], len(case.rows), axis=0)
    assert_same_bits(exact_distances(case.rows, repeated, metric), whole)
    assert_same_bits(exact_distances(np.asfortranarray(case.rows), query, metric), whole)


@pytest.mark.parametrize("metric", sorted(INDEXED))
def test_long_vectors_give_the_same_bits_in_blocks(metric: str) -> None:
    rows = np.random.default_rng(1).standard_normal((700, 1536)).astype(np.float32)
    query = rows[3].astype(np.float64) * 1.5
    whole = exact_distances(rows, query, metric)
    for size in (1, 7, 171, 699):
        parts = [exact_distances(rows[i : i + size], query, metric) for i in range(0, len(rows), size)]
        assert_same_bits(np.concatenate(parts), whole)


def assert_same_bits(found: npt.NDArray, wanted: npt.NDArray) -> None:
    assert found.dtype == wanted.dtype == np.float64
    assert found.tobytes() == wanted.tobytes()


def nearest(case: Case, metric: str, k: int, max_distance: float | None) -> list[tuple[int, float, int]]:
    """(query, distance, position) of the k nearest, ties at the k-th distance included."""
    found = []
    for number, query in enumerate(case.queries):
        distances = exact_distances(case.rows, query, metric)
        limit = np.inf if max_distance is None else max_distance
        if len(distances) >= k:
            limit = min(limit, np.sort(distances)[k - 1])
        found += [(number, float(d), i) for i, d in enumerate(distances) if d <= limit]
    return sorted(found)


def search(case: Case, metric: str, k: int, max_distance: float | None, cuts: list[int]) -> list:
    bounds = Bounds.of(len(case.queries), max_distance)
    top = TopK(case.queries, metric, k, bounds)
    for part in np.split(np.arange(len(case.rows)), sorted(cuts)):
        block, invalid = make_block(case.rows[part], part.astype(np.int64))
        assert invalid == 0
        if len(block):
            top.offer(block)
    return as_list(top)


def as_list(top: TopK) -> list[tuple[int, float, int]]:
    hits = top.hits()
    return sorted(zip(hits.query.tolist(), hits.distance.tolist(), hits.position.tolist(), strict=True))


@settings(max_examples=300)
@given(cases(), st.sampled_from(sorted(INDEXED)), st.integers(1, 30), st.data())
def test_top_k_is_brute_force_in_any_blocks(case: Case, metric: str, k: int, data: st.DataObject) -> None:
    limit = None
    if len(case.rows) and data.draw(st.booleans()):
        limit = float(data.draw(st.sampled_from(list(exact_distances(case.rows, case.queries[0], metric)))))
    cuts = data.draw(st.lists(st.integers(0, len(case.rows)), max_size=4))
    assert search(case, metric, k, limit, cuts) == nearest(case, metric, k, limit)


@given(cases(), st.sampled_from(sorted(INDEXED)), st.integers(1, 10), st.integers(0, 2**32))
def test_the_order_of_rows_and_blocks_changes_nothing(case: Case, metric: str, k: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(case.rows))
    bounds = Bounds.of(len(case.queries))
    top = TopK(case.queries, metric, k, bounds)
    for part in np.array_split(order, 3):
        block, _ = make_block(case.rows[part], part.astype(np.int64))
        if len(block):
            top.offer(block)
    assert as_list(top) == nearest(case, metric, k, None)


@given(cases(), st.sampled_from(sorted(INDEXED)), st.integers(1, 10))
def test_searches_that_share_bounds_lose_nothing(case: Case, metric: str, k: int) -> None:
    bounds = Bounds.of(len(case.queries))
    found = []
    for part in np.array_split(np.arange(len(case.rows)), 3):
        top = TopK(case.queries, metric, k, bounds)
        block, _ = make_block(case.rows[part], part.astype(np.int64))
        if len(block):
            top.offer(block)
        found += as_list(top)
    wanted = nearest(case, metric, k, None)
    assert set(wanted) <= set(found)


@given(cases(most_queries=5), st.sampled_from(sorted(INDEXED)), st.integers(1, 5))
def test_many_queries_are_as_many_single_ones(case: Case, metric: str, k: int) -> None:
    together = search(case, metric, k, None, [])
    single = [
        (number, distance, position)
        for number in range(len(case.queries))
        for _, distance, position in search(Case(case.rows, case.queries[number : number + 1]), metric, k, None, [])
    ]
    assert together == sorted(single)


@given(cases(), st.integers(0, 2**32))
def test_a_selection_of_a_block_is_a_block_of_the_selection(case: Case, seed: int) -> None:
    mask = np.random.default_rng(seed).random(len(case.rows)) < 0.5
    block, _ = make_block(case.rows, np.arange(len(case.rows)))
    selected = block.select(mask)
    made, _ = make_block(case.rows[mask], np.flatnonzero(mask))
    assert selected.positions.tolist() == made.positions.tolist()
    assert selected.odd.tolist() == made.odd.tolist()
    assert (selected.values == made.values).all()
    assert selected.squares.tobytes() == made.squares.tobytes()


@given(cases(), st.integers(0, 2**32))
def test_nan_and_infinity_are_left_out_and_counted(case: Case, seed: int) -> None:
    if case.rows.dtype == np.int8 or not len(case.rows):
        return
    numbers = np.random.default_rng(seed)
    rows = case.rows.copy()
    bad = numbers.random(len(rows)) < 0.3
    rows[bad, numbers.integers(0, rows.shape[1])] = numbers.choice([np.nan, np.inf, -np.inf])
    block, invalid = make_block(rows, np.arange(len(rows)))
    assert invalid == bad.sum()
    assert block.positions.tolist() == np.flatnonzero(~bad).tolist()


@pytest.mark.parametrize("metric", sorted(INDEXED))
@pytest.mark.parametrize("queries", [1, 3, 6])
def test_a_query_beyond_the_range_of_squares_finds_its_rows(metric: str, queries: int) -> None:
    rows = np.random.default_rng(2).standard_normal((50, 3)) * 1e120
    asked = np.full((queries, 3), 1e170 if metric != "dot_product" else 1e160)
    case = Case(rows, asked)
    assert search(case, metric, 4, None, [20]) == nearest(case, metric, 4, None)
    assert len(search(case, metric, 4, None, [20])) >= 4 * queries


def test_cosine_of_rows_whose_squares_overflow() -> None:
    rows = np.array([[1e200, 1.0], [1.0, 1e200], [-1e200, 0.0]])
    assert exact_distances(rows, np.array([1.0, 0.0]), "cosine").tolist() == [0.0, 1.0, 2.0]
    assert exact_distances(rows / 1e200, np.array([1e200, 0.0]), "cosine").tolist() == [0.0, 1.0, 2.0]


def test_dot_products_that_overflow_on_the_way() -> None:
    rows = np.array([[1e200, 1e200], [1e200, -1e200], [0.0, 1.0]])
    query = np.array([1e200, -1e200])
    assert exact_distances(rows, query, "dot_product").tolist() == [0.0, -np.inf, 1e200]
    for k in (1, 2, 3):
        found = search(Case(rows, query[None, :]), "dot_product", k, None, [])
        assert [position for _, _, position in found] == [1, 0, 2][:k]


@pytest.mark.parametrize("scale", [1e-36, 1e36])
@pytest.mark.parametrize("metric", sorted(INDEXED))
@pytest.mark.parametrize("queries", [1, 5])
def test_rows_beyond_float32s_squares_are_found_among_others(metric: str, queries: int, scale: float) -> None:
    numbers = np.random.default_rng(5)
    rows = numbers.standard_normal((400, 6)).astype(np.float32)
    asked = numbers.standard_normal((queries, 6))
    rows[::40] = (asked[0] * scale).astype(np.float32)  # the nearest by cosine
    case = Case(rows, asked)
    for k in (1, 7, 30):
        assert search(case, metric, k, None, [130, 260]) == nearest(case, metric, k, None)


@pytest.mark.parametrize("metric", sorted(INDEXED))
@pytest.mark.parametrize("queries", [1, 5])
def test_queries_beyond_float32s_range_find_float32_rows(metric: str, queries: int) -> None:
    numbers = np.random.default_rng(6)
    rows = numbers.standard_normal((300, 6)).astype(np.float32)
    rows[::3, :2] = 0  # zero times what overflows float32 is NaN
    case = Case(rows, numbers.standard_normal((queries, 6)) * 1e60)
    assert search(case, metric, 8, None, [100]) == nearest(case, metric, 8, None)
