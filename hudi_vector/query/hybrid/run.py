"""A hybrid search as the common search runs it: what is read of a slice, what is collected, and the passes over rows.

The weighted sum takes one pass over the rows, two where scores are normalized. Ranks take two: one for the rows that
can be among the best, one to count how many rows are nearer than each of them, column by column. For groups, ranks take
one more pass over some rows and one over all, for the ladder that bounds them. More than one row of each group takes
one more search, of the rows of these groups alone; ranks and normalization are those among all rows all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.groups import GroupedBlock
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints
from hudi_vector.query.execute import OpenedSlice, SearchedRows, SliceFound, Slices, open_slice
from hudi_vector.query.grouped.passes import Members, in_passes
from hudi_vector.query.hybrid.best import BestRows, Scale
from hudi_vector.query.hybrid.fusion import candidates_of_rows, costs_by_rank, nearer_than, scale_of
from hudi_vector.query.hybrid.groups import BestGroups
from hudi_vector.query.hybrid.ladder import Ladder, RankedGroups, Sampled, candidates_of_groups, rungs_of
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.query.hybrid.ranks import Counts, Extremes, NearestByColumn
from hudi_vector.query.local import GroupedSlices, run_slices
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import Entry, SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.several import Together, in_step
from hudi_vector.read.sparse import SparseColumn, sparse_blocks
from hudi_vector.read.spec import ScanCounts

__all__ = ["HybridAsked", "HybridWinners", "run_hybrid"]


@dataclass(frozen=True)
class HybridWinners:
    """The rows found, whose distance is the negated score, and their distances by column, shape (w, c)."""

    winners: Winners
    distances: Floats

    @classmethod
    def of(cls, winners: Winners, question: HybridQuestion) -> HybridWinners:
        """Return the rows that a search for this question found."""
        nothing = np.empty((0, len(question.columns)))
        return cls(winners, nothing if winners.by_column is None else winners.by_column)

    @property
    def score(self) -> Floats:
        """Return the score of each row."""
        return 0.0 - self.winners.distance


@dataclass(frozen=True)
class HybridAsked(HybridQuestion):
    """A hybrid question that the common search can ask; `scale` and `ladder` are known after passes over all rows.

    With `members`, the rows of these groups alone are searched.
    """

    scale: Scale | None = None
    ladder: Ladder | None = None
    members: Members | None = None

    @classmethod
    def of(cls, question: HybridQuestion) -> HybridAsked:
        """Return a question in this form."""
        return cls(**vars(question))

    @property
    def per_group(self) -> int | None:
        """Return the number of rows that each group gives at most, None in a search for rows."""
        return None if self.grouping is None else self.grouping.per_group

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the columns of the groups."""
        return () if self.grouping is None else self.grouping.columns

    @property
    def for_rows(self) -> HybridAsked:
        """Return the question for rows, whatever their groups."""
        return replace(self, grouping=None)

    @property
    def is_final(self) -> bool:
        """Return False for ranks, which depend on all rows."""
        return self.fusion != "rrf"

    def bounds(self) -> Bounds:
        """Return bounds without a limit: one for each query, for ranks of rows one for each column and query."""
        return Bounds.of(self.queries if self.is_final or self.grouping else self.queries * len(self.columns))

    def collector(self, bounds: Bounds) -> BestRows | NearestByColumn:
        """Return a collector of the rows that may be among the best."""
        if self.grouping is not None:
            if self.ladder is not None:
                return RankedGroups(self, bounds, self.ladder, self.members)
            return BestGroups(self, bounds, self.scale, self.members)
        if self.is_final:
            return BestRows(self, bounds, self.scale)
        return NearestByColumn(self, bounds)

    def with_rows(self, blocks: Together, rows: Callable[[Ints, Sequence[str]], pa.Table]) -> Together:
        """Return the blocks, for groups with one more: without elements, but with the values of their columns."""
        if self.grouping is None:
            return blocks
        positions, names = blocks[0].positions, self.grouping.columns
        nothing, none = np.empty((len(positions), 0), np.float32), np.empty(0, np.int64)
        squares = np.zeros(len(positions), np.float32)
        return (*blocks, GroupedBlock(nothing, positions, squares, none, lambda at: rows(positions[at], names)))

    def one_of_each(self) -> HybridAsked:
        """Return the question for the best row of each group alone."""
        assert self.grouping is not None
        return replace(self, grouping=replace(self.grouping, per_group=1))

    def among(self, members: Members) -> HybridAsked:
        """Return the question for the rows of some groups."""
        return replace(self, members=members)

    def with_ladder(self, slices: Slices) -> HybridAsked:
        """Return the question with the ladder that bounds the ranks of all rows, after two passes."""
        rows = self.for_rows
        rungs = rungs_of(self, slices.measured(rows, partial(Sampled, rows)))
        return replace(self, ladder=Ladder(rungs, nearer_than(slices.measured(rows, partial(Counts, rows, rungs)))))

    def blocks(self, opened: OpenedSlice, counts: ScanCounts) -> Iterator[Together]:
        """Yield the rows of a slice that pass the filter and have a vector in every column, and add to `counts`."""
        return (self.with_rows(blocks, opened.reader.rows) for blocks in self._vectors(opened, counts))

    def _vectors(self, opened: OpenedSlice, counts: ScanCounts) -> Iterator[Together]:
        columns = self.read
        if isinstance(opened.reader, MergedSlice):
            yield from opened.reader.several(columns, counts)
            return
        own, found = [ScanCounts() for _ in columns], 0
        streams = [_stream(opened, column, count) for column, count in zip(columns, own, strict=True)]
        for blocks in in_step(streams):
            found += len(blocks[0])
            yield blocks
        for _ in streams[0]:  # rows that another column lacks are counted too
            pass
        rows = own[0].rows - own[0].pruned - own[0].filtered
        counts.add(replace(own[0], nulls=rows - found, invalid=0, bytes_read=sum(count.bytes_read for count in own)))

    def found(self, slices: Slices, bounds: Bounds) -> Iterable[SliceFound]:
        """Give the hits of all slices with their scores, in as many passes as they need."""
        asked, rows = self, self.for_rows
        if self.normalize:
            asked = replace(self, scale=scale_of(self, slices.measured(rows, partial(Extremes, rows))))
        elif self.grouping is not None and not self.is_final:
            asked = self.with_ladder(slices)
        search = _scored if self.is_final else partial(_ranked, every=slices)
        return search(asked, slices, bounds) if self.grouping is None else in_passes(asked, slices, bounds, search)


