"""The fusion of several columns' scores where a plain sum is not enough: by ranks, or by the score range of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics import METRICS, Floats
from hudi_vector.kernels.topk import Hits, Ints
from hudi_vector.query.hybrid.best import Scale
from hudi_vector.query.hybrid.ladder import Limits
from hudi_vector.query.hybrid.question import RANK_CONSTANT, HybridQuestion
from hudi_vector.query.hybrid.ranks import ranks_needed

__all__ = ["candidates_of_rows", "costs_by_rank", "nearer_than", "scale_of"]


def scale_of(question: HybridQuestion, passed: Iterable[tuple[Floats, Floats]]) -> Scale:
    """Return how scores are normalized, from the least and largest distances that each part of the rows has.

    The arrays of a part have shape (queries, columns). Where no row was seen, offset and span are 0.
    """
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


def costs_by_rank(
    question: HybridQuestion,
    hits: Hits,
    candidates: Callable[[HybridQuestion, Hits], npt.NDArray[np.bool_]],
    counted: Callable[[Limits], Iterable[Any]],
) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return a mask of the hits that may be among the best by ranks, and the costs of all hits, both of shape (h,).

    `hits` must be those of all parts of the rows, of which `candidates` returns the mask; `counted` counts the rows of
    each part between limits. A cost is the negated score, and 0 where the mask is False.
    """
    cost = np.zeros(len(hits))
    if hits.by_column is None:
        return np.zeros(len(hits), np.bool_), cost
    near = candidates(question, hits)
    query, distances = hits.query[near], hits.by_column[near]
    limits = _limits_of(question, query, distances)
    nearer = nearer_than(counted(limits))
    cost[near] = 0.0 - _scores_of_ranks(question, limits, nearer, query, distances)
    return near, cost


def candidates_of_rows(question: HybridQuestion, hits: Hits) -> npt.NDArray[np.bool_]:
    """Return a mask, shape (h,), of the hits that are near enough in a column to be among the k best rows by ranks.

    `hits` must be those of all parts of the rows.
    """
    query, distances = hits.query, hits.by_column
    assert distances is not None
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


def _limits_of(question: HybridQuestion, query: Ints, distances: Floats) -> Limits:
    """Return the distinct distances of the candidates for every query and column, ascending."""
    columns = range(len(question.columns))
    parts = [distances[query == asked] for asked in range(question.queries)]
    return tuple(tuple(np.unique(part[:, number]) for number in columns) for part in parts)


def nearer_than(counted: Iterable[Any]) -> list[list[Ints]]:
    """Return how many rows are nearer than each limit, for every query and column, from the counts of all parts."""
    added = [
        [np.sum(column, axis=0) for column in zip(*of_query, strict=True)] for of_query in zip(*counted, strict=True)
    ]
    return [[np.cumsum(column)[:-1] for column in of_query] for of_query in added]


def _scores_of_ranks(
    question: HybridQuestion,
    limits: Limits,
    nearer: list[list[Ints]],
    query: Ints,
    distances: Floats,
) -> Floats:
    """Return the scores, shape (h,): the sums of weight / (60 + rank), where rank is 1 + the number of nearer rows."""
    total = np.zeros(len(query))
    for asked in np.unique(query):
        here = np.flatnonzero(query == asked)
        for number, entry in enumerate(question.columns):
            if entry.weight > 0:
                at = np.searchsorted(limits[asked][number], distances[here, number])
                total[here] += entry.weight / (RANK_CONSTANT + 1.0 + nearer[asked][number][at])
    return total
