"""The nearest right rows of left rows under a condition over both sides.

No way of it gives fewer rows than qualify. Few different left values: a search for each, with the values in the
condition. Many: more rows than k are found and those that do not qualify left out, until k are left for every left
row or the right side is exhausted; left rows that would take too many are searched with their own values after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Ints, rank_within
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.execute import Question
from hudi_vector.query.join.codes import codes
from hudi_vector.query.join.conditions import ANY_PAIR, LEFT_MARK, JoinCondition, with_values
from hudi_vector.query.join.sides import Nearest, RightSide, joined_nearest
from hudi_vector.query.plan import EVERY_ROW
from hudi_vector.read.predicate.form import Predicate, evaluate

__all__ = ["Ask", "nearest_rows"]

_FEW_VALUES = 16
_TIMES_K, _AND = 4, 16
_MOST_WIDENED = 4096
_ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Ask:
    """What every left row asks: how many rows, by which metric, how near, and under which condition.

    Without `k` all rows within `max_distance` are wanted.
    """

    metric: str
    k: int | None
    max_distance: float | None = None
    condition: JoinCondition = ANY_PAIR
    zone: str = "UTC"
    block_queries: int = 1024
    timeout: float | None = None

    def question(self, vectors: Floats, k: int | None = None) -> Question:
        """The question of some left rows, for k rows or more."""
        wanted = k or self.k or EVERY_ROW
        deadline = NEVER if self.timeout is None else Deadline("the right side", self.timeout)
        return Question(vectors, self.metric, wanted, self.max_distance, self.block_queries, deadline)


def nearest_rows(side: RightSide, vectors: Floats, left: pa.Table, ask: Ask, names: Sequence[str]) -> Nearest:
    """The rows that are joined to some left rows.

    Args:
        side: The right side; it applies the condition's right part itself.
        vectors: The left rows' vectors, shape (m, d).
        left: Their columns that the condition needs, m rows.
        ask: What is asked.
        names: The right columns that are wanted of the rows.

    Returns:
        The rows, by left row and rank.
    """
    both = ask.condition.both
    if both is None or not len(vectors):
        return side.find(ask.question(vectors), None, names)
    search = _Search(side, vectors, left, ask, both, tuple(dict.fromkeys([*names, *ask.condition.right_names])))
    everyone = np.arange(len(vectors))
    if ask.k is None:
        return search.qualifying(side.find(ask.question(vectors), None, search.names), everyone)
    groups = search.groups(everyone)
    if len(groups) <= _FEW_VALUES and not ask.condition.pairs_only:
        return joined_nearest(search.by_values(groups))
    return search.widened(everyone, ask.k)


@dataclass(frozen=True)
class _Search:
    side: RightSide
    vectors: Floats
    left: pa.Table
    ask: Ask
    both: Predicate
    names: tuple[str, ...]

    def groups(self, rows: Ints) -> list[Ints]:
        """The rows by the values the condition sees of them."""
        every = [codes(self.left.column(name)) for name in self.left.column_names]
        if not every:
            return [rows]
        _, group = np.unique(np.stack(every)[:, rows], axis=1, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(group.ravel()))[:-1]
        return [rows[part] for part in np.split(order, ends)]

    def by_values(self, groups: Sequence[Ints]) -> list[tuple[Nearest, Ints]]:
        """A search for each group, with its values in the condition."""
        columns = {name: self.left.column(name).combine_chunks() for name in self.left.column_names}
        parts = []
        for rows in groups:
            predicate = with_values(self.both, columns, int(rows[0]))
            question = self.ask.question(self.vectors[rows])
            parts.append((self.side.find(question, predicate, self.names), rows))
        return parts

    def widened(self, rows: Ints, k: int) -> Nearest:
        """More and more rows, until enough of them qualify."""
        parts: list[tuple[Nearest, Ints]] = []
        wider = k + 1 if self.ask.condition.pairs_only else _TIMES_K * k + _AND
        while len(rows):
            if wider > max(_MOST_WIDENED, 2 * k):
                parts += self.by_values(self.groups(rows))
                break
            unsettled, taken, found = [], 0, 0
            step = max(1, _ROWS_AT_ONCE // wider)
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                nearest = self.side.find(self.ask.question(self.vectors[some], wider), None, self.names)
                kept = self.qualifying(nearest, some)
                got = np.bincount(nearest.query, minlength=len(some))
                have = np.bincount(kept.query, minlength=len(some))
                settled = (have >= k) | (got < wider)
                taken, found = taken + int(have.sum()), found + int(got.sum())
                parts.append((_first(kept, settled, k), some))
                unsettled.append(some[~settled])
            rows = np.concatenate(unsettled)
            wider = _next(wider, k, taken, found)
        return _merged(parts)

    def qualifying(self, nearest: Nearest, rows: Ints) -> Nearest:
        """Those of the rows found for which the condition holds."""
        if not len(nearest.query):
            return nearest
        right = nearest.columns(self.ask.condition.right_names) if self.ask.condition.right_names else pa.table({})
        asking = self.left.take(pa.array(rows[nearest.query]))
        arrays = {LEFT_MARK + name: asking.column(name) for name in asking.column_names}
        arrays |= {name: right.column(name) for name in right.column_names}
        return nearest.take(np.flatnonzero(evaluate(self.both, pa.table(arrays), self.ask.zone)))


def _first(kept: Nearest, settled: npt.NDArray[np.bool_], k: int) -> Nearest:
    """At most k rows of the left rows that are settled."""
    _, rank = rank_within(kept.query, np.arange(len(kept.query)))
    return kept.take(np.flatnonzero((rank < k) & settled[kept.query]))


def _next(wider: int, k: int, taken: int, found: int) -> int:
    """How many rows to find next: twice what it takes at the rate at which rows qualified, and four times as many."""
    expected = 2 * k * found // taken if taken else _MOST_WIDENED + 1
    return max(4 * wider, expected)


def _merged(parts: Sequence[tuple[Nearest, Ints]]) -> Nearest:
    """The parts as one; a left row has rows in one of them only."""
    return joined_nearest([part for part in parts if len(part[0].query)] or parts[:1])
