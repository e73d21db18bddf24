"""Recall targets hold for queries that are not rows of the table, whatever the vectors are like."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.indexed import view_of

from hudi_vector.index.build import Parameters
from hudi_vector.index.calibration.calibrate import calibrate, setting_at
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.load import load_view
from hudi_vector.query.files.plain_files import PlainFiles
from hudi_vector.query.opened.external import build_external
from hudi_vector.storage import StorageOptions

ROWS, ASKED = 7_000, 300
Vectors = npt.NDArray[np.float32]


def pooled_words(count: int, seed: int) -> Vectors:
    """Means of a few word vectors each, common words more often: many lie alone, few are near to many."""
    words, chance = np.random.default_rng(seed), np.random.default_rng([seed, count])
    fading = 1 / np.sqrt(1 + np.arange(96) / 8)
    topics = words.standard_normal((60, 96)) * fading
    vocabulary = topics[words.integers(0, 60, 8000)] * 0.8 + words.standard_normal((8000, 96)) * fading
    often = 1 / np.arange(3, 8003)
    lengths = chance.integers(2, 16, count)
    drawn = chance.choice(8000, lengths.sum(), p=often / often.sum())
    return (np.add.reduceat(vocabulary[drawn], np.cumsum(lengths) - lengths) / lengths[:, None]).astype(np.float32)


def mixture(count: int, seed: int) -> Vectors:
    """Clusters that lie one in another."""
    middles, chance = np.random.default_rng(seed), np.random.default_rng([seed, count])
    centres = 0.7 * middles.standard_normal((300, 64))
    return (centres[chance.integers(0, 300, count)] + chance.standard_normal((count, 64))).astype(np.float32)


def true_rows(rows: Vectors, asked: Vectors, k: int) -> npt.NDArray[np.int64]:
    """The k nearest by cosine, the nearest first."""
    far, near = (one.astype(np.float64) / np.linalg.norm(one, axis=1, keepdims=True) for one in (rows, asked))
    return np.argsort(-near @ far.T, axis=1)[:, :k]


@cache
def drawn(draw: Callable[[int, int], Vectors], seed: int) -> tuple[Vectors, Vectors, npt.NDArray[np.int64]]:
    """Rows, queries that are none of them, and the numbers of the rows that are nearest to each."""
    rows, asked = draw(ROWS, seed), draw(ASKED, seed)
    return rows, asked, true_rows(rows, asked, 30)


@pytest.mark.parametrize(
    ("kind", "draw", "seed"),
    [*((kind, draw, 1) for kind in KINDS for draw in (pooled_words, mixture)), ("hnsw", pooled_words, 2)],
)
def test_a_target_holds_for_queries_that_are_no_rows(
    tmp_path: Path, kind: str, draw: Callable[[int, int], Vectors], seed: int
) -> None:
    rows, asked, truth = drawn(draw, seed)
    held = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    pq.write_table(pa.table({"emb": held}), tmp_path / "a.parquet")
    snapshot = PlainFiles([str(tmp_path / "a.parquet")], StorageOptions(), "emb").snapshot()
    # One bit an element takes very many candidates where vectors are as short as these.
    parameters = Parameters(kind=kind, metric="cosine", num_bits=4 if kind == "ivf_rabitq" else None)
    index = build_external(snapshot, "emb", parameters, str(tmp_path / "indexes"))
    view = load_view(index.folder, index.manifest.model_id, index.manifest.entries, StorageOptions(), keep=False)
    true_keys = np.arange(ASKED)[:, None] * ROWS + truth
    for k in (1, 10, 30):
        for target in (0.8, 0.9, 0.95):
            effort = setting_at(index.manifest.calibration, k, target)
            assert effort is not None, (k, target)
            assert effort.candidates < ROWS / 40, "a target is not held by reading everything"
            if KINDS[kind].codes not in ("parts", "bits"):
                assert effort.candidates <= max(10, 1.25 * k), "whole bytes order rows almost as the vectors do"
            how = {"nprobes": effort.nprobes, "candidates": effort.candidates, "certain": False}
            found = view.candidates(asked, k, **how)
            share = np.isin(true_keys[:, :k], found.query * ROWS + found.position).mean()
            assert share >= target, (k, target, effort)


def test_a_row_that_asks_leads_no_walk_to_its_neighbours() -> None:
    rows = pooled_words(4_000, 3)
    asking = np.arange(0, 4_000, 40)
    first = view_of([rows[:3_000], rows[3_000:]], "cosine", "hnsw", "float", None)
    segment = (asking >= 3_000).astype(np.int64)
    position = asking - 3_000 * segment
    without = first.without(np.append(segment, -1), np.append(position, 7))
    for effort in (10, 3_000):  # a walk, and all codes
        found = without.candidates(rows[asking], 5, nprobes=effort, candidates=10, certain=False)
        met = found.position + 3_000 * found.segment
        assert not np.isin(met, asking).any()
        assert np.bincount(found.query).tolist() == [10] * len(asking)
    # The view itself is as it was.
    found = first.candidates(rows[asking], 5, nprobes=10, candidates=10, certain=False)
    assert np.isin(asking, found.position + 3_000 * found.segment).mean() > 0.9


def test_the_margin_follows_from_how_many_queries_there_are() -> None:
    rows, asked = mixture(3_000, 5), mixture(160, 5)
    view = view_of([rows], "cosine", "ivf_sq8", "float", 40)
    truth = true_rows(rows, asked, 10)
    margins = []
    for count in (10, 40, 160):
        settings = calibrate(view, asked[:count], np.zeros_like(truth[:count]), truth[:count])
        assert all(0 < setting.margin < 0.3 and setting.least < setting.recall for setting in settings)
        margins.append(np.mean([setting.margin for setting in settings]))
    assert margins[0] > 1.3 * margins[1] > 1.3**2 * margins[2]
    # Ten queries that find the nearest row do not show that 99 of 100 do.
    one = calibrate(view, asked[:10], np.zeros((10, 1), np.int64), truth[:10, :1], ks=(1,))
    assert one[-1].recall == 1.0
    assert one[-1].least < 0.95
