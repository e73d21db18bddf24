"""The joined view: what is asked of it, what it says it did, and what calibration makes of it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.indexed import rows_of, segment_of, true_rows, vectors, view_of

from hudi_vector.errors import DataFileError, DimensionMismatchError, InvalidArgumentError
from hudi_vector.index.calibration.calibrate import calibrate, setting_for
from hudi_vector.index.kinds import view as index_view
from hudi_vector.index.kinds.joined import joined_view
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import train_model
from hudi_vector.kernels.metrics import INDEXED

VALUES = vectors("clustered", 3000, 16, "float", 3)
PARTS = np.array_split(VALUES, 4)
STARTS = np.cumsum([0, *(len(part) for part in PARTS)])[:-1]
VIEW = view_of(PARTS, "l2", "ivf_sq8", "float", 40)


def test_lists_that_cannot_hold_the_answer_are_not_looked_at() -> None:
    found = VIEW.candidates(VALUES[7], 5)
    assert found.scored_codes < len(VALUES) / 2
    assert 0 < found.probed_lists < 30
    assert 5 <= len(found) < 100


def test_faiss_finds_the_codes_that_numpy_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(5)
    asked = VALUES[chance.integers(0, len(VALUES), 30)] + chance.normal(size=(30, 16)) * 0.1
    masked = np.split(chance.random(len(VALUES)) < 0.3, STARTS[1:])
    for metric in sorted(INDEXED):
        with_faiss, without = (view_of(PARTS, metric, "ivf_sq8", "float", 40) for _ in range(2))
        own = len(VALUES) * (16 + 2 * 4 + 12) + 41 * 8 + 40 * 4 + 5 * 8
        assert with_faiss.nbytes == own + len(VALUES) * 8 + 40 * 16 * 4
        with monkeypatch.context() as patched:
            patched.setattr(index_view, "is_installed", lambda: False)
            assert without.nbytes == own
        for allowed in (None, masked):
            how = {"certain": False, "nprobes": 5, "candidates": 40, "allowed": allowed}
            mine, theirs = (view.candidates(asked, 10, **how) for view in (with_faiss, without))
            assert (mine.probed_lists, mine.scored_codes) == (theirs.probed_lists, theirs.scored_codes)
            shared = [
                len({*rows_of(mine, query, STARTS)} & {*rows_of(theirs, query, STARTS)}) for query in range(len(asked))
            ]
            # The last of the forty may be as near as the next one.
            assert min(shared) >= 39
            for query in (0, 7):
                alone = with_faiss.candidates(asked[query], 10, **how)
                assert sorted(rows_of(alone, 0, STARTS)) == sorted(rows_of(mine, query, STARTS))


def test_one_segment_is_in_memory_at_a_time() -> None:
    model, made = VIEW.model, list[weakref.ref[Any]]()
    shapes = [segment_of(model, part).shape for part in PARTS]

    def one_by_one() -> Iterator[Any]:
        for part in PARTS:
            assert sum(segment() is not None for segment in made) <= 1  # the one that was joined last
            segment = segment_of(model, part)
            made.append(weakref.ref(segment))
            yield segment
            del segment

    view = joined_view(model, one_by_one(), shapes)
    assert len(made) == len(PARTS)
    for name in ("offsets", "row", "codes", "extra", "radius", "always", "bases"):
        assert np.array_equal(getattr(view, name), getattr(VIEW, name))
    with pytest.raises(DataFileError, match="changed while it was read"):
        joined_view(model, [segment_of(model, PARTS[1][1:])], shapes[1:2])


@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_pq"])
def test_faiss_reads_the_codes_where_they_are(kind: str) -> None:
    view = view_of(PARTS, "l2", kind, "float", 40)
    asked = {"certain": False, "nprobes": 4, "candidates": 20}
    before = view.candidates(VALUES[:1], 5, **asked)
    nearest = np.flatnonzero(view.row == STARTS[before.segment[0]] + before.position[0])
    view.codes[nearest] = ~view.codes[nearest]
    after = view.candidates(VALUES[:1], 5, **asked)
    assert {*rows_of(before, 0, STARTS)} - {*rows_of(after, 0, STARTS)} == {int(view.row[nearest[0]])}


def test_one_list_and_few_codes_are_looked_at_where_that_is_asked_for() -> None:
    found = VIEW.candidates(VALUES[:3], 5, certain=False, nprobes=1, candidates=7)
    assert found.probed_lists == 3
    assert np.bincount(found.query).tolist() == [7, 7, 7]
    # Lists are added until there are k rows.
    found = VIEW.candidates(VALUES[:3], 500, certain=False, nprobes=1, candidates=1)
    assert np.bincount(found.query).tolist() == [500, 500, 500]
    assert found.probed_lists > 3


def test_segments_of_any_number_make_the_same_view() -> None:
    one = view_of([VALUES], "l2", "ivf_sq8", "float", 40)
    for certain in (True, False):
        mine = VIEW.candidates(VALUES[:20] + 0.1, 10, certain=certain)
        theirs = one.candidates(VALUES[:20] + 0.1, 10, certain=certain)
        for query in range(20):
            assert rows_of(mine, query, STARTS) == rows_of(theirs, query, [0])


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, "far"])
@pytest.mark.parametrize("certain", [True, False])
def test_a_filter_lets_k_rows_through_also_far_away(share: float | str, certain: bool) -> None:
    if share == "far":
        bitmap = np.linalg.norm(VALUES - VALUES[0], axis=1) > np.quantile(
            np.linalg.norm(VALUES - VALUES[0], axis=1), 0.8
        )
    else:
        bitmap = np.random.default_rng(1).random(len(VALUES)) < share
    allowed = np.split(bitmap, STARTS[1:])
    found = VIEW.candidates(VALUES[:1], 10, certain=certain, nprobes=4, candidates=50, allowed=allowed)
    rows = rows_of(found, 0, STARTS)
    truth = true_rows(VALUES, VALUES[0], "l2", 10, bitmap)
    assert bitmap[rows].all()
    assert len(truth & set(rows)) >= (10 if certain else 9)


def test_too_many_candidates_are_given_up_where_that_is_asked_for() -> None:
    same = np.repeat(VALUES[:2], [900, 100], axis=0)
    view = view_of([same], "cosine", "ivf_sq8", "float", 4)
    asked = np.stack([same[0], same[-1], np.zeros(16)])
    for queries in (asked, asked[:1]):
        found = view.candidates(queries, 3, most=500)
        assert found.given_up.tolist() == ([0, 2] if len(queries) == 3 else [0])
        assert set(found.query.tolist()) == ({1} if len(queries) == 3 else set())
    assert np.bincount(view.candidates(asked, 3).query).tolist() == [900, 100, 1000]


def test_rows_without_a_code_are_candidates_of_every_query() -> None:
    values = VALUES[:300].copy()
    values[[3, 200]] = 0
    view = view_of(np.split(values, [100]), "cosine", "ivf_sq8", "float", 10)
    for certain in (True, False):
        found = view.candidates(VALUES[10:12], 2, certain=certain)
        for query in range(2):
            assert {3, 200} <= set(rows_of(found, query, [0, 100]))
    allowed = [None, np.arange(200) != 100]
    assert 200 not in rows_of(view.candidates(VALUES[10], 2, allowed=allowed), 0, [0, 100])


def test_drift_is_counted_and_errors_say_what_is_wrong() -> None:
    model = train_model(VALUES, metric="l2", element="float")
    assert segment_of(model, VALUES).clipped == 0
    assert segment_of(model, VALUES * 10).clipped > 2000
    with pytest.raises(InvalidArgumentError, match="queries have 3 elements and the index is of 16"):
        VIEW.candidates(np.ones(3), 1)
    for wrong in ([None], [None, None, None, np.ones(3, np.bool_)]):
        with pytest.raises(InvalidArgumentError, match="must have one entry for each segment"):
            VIEW.candidates(np.ones(16), 1, allowed=wrong if len(wrong) == 4 else [np.ones(750, np.bool_)])
    with pytest.raises(DimensionMismatchError, match="holds vectors of 4 elements and the index is of 16"):
        segment_of(model, VALUES[:, :4])
    for kind in KINDS:
        empty = joined_view(train_model(VALUES, kind=kind, metric="l2", element="float"), [])
        for certain in (True, False):
            assert len(empty.candidates(np.ones((2, 16)), 3, certain=certain)) == 0
    assert len(VIEW.candidates(np.empty((0, 16)), 3)) == 0


def test_calibration_finds_the_cheapest_setting_that_reaches_a_recall() -> None:
    values = vectors("normal", 4000, 16, "float", 5)
    view = view_of([values[:1000], values[1000:]], "l2", "ivf_sq8", "float", 64)
    queries = vectors("normal", 50, 16, "float", 6)
    truth = np.array([sorted(true_rows(values, query, "l2", 10))[:10] for query in queries])
    segments = (truth >= 1000).astype(np.int64)
    settings = calibrate(view, queries, segments, truth - 1000 * segments)
    recalls = [setting.recall for setting in settings]
    assert recalls == sorted(set(recalls))
    assert recalls[0] < 0.9 < recalls[-1] == 1.0
    chosen = setting_for(settings, 0.9)
    assert chosen is not None
    assert chosen.recall >= 0.9
    assert chosen.nprobes < 64
    found = view.candidates(queries, 10, certain=False, nprobes=chosen.nprobes, candidates=chosen.candidates)
    hits = [len(set(rows_of(found, i, [0, 1000])) & set(truth[i].tolist())) for i in range(50)]
    assert np.isclose(np.mean(hits) / 10, chosen.recall)
    assert setting_for(settings[:1], 0.999) is None
    nothing = np.full((50, 10), -1)
    assert calibrate(view, queries, nothing, nothing) == ()
    with pytest.raises(InvalidArgumentError, match=r"both must be \(50, 10\)"):
        calibrate(view, queries, nothing[:3], nothing)


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_rabitq"])
def test_a_calibrated_effort_is_little_more_than_the_least(kind: str) -> None:
    """Numbers of lists are measured at every quarter between powers of two, where they find clearly more.

    Of ``ivf_sq8`` some lists more may be cheaper than the candidates that they save.
    """
    values, queries = vectors("normal", 4000, 16, "float", 5), vectors("normal", 50, 16, "float", 6)
    view = view_of([values], "l2", kind, "float", 64)
    truth = np.array([sorted(true_rows(values, query, "l2", 10))[:10] for query in queries])
    settings = [replace(each, margin=0.0) for each in calibrate(view, queries, np.zeros_like(truth), truth)]

    def recall(nprobes: int) -> float:
        found = view.candidates(queries, 10, certain=False, nprobes=nprobes, candidates=500)
        return float(np.mean([np.isin(truth[i], rows_of(found, i, [0])).mean() for i in range(50)]))

    recalls = {nprobes: recall(nprobes) for nprobes in range(1, 65)}
    for target in (0.85, 0.9, 0.95):
        chosen, least = setting_for(settings, target), min(n for n, reached in recalls.items() if reached >= target)
        assert chosen is not None
        assert chosen.nprobes <= least + max(1, least // 4), (target, chosen, least)


@pytest.mark.parametrize("by_faiss", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_fewer_candidates_are_the_first_of_more(kind: str, by_faiss: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration searches once for many candidates; rows without a code come before them in each query."""
    values = vectors("normal", 1200, 16, "float", 5)
    values[::300] *= 1e30
    if not by_faiss:
        monkeypatch.setattr(index_view.IndexView, "_by_faiss", None)
    view = view_of([values[:700], values[700:]], "l2", kind, "float", 9)
    assert view.best_first == (kind != "hnsw")
    assert view.vectors - len(view) == 4
    queries = vectors("normal", 20, 16, "float", 6)

    def found(count: int) -> list[list[int]]:
        some = view.candidates(queries, 3, nprobes=4, candidates=count, certain=False)
        rows = view.bases[some.segment] + some.position
        return [rows[some.query == query].tolist() for query in range(len(queries))]

    many = found(150)
    for own in many:
        assert sorted(own[:4]) == [0, 300, 600, 900]
    if view.best_first:
        assert found(30) == [own[:34] for own in many]
        assert found(5) == [own[:9] for own in many]


