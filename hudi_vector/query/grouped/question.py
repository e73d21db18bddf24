"""The question of a search for groups, as the common search asks it, and the collector of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.kernels.groups import GroupedBlock, GroupedTopK, GroupPool, MemberPool
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, VectorBlock
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.execute import OpenedSlice, Question, SearchedRows, SliceFound, joined
from hudi_vector.query.grouped.by_index import found_by_index
from hudi_vector.query.grouped.passes import Members, in_passes, members_of
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.grouping.keys import GroupCodes
from hudi_vector.query.merge import Winners
from hudi_vector.read.several import Together
from hudi_vector.read.spec import ScanCounts

__all__ = ["GroupedQuestion", "question_of"]


@dataclass(frozen=True)
class GroupedQuestion:
    """The query vectors, shape (m, d), float64, with the metric, the number of groups of each, and the grouping.

    With `members`, the rows of these groups alone are searched. Picklable: executors get it.
    """

    vectors: Floats
    metric: str
    k: int
    grouping: Grouping
    max_distance: float | None = None
    block_queries: int = 1024
    members: Members | None = None
    deadline: Deadline = field(default=NEVER, repr=False, compare=False)

    def by(self, deadline: Deadline) -> GroupedQuestion:
        """Return the question with a deadline, unless it has one already."""
        return replace(self, deadline=deadline) if self.deadline is NEVER else self

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return len(self.vectors)

    @property
    def is_final(self) -> bool:
        """Return True: a distance depends on one row alone."""
        return True

    @property
    def per_group(self) -> int:
        """Return the number of rows that each group gives at most."""
        return self.grouping.per_group

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the columns of the groups."""
        return self.grouping.columns

    def named(self, names: Mapping[str, str]) -> GroupedQuestion:
        """Return the question with other names for the columns of the groups."""
        return replace(self, grouping=self.grouping.named(names))

    def bounds(self) -> Bounds:
        """Return initial bounds, which are `max_distance` for each query, or infinite if it is None."""
        return Bounds.of(len(self.vectors), self.max_distance)

    def blocks(self, opened: OpenedSlice, counts: ScanCounts) -> Iterator[Together]:
        """Yield the rows of a slice that pass the filter and have a vector, and add to `counts`."""
        reader = opened.reader
        return (self.with_rows((block,), reader.rows) for block in reader.blocks(counts))

    def nearest(self, queries: Ints, count: int) -> Question:
        """Return the question of some queries for so many of the nearest rows."""
        known = self.max_distance, self.block_queries, self.deadline
        return Question(self.vectors[queries], self.metric, count, *known)

    def part(self, queries: Ints) -> GroupedQuestion:
        """Return the question of some queries."""
        return replace(self, vectors=self.vectors[queries])

    def with_rows(self, blocks: Together, rows: Callable[[Ints, Sequence[str]], pa.Table]) -> Together:
        """Return the block with the values of its groups, which `rows` reads at positions."""
        [block] = blocks
        assert isinstance(block, VectorBlock)
        positions, names = block.positions, self.grouping.columns
        parts = block.values, positions, block.squares, block.odd
        return (GroupedBlock(*parts, lambda at: rows(positions[at], names)),)

    def collector(self, bounds: Bounds) -> _BestGroups:
        """Return a collector of the best rows of groups."""
        return _BestGroups(self, bounds)

    def found(self, slices: SearchedRows, bounds: Bounds) -> Iterator[SliceFound]:
        """Yield the hits of all slices, by their index or by a scan."""
        if slices.wider(1) is not None:
            return found_by_index(self, slices)
        return self.scanned(slices, bounds)

    def scanned(self, slices: SearchedRows, bounds: Bounds) -> Iterator[SliceFound]:
        """Yield the hits of all slices by a scan, in one pass or in two."""
        return in_passes(self, slices, bounds, _one_pass)

    def members_of(self, winners: Winners, slices: SearchedRows) -> Iterator[SliceFound]:
        """Yield the best rows of the groups that have a row among the winners."""
        return members_of(self, winners, slices, _one_pass)

    def one_of_each(self) -> GroupedQuestion:
        """Return the question for the best row of each group alone."""
        return replace(self, grouping=replace(self.grouping, per_group=1))

    def among(self, members: Members) -> GroupedQuestion:
        """Return the question for the rows of some groups."""
        return replace(self, members=members)


def _one_pass(asked: GroupedQuestion, slices: SearchedRows, bounds: Bounds) -> Iterable[SliceFound]:
    return slices.search(asked, bounds)


def question_of(
    vectors: Floats,
    metric: str,
    k: int,
    max_distance: float | None,
    grouping: Grouping | None,
    block_queries: int = 1024,
) -> Question | GroupedQuestion:
    """Return the question for the k nearest rows, or for the k nearest groups if there is a grouping."""
    if grouping is None:
        return Question(vectors, metric, k, max_distance, block_queries)
    return GroupedQuestion(vectors, metric, k, grouping, max_distance, block_queries)


class _BestGroups:
    """A collector of the best rows of groups, which compares a block of the queries at a time."""

    invalid = 0

    def __init__(self, question: GroupedQuestion, bounds: Bounds) -> None:
        self._codes = GroupCodes()
        self._searches: list[tuple[int, GroupedTopK]] = []
        for first in range(0, len(question.vectors), question.block_queries):
            part = slice(first, first + question.block_queries)
            known = Bounds(bounds.distance[part], bounds.is_full[part])
            pool: GroupPool | MemberPool = GroupPool(question.k, known)
            codes = self._codes.of
            if question.members is not None:
                query, keys = question.members.of_queries(part)
                code = self._codes.of_keys(keys)
                order = np.lexsort((code, query))
                pool = MemberPool(question.per_group, query[order], code[order], known)
                codes = partial(self._codes.among, question.members.values)
            vectors = question.vectors[part]
            self._searches.append((first, GroupedTopK(vectors, question.metric, question.k, known, pool, codes)))

    def offer(self, blocks: Together) -> None:
        """Compare the rows of a block with all queries."""
        for _, top in self._searches:
            top.offer(blocks[0])  # type: ignore[arg-type]

    def candidates(self) -> Ints:
        """Return the positions of the rows that may still be found."""
        return np.concatenate([np.empty(0, np.int64), *(top.candidates() for _, top in self._searches)])

    def hits(self) -> Hits:
        """Return the rows found so far, with the keys of their groups."""
        found = joined([(first, top.hits()) for first, top in self._searches])
        codes = np.empty(0, np.int64) if found.group is None else found.group
        keys: Any = self._codes.keys(codes)
        return replace(found, group=keys)
