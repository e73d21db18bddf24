"""Searches through a Lance dataset's own index: recall, rows that changed since, filters, and never fewer rows than k."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.kernels.topk import Bounds
from hudi_vector.query.execute import Question, search_slice
from hudi_vector.query.indexed.slices import search_slices
from hudi_vector.query.lance import index as lance_index
from hudi_vector.query.local import merge_winners

ROWS, DIMENSION, K = 3000, 16, 10


def table(count: int, first: int = 0, seed: int = 1) -> pa.Table:
    numbers = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((20, DIMENSION)) * 4
    vectors = (centres[numbers.integers(0, 20, count)] + numbers.standard_normal((count, DIMENSION))).astype("f4")
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "price": numbers.integers(0, 100, count).astype("f8"),
            "emb": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "d.lance"
    dataset = lance.write_dataset(table(ROWS), str(path), max_rows_per_file=1000)
    for metric in ("l2", "cosine"):
        dataset.create_index(
            "emb", "IVF_PQ", name=metric, metric=metric, num_partitions=8, num_sub_vectors=8, sample_rate=8
        )
    return path


@pytest.fixture
def path(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "d.lance"))


def queries(count: int = 40) -> np.ndarray:
    return np.stack(table(count, seed=99).column("emb").to_pylist())


def opened(path: Path) -> Any:
    return hv.open(lance=str(path), column="emb")


def recall(t: Any, asked: np.ndarray, **arguments: Any) -> float:
    """The share of the true rows that are found; what is found has the true distances."""
    exact = t.search_batch(asked, K, columns=["id"], mode="exact", **_of_both(arguments))
    found = t.search_batch(asked, K, columns=["id"], **arguments)
    assert found.plan.index is not None
    true = dict(zip(_pairs(exact), exact.column("_distance").to_pylist(), strict=True))
    got = dict(zip(_pairs(found), found.column("_distance").to_pylist(), strict=True))
    assert np.bincount(found.column("_hudi_query_index").to_numpy(), minlength=len(asked)).min() == K
    assert all(true[pair] == distance for pair, distance in got.items() if pair in true)
    return len(true.keys() & got.keys()) / len(true)


def _of_both(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name in ("metric", "filter")}


def _pairs(hits: Any) -> list[tuple[int, int]]:
    return list(zip(hits.column("_hudi_query_index").to_pylist(), hits.column("id").to_pylist(), strict=True))


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_the_recall_is_what_was_asked_for(path: Path, metric: str) -> None:
    t = opened(path)
    assert recall(t, queries(), metric=metric, mode="approximate") >= 0.95
    assert recall(t, queries(), metric=metric, recall_target=0.9) >= 0.9
    assert recall(t, queries(), metric=metric, mode="approximate", nprobes=1, refine_factor=1) < 0.95
    hits = t.search(queries(1)[0], K, metric=metric, mode="approximate")
    assert hits.plan.access_counts == {"lance_index": 3}
    assert "lance ivf_pq for " + metric in hits.plan.describe()


def test_without_being_asked_the_index_changes_nothing(path: Path) -> None:
    t = opened(path)
    asked = queries(5)
    assert t.search_batch(asked, K, metric="l2").plan.index is None
    assert "nothing asked for that" in t.search_batch(asked, K, metric="l2").plan.describe()
    other = t.search_batch(asked, K, metric="dot_product", mode="approximate")
    assert "none: the dataset has IVF_PQ for cosine, IVF_PQ for l2" in other.plan.describe()


def test_rows_that_changed_since_are_seen(path: Path) -> None:
    t = opened(path)
    asked = queries()
    gone = set(t.search_batch(asked, 1, columns=["id"], metric="l2").column("id").to_pylist())
    dataset = lance.dataset(str(path))
    dataset.delete(f"id IN ({', '.join(map(str, gone))})")
    lance.write_dataset(table(500, first=ROWS, seed=5), str(path), mode="append")
    lance.dataset(str(path)).update({"price": "-1"}, where="id % 10 = 1")
    assert t.refresh() is True
    assert recall(t, asked, metric="l2", mode="approximate") >= 0.95
    found = t.search_batch(asked, 100, columns=["id", "price"], metric="l2", mode="approximate")
    ids = found.column("id").to_pylist()
    assert not gone & set(ids)
    assert any(key >= ROWS for key in ids)
    assert all(
        (price == -1) == (key % 10 == 1) for key, price in zip(ids, found.column("price").to_pylist(), strict=True)
    )
    counts = found.plan.access_counts
    assert counts["lance_index"] == 3
    assert counts["lance"] >= 1


def test_a_filter_never_costs_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = opened(path)
    asked = queries()
    assert recall(t, asked, metric="l2", mode="approximate", filter="price < 10") == 1.0, "few rows are scanned"
    monkeypatch.setattr(lance_index, "_FEW_ROWS", 100)
    assert recall(t, asked, metric="l2", mode="approximate", filter="price < 10") >= 0.95
    lists = recall(t, asked, metric="l2", mode="approximate", nprobes=1, filter="id < 150")
    assert lists > 0.5
    assert t.search(asked[0], K, metric="l2", mode="approximate").report.proved == 0, "another library's index"
    few = t.search_batch(asked, K, metric="l2", mode="approximate", filter="id < 4", columns=["id"])
    assert len(few) == 4 * len(asked)
    assert not few.report.reached_k
    assert few.report.proved == len(few), "few rows are scanned"


def test_more_rows_than_the_lists_hold(path: Path) -> None:
    t = opened(path)
    query = queries(1)[0]
    found = t.search(query, 2000, metric="l2", mode="approximate", nprobes=1, columns=["id"])
    exact = t.search(query, 2000, metric="l2", columns=["id"])
    assert found.table.equals(exact.table)
    assert len(t.search(query, ROWS + 1, metric="l2", mode="approximate")) == ROWS


def test_a_zero_query_and_a_largest_distance(path: Path) -> None:
    t = opened(path)
    zero = np.zeros(DIMENSION)
    approximate, exact = (
        t.search(zero, K, metric="cosine", mode=mode, columns=["id"]) for mode in ("approximate", "exact")
    )
    assert approximate.table.equals(exact.table)
    near = t.search(queries(1)[0], K, metric="l2", mode="approximate", max_distance=3.0)
    assert all(distance <= 3.0 for distance in near.column("_distance").to_pylist())


@pytest.mark.parametrize("stable", [False, True])
def test_row_ids_may_be_stable(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "s.lance"
    dataset = lance.write_dataset(table(600), str(path), max_rows_per_file=300, enable_stable_row_ids=stable)
    lance.write_dataset(table(10, first=600), str(path), mode="append")
    dataset = lance.dataset(str(path))
    dataset.delete("id < 20")
    dataset = lance.dataset(str(path))
    dataset.optimize.compact_files(target_rows_per_fragment=5000, materialize_deletions_threshold=0.0)
    dataset = lance.dataset(str(path))
    dataset.create_index("emb", "IVF_FLAT", name="x", metric="l2", num_partitions=4, sample_rate=8)
    assert recall(opened(path), queries(), metric="l2", mode="approximate", algorithm="ivf_flat") == 1.0


@pytest.mark.parametrize("text", [None, "price < 50"])
def test_a_task_searches_its_fragments_alone(path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_index, "_FEW_ROWS", 100)
    asked = queries(8).astype(np.float64)
    plan = opened(path).search_batch(asked, K, metric="l2", mode="approximate", filter=text).plan
    question = Question(asked, "l2", K)
    entries = list(enumerate(plan.slices))[1:]
    (parts,) = [hits for hits, _ in search_slices(entries, plan.index, plan.spec, question, Bounds.of(8), keep=False)]
    assert [part.slice_index for part in parts] == [1, 2]
    winners = merge_winners(plan, parts)
    exact = [search_slice(*entry, plan.spec, question, Bounds.of(8), False)[0] for entry in entries]
    true = merge_winners(plan, exact)
    assert np.bincount(winners.query).tolist() == [K] * 8
    found, wanted = (set(zip(w.query, w.slice_index, w.position, strict=True)) for w in (winners, true))
    assert len(found & wanted) >= 0.95 * len(wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nprobes": 4}, "nprobes asks for the index of a Lance dataset, which may miss rows"),
        ({"algorithm": "ivf_pq"}, "algorithm asks for the index .* add mode => 'approximate'"),
        (
            {"mode": "approximate", "algorithm": "ivf_flat"},
            "'ivf_flat' was asked for with metric l2, and the dataset has",
        ),
        ({"mode": "exact", "refine_factor": 4}, "refine_factor asks for the index"),
    ],
)
def test_wrong_tuning(path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        opened(path).search(queries(1)[0], K, metric="l2", **arguments)
