"""Which index a search uses, how far it looks in it, and what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError
from hudi_vector.index.catalog import Index
from hudi_vector.index.manifest import IndexManifest, Setting
from hudi_vector.query.index_choice import Choice, IndexNeed, choose_index
from hudi_vector.query.tuning import checked_tuning

CALIBRATION = (Setting(2, 10, 0.8, 100), Setting(8, 20, 0.96, 400), Setting(32, 45, 0.999, 1600))
NEED = IndexNeed(4, "float", "l2", k=10, queries=1)


def index(kind: str = "ivf_sq8", metric: str = "l2", target: float | None = None, **changes: Any) -> Index:
    manifest = IndexManifest("emb", kind, metric, 4, "float", "m", {"recall_target": target}, (), CALIBRATION)
    return Index("file:///t", f"file:///t/{metric}-{kind}", replace(manifest, **changes))


def choose(*indexes: Index, need: IndexNeed = NEED, conf: dict[str, str] | None = None, **asked: Any) -> Choice:
    return choose_index(indexes, need, checked_tuning(**asked).settled(conf or {}), conf or {})


def effort(choice: Choice, k: int = NEED.k) -> tuple[Any, ...]:
    """Return whether an answer is exact, the lists that are read, and the candidates for k rows."""
    assert choice.use is not None
    return choice.use.certain, choice.use.nprobes, choice.use.candidates(k)


def test_an_answer_is_exact_unless_something_else_is_asked_for() -> None:
    assert effort(choose(index())) == (True, None, None)
    assert effort(choose(index(), recall_target=1)) == (True, None, None)
    assert effort(choose(index(), conf={"hoodie.vector.search.recall.target": "1.0"})) == (True, None, None)
    assert choose(index(), mode="exact").reason == "an exact search was asked for"
    assert choose(index(), algorithm="brute_force").reason == "an exact search was asked for"
    assert choose(index(), conf={"hoodie.vector.search.mode": "exact"}).reason == "an exact search was asked for"


def test_a_target_takes_the_least_that_reached_it() -> None:
    assert effort(choose(index(), recall_target=0.5)) == (False, 2, 10)
    assert effort(choose(index(), recall_target=0.9)) == (False, 8, 20)
    assert effort(choose(index(), mode="approximate")) == (False, 8, 20)
    assert effort(choose(index(), conf={"hoodie.vector.search.recall.target": "0.99"})) == (False, 32, 45)
    assert effort(choose(index(target=0.99))) == (False, 32, 45)
    # The search stands over the session, and the session over the index.
    assert effort(choose(index(target=0.99), conf={"hoodie.vector.search.recall.target": "0.9"})) == (False, 8, 20)
    assert effort(choose(index(target=0.99), recall_target=1)) == (True, None, None)
    assert effort(choose(index(), recall_target=0.9, nprobes=3)) == (False, 3, 20)
    assert effort(choose(index(), recall_target=0.9, refine_factor=7)) == (False, 8, 70)
    assert effort(choose(index(), need=replace(NEED, has_filter=True), recall_target=0.5)) == (False, 32, 45)


def test_a_target_that_nothing_reached_is_exact() -> None:
    assert effort(choose(index(), recall_target=0.9999)) == (True, None, None)
    assert effort(choose(index(), recall_target=0.9999, nprobes=64)) == (False, 64, None)
    assert effort(choose(index(calibration=()), recall_target=0.9)) == (False, None, None)


def test_a_target_is_reached_whatever_k_is() -> None:
    many = (Setting(16, 200, 0.97, 900, 100), Setting(64, 2000, 0.96, 3000, 1000))
    known = index(calibration=(*CALIBRATION, *many))
    for k, expected in (
        (1, (False, 8, 20)),
        (10, (False, 8, 20)),
        (11, (False, 16, 200)),
        (100, (False, 16, 200)),
        (101, (False, 64, 2000)),
        (1000, (False, 64, 2000)),
        (1001, (True, None, None)),
    ):
        assert effort(choose(known, need=replace(NEED, k=k), recall_target=0.95), k) == expected
    # Fewer rows are not looked for in fewer lists than still fewer were.
    uneven = index(calibration=(*CALIBRATION, Setting(1, 200, 0.97, 900, 100)))
    assert effort(choose(uneven, need=replace(NEED, k=50), recall_target=0.95), 50) == (False, 8, 200)
    assert effort(choose(uneven, need=replace(NEED, k=100), recall_target=0.95), 100) == (False, 1, 200)
    # What reached it for few rows says nothing of many.
    assert effort(choose(known, need=replace(NEED, k=100), recall_target=0.99)) == (True, None, None)
    assert effort(choose(index(), need=replace(NEED, k=11), mode="approximate")) == (True, None, None)
    assert effort(choose(index(), need=replace(NEED, k=11), mode="approximate", nprobes=3)) == (False, 3, None)
    assert choose(index("hnsw"), need=replace(NEED, k=11), recall_target=0.9).reason == (
        "its hnsw index was measured for k up to 10: add nprobes, or ask for fewer rows"
    )


def test_which_index() -> None:
    both = (index("ivf_flat"), index("ivf_sq8"), index(metric="cosine"))
    found = choose(*both)
    assert found.index is both[1]
    assert choose(*both, algorithm="ivf_flat").index is both[0]
    assert choose(*both, need=replace(NEED, metric="cosine")).index is both[2]
    assert choose(index(metric="cosine")).reason == "its index is for cosine"
    assert choose(index(dimension=5)).reason == "its index was made for vectors of another type"
    assert choose().reason == "the column has no index"


def test_a_large_batch_is_scanned_unless_the_index_is_asked_for() -> None:
    many = replace(NEED, queries=17)
    assert choose(index(), need=many).reason == "17 queries, more than hoodie.vector.index.exact.max.queries = 16"
    assert effort(choose(index(), need=many, algorithm="ivf_sq8")) == (True, None, None)
    assert effort(choose(index(), need=many, conf={"hoodie.vector.index.exact.max.queries": "17"})) == (
        True,
        None,
        None,
    )
    assert effort(choose(index(), need=many, recall_target=0.9)) == (False, 8, 20)


def test_graphs_are_for_searches_that_give_up_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = index("hnsw")
    assert choose(graphs).reason == (
        "its index is hnsw, which gives no exact answers: add a recall_target below 1, or mode => 'approximate'"
    )
    assert choose(graphs, recall_target=1).index is None
    assert effort(choose(graphs, recall_target=0.9)) == (False, 8, 20)
    assert effort(choose(index("hnsw", target=0.9))) == (False, 8, 20)
    assert choose(graphs, recall_target=0.9999).reason.startswith("none of the settings measured for its hnsw index")
    # An index that can be certain stands in its place, and before it.
    assert effort(choose(graphs, index("ivf_pq"))) == (True, None, None)
    both = (graphs, index("ivf_pq"))
    assert choose(*both, mode="approximate").index is both[1]
    assert choose(*both, mode="approximate", algorithm="hnsw").index is graphs
    for asked, sentence in (
        ({}, "metric l2, and its index is hnsw, which gives no exact answers: .*; or leave the algorithm out"),
        (
            {"recall_target": 0.9999},
            "measured for its hnsw index found more than 0.999: add nprobes, or lower the recall target; or",
        ),
    ):
        with pytest.raises(InvalidArgumentError, match=sentence):
            choose(*both, algorithm="hnsw", **asked)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert "needs 'faiss-cpu': install it with pip" in choose(graphs, recall_target=0.9).reason
    assert choose(*both, mode="approximate").index is both[1]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"mode": 7}, InvalidTypeError, "the argument 'mode' must be text, not 7"),
    ({"nprobes": True, "mode": "approximate"}, InvalidArgumentError, "nprobes must be a whole number, 1 or more"),
    ({"refine_factor": 2}, InvalidArgumentError, "refine_factor gives up exactness, and nothing asked for that"),
    ({"nprobes": 2, "recall_target": 1}, InvalidArgumentError, "nprobes gives up exactness"),
    ({"recall_target": "0.9"}, InvalidArgumentError, "recall_target must be a number above 0, up to 1, not '0.9'"),
    ({"algorithm": "ivf_flat"}, InvalidArgumentError, "metric l2, and its index is ivf_sq8; make such an index with"),
    ({"conf": {"hoodie.vector.search.recall.target": "95"}}, InvalidOptionError, "= '95' is not allowed: give a num"),
    ({"conf": {"hoodie.vector.search.mode": "fast"}}, InvalidOptionError, "give one of auto, exact, approximate"),
    ({"algorithm": "ivf_sq8", "conf": {"hoodie.vector.search.mode": "exact"}}, InvalidArgumentError, "uses no index"),
]


@pytest.mark.parametrize(("asked", "kind", "sentence"), WRONG)
def test_wrong_use(asked: dict[str, Any], kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        choose(index(), **asked)


@given(k=st.integers(1, 3000), candidates=st.integers(1, 100_000))
def test_as_many_candidates_are_scored_as_were_measured(k: int, candidates: int) -> None:
    measured = (Setting(8, candidates, 1.0, 400, k),)
    found = choose(index(calibration=measured), need=replace(NEED, k=k), recall_target=0.9)
    assert effort(found, k)[2] == max(k, candidates)
