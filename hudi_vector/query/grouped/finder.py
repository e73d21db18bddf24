"""The search for the best groups of rows that ask, in a task that searches all slices of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudi_vector.query.asking.output import Found
from hudi_vector.query.asking.queries import AskedRows
from hudi_vector.query.grouped.question import question_of
from hudi_vector.query.grouping.arguments import GROUP_RANK, group_ranks
from hudi_vector.query.lengths import refuse_other_length
from hudi_vector.query.local import ThreadedSlices, run_slices
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.query.winners import named_rows

__all__ = ["GroupFinder"]


@dataclass(frozen=True)
class GroupFinder:
    """A planned search for groups, asked by every row for the same number of them.

    `physical` are pairs of a column's name in the output and its name in the table, where the two differ.
    """

    plan: SearchPlan
    physical: tuple[tuple[str, str], ...]
    block_queries: int

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the best rows of the nearest groups for the rows that ask."""
        vectors, plan = asked.vectors, self.plan
        column = replace(plan.spec.column, dimension=plan.spec.column.dimension or vectors.shape[1])
        plan = replace(plan, spec=replace(plan.spec, column=column))
        question = question_of(vectors, plan.metric, plan.k, plan.max_distance, plan.grouping, self.block_queries)
        progress = Progress()
        winners = run_slices(plan, question, ThreadedSlices(plan, map), progress)
        refuse_other_length(plan, len(winners), progress.counts)
        own = {name: name for name in names} | dict(self.physical)
        added = {GROUP_RANK: group_ranks(winners.group_rank)}
        return Found(winners.query, winners.distance, winners.rank, named_rows(plan, winners, names, own), added)
