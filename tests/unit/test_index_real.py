"""Every kind of index over real vectors: scikit-learn's handwritten digits, 1,797 of 64 pixels, as floats and as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from support.indexed import rows_of, true_rows, view_of

from hudi_vector.index.calibrate import calibrate, setting_for
from hudi_vector.index.kinds import KINDS

DIGITS = load_digits().data
CUTS = [0, 600, 1200]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("metric", "element"), [("l2", "float"), ("cosine", "float"), ("dot_product", "int8")])
def test_digits(kind: str, metric: str, element: str) -> None:
    rows = DIGITS[:1700].astype("<f4" if element == "float" else "i1")
    asked = DIGITS[1700:1760]
    view = view_of(np.split(rows, CUTS[1:]), metric, kind, element, None)
    truth = [true_rows(rows, query, metric, 10) for query in asked]
    ten = np.array([sorted(one)[:10] for one in truth])
    segment = np.searchsorted(CUTS, ten, side="right") - 1
    chosen = setting_for(calibrate(view, asked[:30], segment[:30], (ten - np.array(CUTS)[segment])[:30]), 0.95)
    assert chosen is not None
    assert chosen.scored < len(rows)
    found = view.candidates(asked[30:], 10, nprobes=chosen.nprobes, candidates=chosen.candidates, certain=False)
    shares = [len(truth[30 + i] & set(rows_of(found, i, CUTS))) / len(truth[30 + i]) for i in range(30)]
    assert np.mean(shares) >= 0.9
    certain = view.candidates(asked[30:], 10)
    assert all(truth[30 + i] <= set(rows_of(certain, i, CUTS)) for i in range(30))
