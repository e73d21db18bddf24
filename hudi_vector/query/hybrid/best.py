"""The best rows of a hybrid search by their weighted scores, collected block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hudi_vector.kernels.groups import MemberPool
from hudi_vector.kernels.metrics import METRICS, Floats
from hudi_vector.kernels.sparse import SparseBlock
from hudi_vector.kernels.topk import Bounds, HitPool, Hits, Ints, VectorBlock
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.query.hybrid.screens import Screens, query_parts
from hudi_vector.read.several import Together

__all__ = ["BestRows", "Scale"]

_EXACT_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class Scale:
    """The normalization of scores: subtract `least`, divide by `span`; arrays of shape (m, c)."""

    least: Floats
    span: Floats


class BestRows:
    """A collector of the k rows of the highest score for every query, with their distances by column.

    A dense column with a weight above 0 is screened first, by a lower bound of the distance from a product in the rows'
    own precision. Only rows that may be among the best are scored exactly.
    """

    def __init__(self, question: HybridQuestion, bounds: Bounds, scale: Scale | None = None) -> None:
        self._question = question
        self._bounds = bounds
        self._scale = scale
        self._pool: HitPool | MemberPool = HitPool(question.k, bounds)
        self._screens = Screens(question)
        self.invalid = 0

    def offer(self, blocks: Together) -> None:
        """Consider the rows of some blocks."""
        for first, last in query_parts(len(blocks[0]), self._question.queries):
            self._offer(blocks, first, last)

    def hits(self) -> Hits:
        """Return the rows found so far; the distance of a hit is the negated score."""
        return self._pool.hits()

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be found."""
        return self._pool.candidates()

    def _offer(self, blocks: Together, first: int, last: int) -> None:
        count = len(blocks[0])
        best = np.zeros((count, last - first))
        known: dict[int, Floats] = {}
        for number, entry in enumerate(self._question.columns):
            if isinstance(blocks[number], SparseBlock) or entry.weight < 0:
                nearest = known[number] = self._screens.exact(number, blocks, first, last)
            elif entry.weight:
                nearest = np.maximum(self._screens.spans(number, blocks, first, last)[0], METRICS[entry.metric].least)
            else:
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                best += self._share(number, nearest, slice(first, last))
        self._find(blocks, np.where(np.isnan(best), -np.inf, -best), known, first, last)

    def _find(self, blocks: Together, cost: Floats, known: dict[int, Floats], first: int, last: int) -> None:
        """Score the rows that may be among the best, of which `cost`, shape (n, queries), is the least cost.

        `known` has the distances, in the same shape, of the columns of which all are known.
        """
        bound = self._seeded(blocks, cost, known, first, last)
        rows, asked = np.nonzero(cost <= bound[None, :])
        self._score(blocks, rows, asked, known, first)

    def _seeded(self, blocks: Together, cost: Floats, known: dict[int, Floats], first: int, last: int) -> Floats:
        """Return the bounds of the queries; a query without a bound first gets one from k rows of this block."""
        k, bound, full = self._question.k, self._bounds.distance, self._bounds.is_full
        if len(cost) > k:
            for query in np.flatnonzero(~full[first:last]):
                rows, asked = np.argpartition(cost[:, query], k - 1)[:k], np.full(k, query)
                total = self._cost(self._exact(blocks, rows, asked, known, first), asked + first)
                if not np.isnan(total).any():
                    bound[query + first] = min(bound[query + first], float(total.max()))
                    full[query + first] = True
        return bound[first:last]

    def _score(
        self, blocks: Together, rows: Any, asked: Any, known: dict[int, Floats], first: int, code: Ints | None = None
    ) -> None:
        """Add the exact scores of pairs of a row and a query, perhaps with the codes of the rows' groups."""
        widest = max((block.values.shape[1] for block in blocks if isinstance(block, VectorBlock)), default=1)
        step = max(1, _EXACT_ELEMENTS // max(1, widest))
        for start in range(0, len(rows), step):
            at, ask = rows[start : start + step], asked[start : start + step]
            exact = self._exact(blocks, at, ask, known, first)
            group = None if code is None else code[start : start + step]
            hits = Hits(ask + first, self._cost(exact, ask + first), blocks[0].positions[at], exact, group)
            wrong = np.isnan(hits.distance)
            if wrong.any():
                self.invalid += int(wrong.sum())
                hits = hits.take(~wrong)
            self._pool.add(hits)

    def _exact(self, blocks: Together, rows: Any, asked: Any, known: dict[int, Floats], first: int) -> Floats:
        """Return the exact distances of pairs of a row and a query, shape (p, c)."""
        found = np.empty((len(rows), len(self._question.columns)))
        for number in range(len(self._question.columns)):
            if number in known:
                found[:, number] = known[number][rows, asked]
            else:
                found[:, number] = self._screens.exact_of(number, blocks, rows, asked + first)
        return found

    def _cost(self, distances: Floats, asked: Any) -> Floats:
        total = np.zeros(len(distances))
        with np.errstate(over="ignore", invalid="ignore"):
            for number, entry in enumerate(self._question.columns):
                if entry.weight:
                    total += self._share(number, distances[:, number], asked)
        return 0.0 - total

    def _share(self, number: int, distances: Floats, asked: Any) -> Floats:
        """Return what a column adds to the score; with a weight above 0, a smaller distance never adds less."""
        entry = self._question.columns[number]
        score = METRICS[entry.metric].scores(distances)
        if self._scale is not None:
            span = self._scale.span[asked, number]
            score = np.where(span > 0, (score - self._scale.least[asked, number]) / np.where(span > 0, span, 1.0), 0.0)
        share: Floats = entry.weight * score
        return share