@pytest.mark.parametrize("kind", ["ivf_sq8", "ivf_pq"])
def test_queries_shared_among_threads_get_what_each_gets_alone(kind: str) -> None:
    faiss = pytest.importorskip("faiss")
    values, queries = vectors("normal", 3000, 16, "float", 5), vectors("normal", 150, 16, "float", 6)
    view = view_of([values[:1000], values[1000:]], "l2", kind, "float", 16)

    def found(some: np.ndarray) -> list[list[int]]:
        own = view.candidates(some, 5, nprobes=3, candidates=15, certain=False)
        rows = view.bases[own.segment] + own.position
        return [rows[own.query == query].tolist() for query in range(len(some))]

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    try:
        together = found(queries)
    finally:
        faiss.omp_set_num_threads(before)
    assert together == [own for query in queries for own in found(query[None])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", sorted(INDEXED))
@pytest.mark.parametrize(
    ("dimension", "element"), [(2, "float"), (17, "int8"), (64, "double"), (384, "float"), (2048, "int8")]
)
def test_every_kind_reaches_a_recall(kind: str, metric: str, dimension: int, element: str) -> None:
    rows = 1200 if dimension < 100 else 400
    values = vectors("clustered", rows, dimension, element, 11)
    parts = np.array_split(values, 3)
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    numbers = {"num_sub_vectors": 128} if (kind, dimension) == ("ivf_pq", 2048) else {}
    view = view_of(parts, metric, kind, element, 20, **numbers)
    asked = vectors("clustered", 40, dimension, element, 11)[:40].astype(np.float64) * 1.01
    truth = np.array([sorted(true_rows(values, query, metric, 10))[:10] for query in asked])
    segment = np.searchsorted(starts, truth, side="right") - 1
    settings = calibrate(view, asked[:20], segment[:20], (truth - starts[segment])[:20])
    chosen = setting_for(settings, 0.95)
    assert chosen is not None
    effort = {"nprobes": chosen.nprobes, "candidates": chosen.candidates, "certain": False}
    found = view.candidates(asked[20:], 10, **effort)
    shares = [len(set(rows_of(found, i, starts)) & set(truth[20 + i].tolist())) / 10 for i in range(20)]
    assert np.mean(shares) >= 0.85
    # A batch is its single queries.
    for i in range(0, 20, 5):
        assert rows_of(view.candidates(asked[20 + i], 10, **effort), 0, starts) == rows_of(found, i, starts)


def test_every_row_is_as_near_as_any_other_to_a_zero_vector_under_cosine() -> None:
    view = view_of(PARTS, "cosine", "ivf_sq8", "float", 10)
    few = [np.arange(len(part)) % 50 == 0 for part in PARTS]
    for allowed, rows in ((None, 3000), (few, sum(int(part.sum()) for part in few))):
        for certain in (True, False):
            assert len(view.candidates(np.zeros(16), 3, certain=certain, allowed=allowed)) == rows
