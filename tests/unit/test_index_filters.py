"""Approximate searches under filters, loose, tight and far from the query: always k rows, nearly all of the truth."""

from __future__ import annotations

import numpy as np
import pytest
from support.indexed import fingerprint

from hudi_vector.index.calibration.calibrate import calibrate, setting_for
from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.kinds.joined import joined_view, made_segment
from hudi_vector.index.kinds.kinds import GRAPHS, KINDS
from hudi_vector.index.kinds.model import train_model
from hudi_vector.index.manifest import Setting
from hudi_vector.kernels.topk import make_block

ROWS, DIMENSION, K = 40_000, 24, 10
CHANCE = np.random.default_rng(0)
CENTRES = 2 * CHANCE.standard_normal((60, DIMENSION))
LABEL = CHANCE.integers(0, 60, ROWS)
VECTORS = (CENTRES[LABEL] + CHANCE.standard_normal((ROWS, DIMENSION))).astype(np.float32)
QUERIES = CENTRES[CHANCE.integers(0, 60, 40)] + CHANCE.standard_normal((40, DIMENSION))


def nearest(allowed: np.ndarray, queries: np.ndarray = QUERIES) -> np.ndarray:
    rows = np.flatnonzero(allowed)
    chosen = VECTORS[rows].astype(np.float64)
    ranks = (chosen**2).sum(axis=1) - 2 * queries @ chosen.T
    return rows[np.argsort(ranks, axis=1)[:, :K]]


@pytest.fixture(scope="module", params=KINDS)
def view(request: pytest.FixtureRequest) -> View:
    """All vectors in one segment."""
    model = train_model(VECTORS[:20_000], kind=request.param, metric="l2", element="float", rows=ROWS)
    block, _ = make_block(VECTORS, np.arange(ROWS))
    return joined_view(model, [made_segment(model, fingerprint(), iter([block]), ROWS)])


@pytest.fixture(scope="module")
def setting(view: View) -> Setting:
    """What a search with a filter takes: the effort for 0.99 without one."""
    truth = nearest(np.ones(ROWS, np.bool_), KNOWN)
    found = setting_for(calibrate(view, KNOWN, np.zeros_like(truth), truth), 0.99)
    assert found is not None
    return found


# The effort is set by these queries, and judged by others.
KNOWN = CENTRES[CHANCE.integers(0, 60, 40)] + CHANCE.standard_normal((40, DIMENSION))
FILTERS = {
    "half": CHANCE.random(ROWS) < 0.5,
    "a tenth": CHANCE.random(ROWS) < 0.1,
    "a hundredth": CHANCE.random(ROWS) < 0.01,
    "a thousandth": CHANCE.random(ROWS) < 0.001,
    "two clusters": np.isin(LABEL, [3, 41]),
    "eight clusters": np.isin(LABEL, range(50, 58)),
    "half of the clusters": LABEL < 30,
    "a tenth, by an element": VECTORS[:, 0] > np.quantile(VECTORS[:, 0], 0.9),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters(view: View, setting: Setting, name: str) -> None:
    allowed = FILTERS[name]
    found = view.candidates(
        QUERIES, K, nprobes=setting.nprobes, candidates=setting.candidates, certain=False, allowed=[allowed]
    )
    assert allowed[found.position].all()
    assert np.bincount(found.query, minlength=len(QUERIES)).min() >= K
    wanted = nearest(allowed)
    hit = [np.isin(wanted[number], found.position[found.query == number]).mean() for number in range(len(QUERIES))]
    assert np.mean(hit) >= 0.99


@pytest.mark.parametrize("view", [kind for kind in KINDS if kind != GRAPHS], indirect=True)
def test_more_lists_are_probed_only_where_rows_lie_together(view: View, setting: Setting) -> None:
    def probed(allowed: np.ndarray) -> int:
        asked = {"nprobes": 2, "candidates": setting.candidates, "certain": False}
        return view.candidates(QUERIES, K, **asked, allowed=[allowed]).probed_lists

    without_a_cluster = LABEL != 7
    for allowed, times in ((FILTERS["half"], 1), (without_a_cluster, 1), (FILTERS["half of the clusters"], 4)):
        usual = -(-2 * ROWS // np.count_nonzero(allowed))
        assert probed(allowed) == usual * times * len(QUERIES)


def test_fewer_rows_than_k(view: View) -> None:
    allowed = np.zeros(ROWS, np.bool_)
    allowed[[5, 700, 39_000]] = True
    found = view.candidates(QUERIES, K, nprobes=1, certain=False, allowed=[allowed])
    assert sorted(found.position[found.query == 7]) == [5, 700, 39_000]
