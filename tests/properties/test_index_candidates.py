"""Certain candidates hold every row of the true answer, whatever the vectors, the metric, the kind and the filter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.indexed import SHAPES, rows_of, true_rows, vectors, view_of

from hudi_vector.index.kinds import view as index_view
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.kernels.metrics import INDEXED, exact_distances

ELEMENTS = st.sampled_from(["float", "double", "int8"])
DIMENSIONS = st.sampled_from([2, 3, 8, 17, 64, 128, 300, 2048])


@st.composite
def cases(draw: Any) -> dict[str, Any]:
    element, metric, kind = draw(ELEMENTS), draw(st.sampled_from(sorted(INDEXED))), draw(st.sampled_from(list(KINDS)))
    shape, dimension, seed = draw(st.sampled_from(SHAPES)), draw(DIMENSIONS), draw(st.integers(0, 1 << 16))
    rows = draw(st.integers(1, 60 if dimension > 300 else 700))
    return {
        "values": vectors(shape, rows, dimension, element, seed),
        "metric": metric,
        "kind": kind,
        "element": element,
        "bits": draw(st.sampled_from(KINDS[kind].bits or (None,))),
        "parts": draw(st.sampled_from([None, 1])),
        "lists": draw(st.sampled_from([None, 1, 3, 50])),
        "trained_on": draw(st.sampled_from([0, max(1, rows // 2)])),
        "files": draw(st.integers(1, 4)),
        "queries": draw(st.sampled_from([1, 2, 9])),
        "nearby": draw(st.sampled_from(["row", "between", "anywhere", "zero", "row of another length", "far"])),
        "k": draw(st.sampled_from([1, 5, 10, 1000])),
        "share": draw(st.sampled_from([None, 0.5, 0.04, 0.0, "one list"])),
        "seed": seed,
    }


def numbers_of(case: dict[str, Any]) -> dict[str, Any]:
    if case["bits"] is None:
        return {}
    # Codebooks of very many parts take long to train, and are like those of fewer.
    parts = 64 if case["values"].shape[1] > 300 else case["parts"]
    return {"num_bits": case["bits"], **({"num_sub_vectors": parts} if case["kind"] == "ivf_pq" else {})}


def queries_of(case: dict[str, Any]) -> Any:
    chance = np.random.default_rng(case["seed"] + 1)
    rows = case["values"].astype(np.float64)
    chosen = rows[chance.integers(0, len(rows), case["queries"])]
    if case["nearby"] == "between":
        chosen = (chosen + rows[chance.integers(0, len(rows), case["queries"])]) / 2
    if case["nearby"] == "anywhere":
        chosen = chance.normal(size=chosen.shape)
    if case["nearby"] == "zero":
        chosen[0] = 0
    if case["nearby"] == "row of another length":
        chosen = chosen * 3.3
    if case["nearby"] == "far":
        chosen = chosen + 1e6
    return chosen


def allowed_of(case: dict[str, Any], parts: list[Any], view: Any) -> Any:
    if case["share"] is None:
        return None
    if case["share"] == "one list":
        bitmap = np.zeros(len(case["values"]), np.bool_)
        ends = getattr(view, "offsets", None)
        ends = np.array([0, len(view) // 20]) if ends is None else ends  # a graph has no lists
        fullest = int(np.argmax(np.diff(ends)))
        bitmap[view.row[ends[fullest] : ends[fullest + 1]]] = True
    else:
        bitmap = np.random.default_rng(case["seed"] + 2).random(len(case["values"])) < case["share"]
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return np.split(bitmap, cuts)


@settings(max_examples=400)
@given(cases())
def test_no_row_of_the_answer_is_missing(case: dict[str, Any]) -> None:
    values, metric, k = case["values"], case["metric"], case["k"]
    parts = np.array_split(values, case["files"])
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    view = view_of(parts, metric, case["kind"], case["element"], case["lists"], case["trained_on"], **numbers_of(case))
    asked = queries_of(case)
    allowed = allowed_of(case, parts, view)
    bitmap = None if allowed is None else np.concatenate(allowed)
    found = view.candidates(asked, k, allowed=allowed)
    rough = view.candidates(asked, k, certain=False, nprobes=1, allowed=allowed)
    assert len(found.given_up) == 0
    assert (np.diff(found.query) >= 0).all()
    for place, query in enumerate(asked):
        truth = true_rows(values, query, metric, k, bitmap)
        mine, rougher = rows_of(found, place, starts), rows_of(rough, place, starts)
        assert truth <= set(mine)
        for rows in (mine, rougher):
            assert len(set(rows)) == len(rows)
            assert bitmap is None or bitmap[rows].all()
            # k rows, or all that there are.
            assert len(rows) >= min(k, len(values) if bitmap is None else int(bitmap.sum()))
        single = view.candidates(query, k, allowed=allowed)
        assert truth <= set(rows_of(single, 0, starts))


@settings(max_examples=400)
@given(cases(), st.sampled_from([1, 2, 7, 1000]), st.sampled_from([None, 1, 100]), st.booleans())
def test_no_row_is_nearer_that_is_no_candidate(
    case: dict[str, Any], nprobes: int, candidates: int | None, with_faiss: bool
) -> None:
    values, metric, k = case["values"], case["metric"], min(case["k"], 10)
    parts = np.array_split(values, case["files"])
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    view = view_of(parts, metric, case["kind"], case["element"], case["lists"], case["trained_on"], **numbers_of(case))
    asked = queries_of(case)
    allowed = allowed_of(case, parts, view)
    bitmap = np.ones(len(values), np.bool_) if allowed is None else np.concatenate(allowed)
    with pytest.MonkeyPatch.context() as patched:
        if not with_faiss:
            patched.setattr(index_view, "is_installed", lambda: False)
        found = view.candidates(asked, k, certain=False, nprobes=nprobes, candidates=candidates, allowed=allowed)
    if found.unseen is None:
        found = replace(found, unseen=np.full(len(asked), np.inf))
    for place, query in enumerate(asked):
        others = bitmap.copy()
        others[rows_of(found, place, starts)] = False
        distances = exact_distances(values, query, metric)[others]
        assert not np.isnan(found.unseen[place])
        assert distances.min(initial=np.inf) >= found.unseen[place]
        # Where all rows are candidates, nothing is left that could be nearer.
        assert others.any() or case["kind"] == "hnsw" or found.unseen[place] == np.inf