def _scored(asked: HybridAsked, slices: SearchedRows, bounds: Bounds) -> Iterable[SliceFound]:
    """Give the hits of all slices, whose scores depend on one row each."""
    return slices.search(asked, bounds)


def _ranked(asked: HybridAsked, slices: SearchedRows, bounds: Bounds, every: Slices) -> Iterator[SliceFound]:
    """Yield the hits of all slices that may be among the best by ranks, with their scores.

    Their ranks are counted in a pass over `every` row.
    """
    parts, counts = [], ScanCounts()
    for found, own in slices.search(asked, bounds):
        parts += found
        counts.add(own)
    rows, hits = asked.for_rows, Hits.joined([part.hits for part in parts])
    candidates = candidates_of_rows
    if asked.grouping is not None:
        candidates = partial(candidates_of_groups, is_of_members=asked.members is not None)
    near, cost = costs_by_rank(
        asked, hits, candidates, lambda limits: every.measured(rows, partial(Counts, rows, limits))
    )
    scored, done = [], 0
    for part in parts:
        here = slice(done, done + len(part.hits))
        done += len(part.hits)
        chosen = part.take(near[here])
        scored.append(replace(chosen, hits=_of_columns(chosen.hits, cost[here][near[here]], len(asked.columns))))
    yield scored, counts


def _of_columns(hits: Hits, cost: Floats, columns: int) -> Hits:
    """Return hits with their costs, and the distances by column alone."""
    by_column = None if hits.by_column is None else hits.by_column[:, :columns]
    return replace(hits, distance=cost, by_column=by_column)


def _stream(opened: OpenedSlice, column: Any, counts: ScanCounts) -> Iterator[Any]:
    """Return the blocks of one column of a slice without log files, ascending by position."""
    access, spec, keep = opened.access, opened.spec, opened.keep
    if not isinstance(column, SparseColumn):
        return iter(open_slice(access, replace(spec, column=column), keep).blocks(counts))
    reader, file = open_slice(access, spec, keep), access.file_slice.base_file
    assert isinstance(reader, ParquetSlice)
    assert file is not None
    return sparse_blocks(reader, file, spec, column, keep, counts)


def run_hybrid(
    plan: SearchPlan,
    question: HybridQuestion,
    groups: Sequence[tuple[Entry, ...]],
    each: Each,
    keep: bool,
    progress: Progress,
) -> HybridWinners:
    """Search groups of slices of a plan, and return the rows found, by query and rank.

    `each` is `map` or a function like it. With `keep`, what is decoded is kept in the process's cache. `progress` gets
    counts and seconds.
    """
    slices = GroupedSlices(plan, groups, each, keep)
    return HybridWinners.of(run_slices(plan, HybridAsked.of(question), slices, progress), question)
