"""Rows with several vector columns, and the brute force a hybrid search is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from support import oracle


@dataclass(frozen=True)
class Asked:
    """One column of a hybrid search: its vectors by key (None for NULL), a query, a metric, a weight."""

    vectors: Mapping[str, Any]
    query: Any
    metric: str = "cosine"
    weight: float = 1.0


def distance(vector: Any, query: Any, metric: str) -> float:
    """The distance of two vectors, both arrays or both dicts, by the plain formulas."""
    if isinstance(vector, Mapping):
        union = sorted({*vector, *query})
        vector = [vector.get(index, 0.0) for index in union] or [0.0]
        query = [query.get(index, 0.0) for index in union] or [0.0]
    return float(oracle.distances(np.array([vector], np.float64), np.array(query, np.float64), metric)[0])


def score_of(found: float, metric: str) -> float:
    """Larger is better."""
    if metric == "l2":
        return 1 / (1 + found)
    return 1 - found if metric == "cosine" else -found


def brute_force(
    asked: Sequence[Asked], k: int, fusion: str = "weighted", normalize: bool = False
) -> list[tuple[float, str, list[float]]]:
    """(score, key, distances) of the k best rows, those of equal score by key."""
    keys = [key for key in asked[0].vectors if all(one.vectors[key] is not None for one in asked)]
    far = {key: [distance(one.vectors[key], one.query, one.metric) for one in asked] for key in keys}
    total = dict.fromkeys(keys, 0.0)
    for number, one in enumerate(asked):
        column = np.array([far[key][number] for key in keys])
        scores = [score_of(value, one.metric) for value in column]
        if normalize and keys:
            span = max(scores) - min(scores)
            scores = [(score - min(scores)) / span if span else 0.0 for score in scores]
        for key, score, value in zip(keys, scores, column, strict=True):
            total[key] += one.weight / (61 + (column < value).sum()) if fusion == "rrf" else one.weight * score
    ordered = sorted(keys, key=lambda key: (-total[key], key.encode()))
    return [(total[key], key, far[key]) for key in ordered[:k]]


def assert_same(got: Sequence[tuple[float, str, Sequence[float]]], wanted: Sequence[tuple[float, str, Any]]) -> None:
    """As many rows, with these scores and distances; keys may change places only where scores nearly tie."""
    assert len(got) == len(wanted), f"{len(got)} rows, expected {len(wanted)}"
    np.testing.assert_allclose([row[0] for row in got], [row[0] for row in wanted], rtol=1e-6, atol=1e-9)
    assert [row[0] for row in got] == sorted((row[0] for row in got), reverse=True)
    gaps = -np.diff([row[0] for row in wanted])
    if ((gaps > 1e-9) | (gaps == 0)).all():
        assert [row[1] for row in got] == [row[1] for row in wanted]
        for row, expected in zip(got, wanted, strict=True):
            np.testing.assert_allclose(row[2], expected[2], rtol=1e-6, atol=1e-7)
