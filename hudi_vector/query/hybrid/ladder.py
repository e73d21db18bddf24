"""The best groups by ranks: a ladder of distances bounds every score before all ranks are known.

Without groups, some of the nearest rows of each column are sure to hold the k best. The rows of one group may crowd
there, however many are taken. So the ranks of some sampled rows are counted first. They bound the ranks of all others,
and the bounds of a row's score decide whether it can be the best of its group, and its group among the k best:

- A row whose distance in a column lies between two rungs has at least as many nearer rows as the lower rung, and at
  most as many as the upper one. The sum of weight / (60 + rank) over the columns is then between two known scores.
- k groups with a row each that certainly reaches a score S leave no place for a row that certainly stays below S.
- A row that certainly stays below what another row of its group reaches is not the best of its group. So a group that
  crowds has few candidates, and a search that finds fewer than k groups has few of each.

The ranks of the candidates are then counted exactly. Rungs decide how many candidates there are, never the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hudi_vector.kernels.groups import SpanPool
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints
from hudi_vector.query.grouped.passes import Members
from hudi_vector.query.grouping.keys import GroupCodes
from hudi_vector.query.hybrid.groups import BestGroups
from hudi_vector.query.hybrid.question import RANK_CONSTANT, HybridQuestion
from hudi_vector.read.several import Together

__all__ = ["Ladder", "Limits", "RankedGroups", "Sampled", "candidates_of_groups", "rungs_of"]

Limits = tuple[tuple[Floats, ...], ...]
"""Distinct distances for every query and column, ascending."""

_ONE_IN, _LEAST = 64, 32
_FIRST, _MORE = 64, 128
_HELD = 4 * (_FIRST + _MORE)


@dataclass(frozen=True)
class Ladder:
    """Distances of some rows for every query and column, ascending, and how many of all rows are nearer than each."""

    rungs: Limits
    nearer: Sequence[Sequence[Ints]]

    def fewest(self, query: int, number: int, distances: Floats) -> Floats:
        """Return numbers of rows, no larger than how many are nearer to a query in a column than each distance."""
        place = np.searchsorted(self.rungs[query][number], distances, "right")
        return np.concatenate(([0.0], self.nearer[query][number]))[place]

    def most(self, query: int, number: int, distances: Floats) -> Floats:
        """Return numbers of rows, no smaller than how many are nearer; infinite beyond the last rung."""
        place = np.searchsorted(self.rungs[query][number], distances, "left")
        return np.concatenate((self.nearer[query][number], [np.inf]))[place]


class Sampled:
    """A measure of the distances of some rows, for every query and each column with a weight."""

    def __init__(self, question: HybridQuestion) -> None:
        self._question = question
        self.result = [[np.empty(0) for _ in question.columns] for _ in range(question.queries)]

    def candidates(self) -> Ints:
        """Return no positions: rows are only measured."""
        return np.empty(0, np.int64)

    def offer(self, blocks: Together) -> None:
        """Measure some rows of some blocks, evenly spread."""
        rows = np.zeros(len(blocks[0]), np.bool_)
        rows[:: max(1, min(_ONE_IN, len(rows) // _LEAST))] = True
        for number, entry in enumerate(self._question.columns):
            if entry.weight:
                block = blocks[number].select(rows)
                for query, own in enumerate(self.result):
                    own[number] = np.append(own[number], entry.distances(block, self._question.probes[number], query))
                    if len(own[number]) > _HELD:
                        own[number] = _thinned(own[number])


def rungs_of(question: HybridQuestion, sampled: Iterable[Sequence[Sequence[Floats]]]) -> Limits:
    """Return the rungs of a ladder from the distances that were sampled in each part of the rows."""
    parts, columns = list(sampled), range(len(question.columns))
    return tuple(
        tuple(_thinned(np.concatenate([np.empty(0), *(part[query][number] for part in parts)])) for number in columns)
        for query in range(question.queries)
    )


def _thinned(distances: Floats) -> Floats:
    """Return distinct distances, ascending: all of the smallest, and of the others fewer the larger they are."""
    found: Floats = np.unique(distances[~np.isnan(distances)])
    if len(found) > _FIRST + _MORE:
        more = np.geomspace(_FIRST, len(found) - 1, _MORE).astype(np.int64)
        found = found[np.unique(np.concatenate([np.arange(_FIRST), more]))]
    return found


class RankedGroups(BestGroups):
    """A collector of the rows that may be the best of the k best groups by ranks, or of given groups.

    The distance of a hit is the least cost that it may have, a negated score; `by_column` ends with the largest.
    """

    def __init__(self, question: HybridQuestion, bounds: Bounds, ladder: Ladder, members: Members | None) -> None:
        self._ladder = ladder
        super().__init__(question, bounds, members=members)

    def _made_pool(self, count: int, pairs: tuple[Ints, Ints] | None) -> SpanPool:
        return SpanPool(count, self._question.k if pairs is None else None, self._bounds)

    def _exact(self, blocks: Together, rows: Any, asked: Any, known: dict[int, Floats], first: int) -> Floats:
        exact, query = super()._exact(blocks, rows, asked, known, first), asked + first
        largest = np.zeros(len(exact))
        for number, entry in enumerate(self._question.columns):
            if entry.weight:
                for one in np.unique(query):
                    here = query == one
                    nearer = self._ladder.most(one, number, exact[here, number])
                    largest[here] += entry.weight / (RANK_CONSTANT + 1.0 + nearer)
        return np.column_stack([exact, 0.0 - largest])

    def _share(self, number: int, distances: Floats, asked: Any) -> Floats:
        """Return the most that a column may add to the score."""
        nearer = np.empty(distances.shape)
        if isinstance(asked, slice):
            for place, query in enumerate(range(asked.start, asked.stop)):
                nearer[:, place] = self._ladder.fewest(query, number, distances[:, place])
        else:
            for query in np.unique(asked):
                here = asked == query
                nearer[here] = self._ladder.fewest(query, number, distances[here])
        share: Floats = self._question.columns[number].weight / (RANK_CONSTANT + 1.0 + nearer)
        return share


def candidates_of_groups(question: HybridQuestion, hits: Hits, is_of_members: bool) -> Any:
    """Return a mask of the hits of all parts of the rows, shape (h,), that may be among the best of their groups.

    `hits` are those of `RankedGroups`, with the keys of their groups.
    """
    kept = np.zeros(len(hits), np.bool_)
    if len(hits):
        assert question.grouping is not None
        assert hits.group is not None
        bounds = Bounds.of(question.queries)
        pool = SpanPool(question.grouping.per_group, None if is_of_members else question.k, bounds)
        codes = GroupCodes().of_keys(hits.group.tolist())
        pool.add(Hits(hits.query, hits.distance, np.arange(len(hits)), hits.by_column, codes))
        kept[pool.hits().position] = True
    return kept
