"""The right side of a join in a task, which finds the nearest rows of vectors.

A side can be pickled. The columns of rows are read late, when it is known which rows remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Ints, rank_within
from hudi_vector.query.asking.output import Found
from hudi_vector.query.execute import Question
from hudi_vector.query.grouped.question import GroupedQuestion
from hudi_vector.query.grouping.arguments import GROUP_RANK, Grouping, group_ranks
from hudi_vector.query.grouping.keys import group_keys
from hudi_vector.query.lengths import refuse_other_length
from hudi_vector.query.local import ThreadedSlices, run_slices
from hudi_vector.query.merge import Winners, within_groups
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.query.winners import named_rows
from hudi_vector.read.predicate.form import Predicate

__all__ = ["FoundRows", "Nearest", "PlannedRows", "PlannedSide", "RightSide", "found_rows", "joined_nearest", "under"]


class Nearest(Protocol):
    """Rows found, by query and rank: arrays of shape (w,), and columns that are read on request."""

    @property
    def query(self) -> Ints:
        """Return the number of each row's query, shape (w,)."""
        ...

    @property
    def distance(self) -> Floats:
        """Return the distance of each row, shape (w,), float64."""
        ...

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns of the rows, in the order of the rows."""
        ...

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """Return the rows at these indices, or those for which this mask is True."""
        ...


class RightSide(Protocol):
    """The side of a join whose rows are joined to the left rows."""

    def find(self, question: Question | GroupedQuestion, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        """Return the nearest rows of each query by rank, or those of its nearest groups by group and rank.

        `predicate` is a condition in addition to those of the side, None if there is none. `names` are the columns that
        may be read of the rows later.
        """
        ...


@dataclass(frozen=True)
class PlannedSide:
    """A side that searches the slices of a plan in the process that holds it.

    `physical` are pairs of a column's name in the output and its name in the table, where the two differ.
    """

    plan: SearchPlan
    physical: tuple[tuple[str, str], ...] = ()

    def find(
        self, question: Question | GroupedQuestion, predicate: Predicate | None, names: Sequence[str]
    ) -> PlannedRows:
        """Return the nearest rows; raise DimensionMismatchError if none is found and vectors have another length."""
        del names
        question = question.named(dict(self.physical))
        plan, progress = under(self.plan, question, predicate), Progress()
        winners = run_slices(plan, question, ThreadedSlices(plan, map), progress)
        if len(question.vectors):
            refuse_other_length(plan, len(winners), progress.counts)
        return PlannedRows(plan, winners, self.physical)


def under(plan: SearchPlan, question: Question | GroupedQuestion, predicate: Predicate | None) -> SearchPlan:
    """Return the plan with the k, groups and largest distance of a question, and with a condition more if one is given.

    An array column without a declared dimension gets that of the queries.
    """
    spec, grouping = plan.spec, question.grouping
    if not spec.column.dimension:
        spec = replace(spec, column=replace(spec.column, dimension=question.vectors.shape[1]))
    if predicate is not None:
        spec = spec.filtered(predicate)
    if grouping is not None:
        spec = replace(spec, carried=grouping.columns)
    return replace(plan, spec=spec, k=question.k, max_distance=question.max_distance, grouping=grouping)


@dataclass(frozen=True)
class PlannedRows:
    """The nearest rows of a plan, whose columns are read from its slices."""

    plan: SearchPlan
    winners: Winners
    physical: tuple[tuple[str, str], ...] = ()

    @property
    def query(self) -> Ints:
        """Return the number of each row's query, shape (w,)."""
        return self.winners.query

    @property
    def distance(self) -> Floats:
        """Return the distance of each row, shape (w,), float64."""
        return self.winners.distance

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns of the rows, read from the slices."""
        wanted = list(dict.fromkeys(names))
        own = {name: name for name in wanted} | dict(self.physical)
        return named_rows(self.plan, self.winners, wanted, own)

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """Return the rows at these indices, or those for which this mask is True."""
        return replace(self, winners=self.winners.take(chosen))


@dataclass(frozen=True)
class FoundRows:
    """The nearest rows with columns that are in memory already."""

    found: Found

    @property
    def query(self) -> Ints:
        """Return the number of each row's query, shape (w,)."""
        return self.found.query

    @property
    def distance(self) -> Floats:
        """Return the distance of each row, shape (w,), float64."""
        return self.found.distance

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns of the rows."""
        return self.found.rows.select(list(dict.fromkeys(names)))

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """Return the rows at these indices, or those for which this mask is True."""
        found = self.found
        at = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        rows = found.rows.take(pa.array(at)) if found.rows.num_columns else found.rows
        return FoundRows(Found(found.query[at], found.distance[at], found.rank[at], rows))


def found_rows(nearest: Nearest, names: Sequence[str], grouping: Grouping | None = None) -> Found:
    """Return rows found, which are ordered by query and rank, with their ranks and the named columns.

    With a grouping they are ordered by query, group and distance, and get the ranks of their groups.
    """
    query = nearest.query
    _, rank = rank_within(query, np.arange(len(query)))
    if grouping is None:
        return Found(query, nearest.distance, rank + 1, nearest.columns(names))
    rows = nearest.columns([*names, *grouping.columns])
    _, group = within_groups(query, group_keys(rows.select(grouping.columns)), len(query), len(query))
    return Found(query, nearest.distance, rank + 1, rows.select(list(names)), {GROUP_RANK: group_ranks(group + 1)})


def joined_nearest(parts: Sequence[tuple[Nearest, Ints]]) -> Nearest:
    """Join the rows that several searches found, by query.

    Each search has the numbers that its queries have among all queries; no query is in two searches.
    """
    if len(parts) == 1 and np.array_equal(parts[0][1], np.arange(len(parts[0][1]))):
        return parts[0][0]
    query = np.concatenate([np.empty(0, np.int64), *(of[nearest.query] for nearest, of in parts)])
    order, _ = rank_within(query, np.arange(len(query)))
    return _Several(tuple(nearest for nearest, _ in parts), query, order)


@dataclass(frozen=True)
class _Several:
    """Rows of several searches; `order` are their positions in the concatenated rows of all parts."""

    parts: tuple[Nearest, ...]
    queries: Ints
    order: npt.NDArray[np.intp]

    @property
    def query(self) -> Ints:
        """Return the number of each row's query, shape (w,)."""
        return self.queries[self.order]

    @property
    def distance(self) -> Floats:
        """Return the distance of each row, shape (w,), float64."""
        every: Floats = np.concatenate([np.empty(0, np.float64), *(part.distance for part in self.parts)])
        return every[self.order]

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return the named columns of the rows."""
        tables = [part.columns(names) for part in self.parts]
        return pa.concat_tables(tables).take(pa.array(self.order))

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """Return the rows at these indices, or those for which this mask is True."""
        return replace(self, order=self.order[chosen])
