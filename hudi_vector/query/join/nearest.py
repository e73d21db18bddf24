"""The search for the nearest right rows of left rows under a condition over both sides.

Every strategy returns all rows that qualify, up to k. If the left rows have few distinct values, each is searched
separately, with its values in the condition. Otherwise more than k rows are found and filtered, and the search is
widened until every left row has k rows or the right side is exhausted; left rows that would need too many rows are
searched with their own values.

With groups, a condition that leaves out one row at most needs one group and one row of each more. Otherwise the nearest
rows are searched, more and more of them, as long as those that qualify hold too few groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Ints, rank_within
from hudi_vector.query.asking.output import Found
from hudi_vector.query.asking.queries import AskedRows
from hudi_vector.query.asking.values import LEFT_MARK, alike, asked_columns, bound, values_at
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.execute import Question
from hudi_vector.query.grouped.question import GroupedQuestion, question_of
from hudi_vector.query.grouping.arguments import Grouping, rows_at_first
from hudi_vector.query.grouping.keys import GroupCodes
from hudi_vector.query.join.conditions import ANY_PAIR, JoinCondition
from hudi_vector.query.join.sides import Nearest, RightSide, found_rows, joined_nearest
from hudi_vector.query.merge import within_groups
from hudi_vector.query.plan import EVERY_ROW
from hudi_vector.read.predicate.form import Predicate, evaluate
from hudi_vector.read.predicate.nodes import Column

__all__ = ["Ask", "SideFinder", "nearest_rows"]

_FEW_VALUES = 16
_TIMES_K, _AND = 4, 16
_MOST_WIDENED = 4096
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Ask:
    """The question of every left row: the number of rows, the metric, the largest distance and the condition.

    If `k` is None, all rows within `max_distance` are returned. With a `grouping`, `k` is the number of groups.
    """

    metric: str
    k: int | None
    max_distance: float | None = None
    condition: JoinCondition = ANY_PAIR
    zone: str = "UTC"
    block_queries: int = 1024
    timeout: float | None = None
    grouping: Grouping | None = None

    def question(self, vectors: Floats) -> Question | GroupedQuestion:
        """Return the question of some left rows."""
        return self.wider(vectors, self.k or EVERY_ROW, self.grouping)

    def wider(self, vectors: Floats, k: int, grouping: Grouping | None = None) -> Question | GroupedQuestion:
        """Return the question of some left rows for another number of rows or groups."""
        deadline = NEVER if self.timeout is None else Deadline("the right side", self.timeout)
        return question_of(vectors, self.metric, k, self.max_distance, grouping, self.block_queries).by(deadline)

    @property
    def rows_wanted(self) -> int:
        """Return the largest number of rows that a left row wants, if it is limited."""
        assert self.k is not None
        return self.k if self.grouping is None else self.k * self.grouping.per_group


@dataclass(frozen=True)
class SideFinder:
    """The right side of a join or of a batch search, asked the same question by every row."""

    side: RightSide
    ask: Ask

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the right rows that are joined to the rows that ask."""
        left, grouping = asked.values(self.ask.condition.left_names), self.ask.grouping
        needed = names if grouping is None else [*names, *grouping.columns]
        return found_rows(nearest_rows(self.side, asked.vectors, left, self.ask, needed), names, grouping)


def nearest_rows(side: RightSide, vectors: Floats, left: pa.Table, ask: Ask, names: Sequence[str]) -> Nearest:
    """Return the right rows that are joined to some left rows, by left row and rank.

    `vectors` are the left rows' vectors, shape (m, d); `left` holds the columns that the condition needs, m rows.
    `names` are the right columns that may be requested of the result. The side applies the condition's right part
    itself.
    """
    both = ask.condition.both
    if both is None or not len(vectors):
        return side.find(ask.question(vectors), None, names)
    search = _Search(side, vectors, left, ask, both, tuple(dict.fromkeys([*names, *ask.condition.right_names])))
    everyone = np.arange(len(vectors))
    if ask.k is None:
        return search.qualifying(side.find(ask.question(vectors), None, search.names), everyone)
    if not ask.condition.pairs_only:
        groups = alike(left, everyone, search.asked)
        if len(groups) <= _FEW_VALUES:
            return joined_nearest(search.by_values(groups))
    elif ask.grouping is not None:
        return search.without_pairs(everyone, ask.k, ask.grouping)
    return search.widened(everyone, ask.rows_wanted)


