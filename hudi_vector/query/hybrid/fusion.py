"""How the scores of several columns become one where a sum is not enough: the ranks and the scale of all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hudi_vector.kernels.metrics import METRICS, Floats
from hudi_vector.kernels.topk import Ints
from hudi_vector.query.hybrid.best import Scale
from hudi_vector.query.hybrid.question import RANK_CONSTANT, HybridQuestion
from hudi_vector.query.hybrid.ranks import ranks_needed

__all__ = ["by_rank", "kept_near", "limits_of", "scale_of", "score_of_ranks"]


def scale_of(question: HybridQuestion, passed: Iterable[tuple[Floats, Floats]]) -> Scale:
    """What normalizing takes off and divides by, from the least and largest distances of all parts of the rows."""
    parts = list(passed)
    shape = (question.queries, len(question.columns))
    least, span = np.zeros(shape), np.zeros(shape)
    for number, entry in enumerate(question.columns):
        nearest = np.min([part[:, number] for part, _ in parts] or [np.full(shape[0], np.inf)], axis=0)
        farthest = np.max([part[:, number] for _, part in parts] or [np.full(shape[0], -np.inf)], axis=0)
        seen = nearest <= farthest
        least[seen, number] = METRICS[entry.metric].scores(farthest[seen])
        span[seen, number] = METRICS[entry.metric].scores(nearest[seen]) - least[seen, number]
    return Scale(least, span)


def kept_near(question: HybridQuestion, query: Ints, distances: Floats) -> Any:
    """Which candidates by rank are near enough in a column, now that all are known: a mask of shape (h,)."""
    needed = ranks_needed([entry.weight for entry in question.columns], question.k)
    kept = np.zeros(len(query), np.bool_)
    for asked in np.unique(query):
        here = np.flatnonzero(query == asked)
        for number, entry in enumerate(question.columns):
            if entry.weight > 0:
                column = distances[here, number]
                last = np.partition(column, needed - 1)[needed - 1] if len(column) >= needed else np.inf
                kept[here[column <= last]] = True
    return kept


def limits_of(question: HybridQuestion, query: Ints, distances: Floats) -> tuple[tuple[Floats, ...], ...]:
    """The distinct distances of the candidates for every query and column, ascending."""
    columns = range(len(question.columns))
    parts = [distances[query == asked] for asked in range(question.queries)]
    return tuple(tuple(np.unique(part[:, number]) for number in columns) for part in parts)


def by_rank(counted: Sequence[Any]) -> list[list[Ints]]:
    """How many rows are nearer than each limit, from the counts of all parts of the rows."""
    added = [
        [np.sum(column, axis=0) for column in zip(*of_query, strict=True)] for of_query in zip(*counted, strict=True)
    ]
    return [[np.cumsum(column)[:-1] for column in of_query] for of_query in added]


def score_of_ranks(
    question: HybridQuestion,
    limits: tuple[tuple[Floats, ...], ...],
    nearer: list[list[Ints]],
    query: Ints,
    distances: Floats,
) -> Floats:
    """The sums of weight / (60 + rank), the rank being 1 and how many rows are nearer."""
    total = np.zeros(len(query))
    for asked in np.unique(query):
        here = np.flatnonzero(query == asked)
        for number, entry in enumerate(question.columns):
            if entry.weight > 0:
                at = np.searchsorted(limits[asked][number], distances[here, number])
                total[here] += entry.weight / (RANK_CONSTANT + 1.0 + nearer[asked][number][at])
    return total
