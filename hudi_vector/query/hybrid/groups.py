"""The collector of the best rows of groups by their weighted scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.groups import GroupedBlock, GroupPool, Known, MemberPool, SpanPool, seeds_of_groups
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints
from hudi_vector.query.grouped.passes import Members
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.grouping.keys import GroupCodes
from hudi_vector.query.hybrid.best import BestRows, Scale
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.read.several import Together

__all__ = ["BestGroups"]

_AT_FIRST, _TIMES = 4096, 4


class _Groups:
    """The codes of the groups of rows, -1 for rows that the grouping leaves out.

    With `members`, `pairs` are the queries and the codes of their groups, sorted and distinct.
    """

    def __init__(self, grouping: Grouping, members: Members | None) -> None:
        self._grouping, self._members, self._codes = grouping, members, GroupCodes()
        self.pairs: tuple[Ints, Ints] | None = None
        if members is not None:
            query, keys = members.of_queries(slice(None))
            code = self._codes.of_keys(keys)
            order = np.lexsort((code, query))
            self.pairs = query[order], code[order]

    def of_rows(self, blocks: Together, rows: npt.NDArray[Any]) -> Ints:
        """Return the code of the group of each row of some blocks, the last of which gives the values of the groups."""
        block = blocks[-1]
        assert isinstance(block, GroupedBlock)
        distinct, inverse = np.unique(rows, return_inverse=True)
        values = block.values_at(distinct)
        codes = self._codes.of(values) if self._members is None else self._codes.among(self._members.values, values)
        if self._grouping.drop_nulls:
            for column in values.columns:
                codes[np.asarray(column.is_null())] = -1
        found: Ints = codes[inverse]
        return found

    def keys(self, codes: Ints | None) -> npt.NDArray[Any]:
        """Return the key of each code."""
        return self._codes.keys(np.empty(0, np.int64) if codes is None else codes)


class BestGroups(BestRows):
    """A collector of the best rows of the k best groups, or of given groups, for every query.

    A group is as good as its best row. After the blocks of the columns comes one without elements, a `GroupedBlock`.
    The group of a row is looked up only if the row may be among the best.
    """

    def __init__(
        self, question: HybridQuestion, bounds: Bounds, scale: Scale | None = None, members: Members | None = None
    ) -> None:
        super().__init__(question, bounds, scale)
        assert question.grouping is not None
        self._groups = _Groups(question.grouping, members)
        pairs, self._wanted = self._groups.pairs, None
        if pairs is not None:
            self._wanted = Known(*pairs, np.full(len(pairs[0]), np.inf), others=False)
        self._pool = self._best = self._made_pool(question.grouping.per_group, pairs)

    def hits(self) -> Hits:
        """Return the rows found so far, with the keys of their groups; the distance of a hit is the negated score."""
        found = self._best.hits()
        return replace(found, group=self._groups.keys(found.group))

    def _made_pool(self, count: int, pairs: tuple[Ints, Ints] | None) -> GroupPool | MemberPool | SpanPool:
        """Return the pool of up to `count` rows of each group."""
        if pairs is None:
            return GroupPool(self._question.k, self._bounds)
        return MemberPool(count, *pairs, self._bounds)

    def _find(self, blocks: Together, cost: Floats, known: dict[int, Floats], first: int, last: int) -> None:
        invalid = self.invalid
        for rows, asked in seeds_of_groups(cost, self._bounds.is_full[first:last], self._question.k):
            self._add(blocks, cost, rows, asked, known, first)
        self.invalid = invalid  # rows without a score are found again
        rows, asked = np.nonzero(cost <= self._bounds.distance[None, first:last])
        self._add(blocks, cost, rows, asked, known, first)

    def _add(self, blocks: Together, cost: Floats, rows: Any, asked: Any, known: dict[int, Floats], first: int) -> None:
        """Score those pairs of a row and a query whose group is wanted and may become better by the row."""
        code = self._groups.of_rows(blocks, rows)
        wanted = code >= 0
        if self._wanted is not None:
            wanted &= self._wanted.places(asked + first, code) >= 0
        pairs = np.stack([rows[wanted], asked[wanted], code[wanted]])
        size = _AT_FIRST
        if pairs.shape[1] > size:  # the most promising first, which may rule out the others
            pairs = pairs[:, np.argsort(cost[pairs[0], pairs[1]], kind="stable")]
        while pairs.shape[1]:
            pairs = pairs[:, self._near(pairs, cost, first)]
            rows, asked, code = pairs[:, :size]
            self._score(blocks, rows, asked, known, first, code)
            self._best.hits()
            pairs, size = pairs[:, size:], _TIMES * size

    def _near(self, pairs: Ints, cost: Floats, first: int) -> npt.NDArray[np.bool_]:
        """Return which pairs of a row, a query and a group may make the group better, by what is known of it so far."""
        rows, asked, code = pairs
        least, query, best = cost[rows, asked], asked + first, self._best.known()
        near: npt.NDArray[np.bool_] = least <= self._bounds.distance[query]
        place = best.places(query, code)
        seen = place >= 0
        near[seen] &= least[seen] <= best.limit[place[seen]]
        return near