@dataclass(frozen=True)
class _Search:
    side: RightSide
    vectors: Floats
    left: pa.Table
    ask: Ask
    both: Predicate
    names: tuple[str, ...]

    @property
    def asked(self) -> tuple[Column, ...]:
        """Return the left columns that the condition uses."""
        return asked_columns(self.both)

    def by_values(self, groups: Sequence[Ints]) -> list[tuple[Nearest, Ints]]:
        """Search each group of rows that have the same left values separately, with these in the condition."""
        parts = []
        first = np.array([rows[0] for rows in groups], np.int64)
        for values, rows in zip(values_at(self.left, first, self.asked), groups, strict=True):
            predicate = bound(self.both, self.asked, values)
            question = self.ask.question(self.vectors[rows])
            parts.append((self.side.find(question, predicate, self.names), rows))
        return parts

    def one_by_one(self, rows: Ints) -> list[tuple[Nearest, Ints]]:
        """Search for all rows that have the same left values together."""
        return self.by_values([rows[group] for group in alike(self.left, rows, self.asked)])

    def widened(self, rows: Ints, k: int) -> Nearest:
        """Search for more and more rows until enough of them qualify."""
        parts: list[tuple[Nearest, Ints]] = []
        wider = k + 1 if self.ask.condition.pairs_only else _TIMES_K * k + _AND
        if self.ask.grouping is not None:
            wider = rows_at_first(wider)
        while len(rows):
            if wider > max(_MOST_WIDENED, 2 * k):
                parts += self.one_by_one(rows)
                break
            unsettled, taken, found = [], 0, 0
            step = max(1, _ROWS_AT_ONCE // wider)
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                nearest = self.side.find(self.ask.wider(self.vectors[some], wider), None, self.names)
                kept = self._wanted(self.qualifying(nearest, some))
                got = np.bincount(nearest.query, minlength=len(some))
                have = np.bincount(kept.query, minlength=len(some))
                settled = (have >= k) | (got < wider)
                taken, found = taken + int(have.sum()), found + int(got.sum())
                parts.append((_first(kept, settled, k), some))
                unsettled.append(some[~settled])
            rows = np.concatenate(unsettled)
            wider = _next(wider, k, taken, found)
        return _merged(parts)

    def _wanted(self, kept: Nearest) -> Nearest:
        """Return those of the nearest rows that the first k groups in them give; all rows if no groups are wanted."""
        grouping, k = self.ask.grouping, self.ask.k
        if grouping is None:
            return kept
        assert k is not None
        codes = GroupCodes().of(kept.columns(grouping.columns))
        return kept.take(within_groups(kept.query, codes, k, grouping.per_group)[0])

    def without_pairs(self, rows: Ints, k: int, grouping: Grouping) -> Nearest:
        """Search for a group and a row of each more than wanted, which is enough where one row is left out at most."""
        parts, others = list[tuple[Nearest, Ints]](), list[Ints]()
        more = replace(grouping, per_group=grouping.per_group + 1)
        step = max(1, _ROWS_AT_ONCE // ((k + 1) * more.per_group))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            nearest = self.side.find(self.ask.wider(self.vectors[some], k + 1, more), None, self.names)
            codes = GroupCodes().of(nearest.columns(grouping.columns))
            chosen, settled = _regrouped(nearest, codes, self._holds(nearest, some), len(some))
            sorted_ = nearest.take(chosen)
            parts.append((sorted_.take(within_groups(sorted_.query, codes[chosen], k, grouping.per_group)[0]), some))
            others.append(some[~settled])
        return _merged([*parts, *self.one_by_one(np.concatenate(others))])

    def qualifying(self, nearest: Nearest, rows: Ints) -> Nearest:
        """Return the rows found for which the condition holds."""
        return nearest.take(np.flatnonzero(self._holds(nearest, rows))) if len(nearest.query) else nearest

    def _holds(self, nearest: Nearest, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return whether the condition holds for each row found."""
        if not len(nearest.query):
            return np.empty(0, np.bool_)
        right = nearest.columns(self.ask.condition.right_names) if self.ask.condition.right_names else pa.table({})
        asking = self.left.take(pa.array(rows[nearest.query]))
        arrays = {LEFT_MARK + name: asking.column(name) for name in asking.column_names}
        arrays |= {name: right.column(name) for name in right.column_names}
        return evaluate(self.both, pa.table(arrays), self.ask.zone)


def _regrouped(
    nearest: Nearest, codes: Ints, holds: npt.NDArray[np.bool_], queries: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return the rows that qualify in the order that their groups have without the others, and the settled queries.

    The rows found are given by query, group and distance, with the code of each one's group. A query is not settled if
    more than one of its rows is left out, or if a group that lost its best row ties with another: keys would decide.
    """
    query, distance = nearest.query, nearest.distance
    number = np.cumsum(np.append(False, (query[1:] != query[:-1]) | (codes[1:] != codes[:-1])))[: len(query)]
    settled = np.bincount(query[~holds], minlength=queries) <= 1
    kept = np.flatnonzero(holds)
    group, first, of_row = np.unique(number[kept], return_index=True, return_inverse=True)
    best = kept[first]
    order = np.lexsort((group, distance[best], query[best]))
    lost = (best != np.searchsorted(number, group))[order]
    asked, far = query[best][order], distance[best][order]
    tied = (asked[1:] == asked[:-1]) & (far[1:] == far[:-1]) & (lost[1:] | lost[:-1])
    settled[asked[1:][tied]] = False
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    chosen = kept[np.lexsort((kept, place[of_row]))]
    return chosen[settled[query[chosen]]], settled


def _first(kept: Nearest, settled: npt.NDArray[np.bool_], k: int) -> Nearest:
    """Return at most k rows of each left row that is settled."""
    _, rank = rank_within(kept.query, np.arange(len(kept.query)))
    return kept.take(np.flatnonzero((rank < k) & settled[kept.query]))


def _next(wider: int, k: int, taken: int, found: int) -> int:
    """Return how many rows to find next: at least four times as many, or twice what k rows need at the present rate."""
    expected = 2 * k * found // taken if taken else _MOST_WIDENED + 1
    return max(4 * wider, expected)


def _merged(parts: Sequence[tuple[Nearest, Ints]]) -> Nearest:
    """Join the parts; a left row has rows in only one of them."""
    return joined_nearest([part for part in parts if len(part[0].query)] or parts[:1])
