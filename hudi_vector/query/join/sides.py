"""The right side of a join as a task meets it: asked by vectors, it gives its nearest rows.

A side is picklable. What is looked up of it late are the columns of the rows that are left in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Ints, rank_within
from hudi_vector.query.asking.output import Found
from hudi_vector.query.execute import Question
from hudi_vector.query.indexed.slices import search_slices
from hudi_vector.query.lengths import refuse_other_length
from hudi_vector.query.local import Gathered
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.winners import named_rows
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.read.spec import ScanCounts

__all__ = ["FoundRows", "Nearest", "PlannedRows", "PlannedSide", "RightSide", "found_rows", "joined_nearest", "under"]


class Nearest(Protocol):
    """Rows found, by query and rank: arrays of shape (w,); their columns are read when they are asked for."""

    @property
    def query(self) -> Ints:
        """The query of each row."""
        ...

    @property
    def distance(self) -> Floats:
        """The distance of each row."""
        ...

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Columns of the rows, in their order."""
        ...

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """The rows at these indices, ascending, or under this mask."""
        ...


class RightSide(Protocol):
    """What is joined to the left rows."""

    def find(self, question: Question, predicate: Predicate | None, names: Sequence[str]) -> Nearest:
        """The nearest rows of each query, in the one documented order.

        Args:
            question: The queries.
            predicate: A condition over the side's columns, beside those it has already.
            names: The columns that may be asked of the rows.
        """
        ...


@dataclass(frozen=True)
class PlannedSide:
    """Slices of a snapshot, searched where the side is: what a task of the stage does with a plan.

    `physical` are the table's own names of the columns, where the output calls them otherwise.
    """

    plan: SearchPlan
    physical: tuple[tuple[str, str], ...] = ()

    def find(self, question: Question, predicate: Predicate | None, names: Sequence[str]) -> PlannedRows:
        """The nearest rows of the plan's slices."""
        del names
        plan = under(self.plan, question, predicate)
        question = question.by(plan.deadline())
        bounds = Bounds.of(len(question.vectors), question.max_distance)
        gathered, counts = Gathered(plan, bounds), ScanCounts()
        for hits, seen in search_slices(list(enumerate(plan.slices)), plan.index, plan.spec, question, bounds, True):
            gathered.add(hits)
            counts.add(seen)
        winners = gathered.winners()
        if len(question.vectors):
            refuse_other_length(plan, len(winners), counts)
        return PlannedRows(plan, winners, self.physical)


def under(plan: SearchPlan, question: Question, predicate: Predicate | None) -> SearchPlan:
    """The same plan for other queries, with a further condition.

    Args:
        plan: A plan.
        question: The queries.
        predicate: A condition that has to hold too.

    Returns:
        The plan; an array column that does not say its dimension has that of the queries.
    """
    spec = plan.spec
    if not spec.column.dimension:
        spec = replace(spec, column=replace(spec.column, dimension=question.vectors.shape[1]))
    if predicate is not None:
        both = predicate if spec.predicate is None else conjunction([spec.predicate, predicate])
        spec = replace(spec, predicate=both)
    return replace(plan, spec=spec, k=question.k, max_distance=question.max_distance)


@dataclass(frozen=True)
class PlannedRows:
    """Winners of a plan."""

    plan: SearchPlan
    winners: Winners
    physical: tuple[tuple[str, str], ...] = ()

    @property
    def query(self) -> Ints:
        """The query of each row."""
        return self.winners.query

    @property
    def distance(self) -> Floats:
        """The distance of each row."""
        return self.winners.distance

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Columns of the rows, read from the slices."""
        wanted = list(dict.fromkeys(names))
        own = {name: name for name in wanted} | dict(self.physical)
        return named_rows(self.plan, self.winners, wanted, own)

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """The rows at these indices, or under this mask."""
        w = self.winners
        taken = Winners(
            w.query[chosen],
            w.distance[chosen],
            w.rank[chosen],
            w.slice_index[chosen],
            w.position[chosen],
            w.keys,
            w.key_row[chosen],
        )
        return replace(self, winners=taken)


@dataclass(frozen=True)
class FoundRows:
    """Rows whose columns are here already."""

    found: Found

    @property
    def query(self) -> Ints:
        """The query of each row."""
        return self.found.query

    @property
    def distance(self) -> Floats:
        """The distance of each row."""
        return self.found.distance

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Columns of the rows."""
        return self.found.rows.select(list(dict.fromkeys(names)))

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """The rows at these indices, or under this mask."""
        found = self.found
        at = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        rows = found.rows.take(pa.array(at)) if found.rows.num_columns else found.rows
        return FoundRows(Found(found.query[at], found.distance[at], found.rank[at], rows))


def found_rows(nearest: Nearest, names: Sequence[str]) -> Found:
    """Return rows found, which are ordered by query and distance, with their ranks and the named columns."""
    _, rank = rank_within(nearest.query, np.arange(len(nearest.query)))
    return Found(nearest.query, nearest.distance, rank + 1, nearest.columns(names))


def joined_nearest(parts: Sequence[tuple[Nearest, Ints]]) -> Nearest:
    """What several searches found, as one.

    Args:
        parts: For each search what it found, and which of all queries its own were; no query is in two of them.

    Returns:
        All rows, by query.
    """
    if len(parts) == 1 and np.array_equal(parts[0][1], np.arange(len(parts[0][1]))):
        return parts[0][0]
    query = np.concatenate([np.empty(0, np.int64), *(of[nearest.query] for nearest, of in parts)])
    order, _ = rank_within(query, np.arange(len(query)))
    return _Several(tuple(nearest for nearest, _ in parts), query, order)


@dataclass(frozen=True)
class _Several:
    """Rows of several searches; `order` are their places among all rows of the parts, one part after the other."""

    parts: tuple[Nearest, ...]
    queries: Ints
    order: npt.NDArray[np.intp]

    @property
    def query(self) -> Ints:
        """The query of each row."""
        return self.queries[self.order]

    @property
    def distance(self) -> Floats:
        """The distance of each row."""
        every: Floats = np.concatenate([np.empty(0, np.float64), *(part.distance for part in self.parts)])
        return every[self.order]

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Columns of the rows."""
        tables = [part.columns(names) for part in self.parts]
        return pa.concat_tables(tables).take(pa.array(self.order))

    def take(self, chosen: npt.NDArray[Any]) -> Nearest:
        """The rows at these indices, or under this mask."""
        return replace(self, order=self.order[chosen])
