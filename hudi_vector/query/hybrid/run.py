"""A hybrid search as the common search runs it: what is read of a slice, what is collected, and the passes over rows.

The weighted sum takes one pass over the rows, two where scores are normalized. Ranks take two: one for the rows that
can be among the best, one to count how many rows are nearer than each of them, column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits
from hudi_vector.query.execute import OpenedSlice, SliceFound, Slices, open_slice
from hudi_vector.query.hybrid.best import BestRows, Scale
from hudi_vector.query.hybrid.fusion import costs_by_rank, scale_of
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
    """A hybrid question that the common search can ask; `scale` is known after a pass over all rows."""

    scale: Scale | None = None

    @classmethod
    def of(cls, question: HybridQuestion) -> HybridAsked:
        """Return a question in this form."""
        return cls(**vars(question))

    @property
    def per_group(self) -> None:
        """Return None: a hybrid search finds rows, not groups."""
        return None

    @property
    def needs(self) -> tuple[str, ...]:
        """Return no columns: the vectors are enough."""
        return ()

    @property
    def is_final(self) -> bool:
        """Return False for ranks, which depend on all rows."""
        return self.fusion != "rrf"

    def bounds(self) -> Bounds:
        """Return bounds without a limit: one for each query, for ranks one for each column and query."""
        return Bounds.of(self.queries if self.is_final else self.queries * len(self.columns))

    def collector(self, bounds: Bounds) -> BestRows | NearestByColumn:
        """Return a collector of the rows that may be among the best."""
        if self.is_final:
            return BestRows(self, bounds, self.scale)
        return NearestByColumn(self, bounds)

    def with_rows(self, blocks: Together, rows: Callable[..., pa.Table]) -> Together:  # noqa: ARG002 - needs vectors
        """Return the same blocks: nothing but the vectors is needed."""
        return blocks

    def blocks(self, opened: OpenedSlice, counts: ScanCounts) -> Iterator[Together]:
        """Yield the rows of a slice that pass the filter and have a vector in every column, and add to `counts`."""
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
        """Give the hits of all slices with their scores, in one pass or two."""
        if not self.is_final:
            return [self._ranked(slices, bounds)]
        if not self.normalize:
            return slices.search(self, bounds)
        extremes = slices.measured(self, partial(Extremes, self))
        return slices.search(replace(self, scale=scale_of(self, extremes)), bounds)

    def _ranked(self, slices: Slices, bounds: Bounds) -> SliceFound:
        """Return the hits that may be among the best by ranks, with their scores, after a pass that counts ranks."""
        parts, counts = [], ScanCounts()
        for found, own in slices.search(self, bounds):
            parts += found
            counts.add(own)
        hits = Hits.joined([part.hits for part in parts])
        near, cost = costs_by_rank(self, hits, lambda limits: slices.measured(self, partial(Counts, self, limits)))
        scored, done = [], 0
        for part in parts:
            here = slice(done, done + len(part.hits))
            done += len(part.hits)
            chosen = part.take(near[here])
            scored.append(replace(chosen, hits=replace(chosen.hits, distance=cost[here][near[here]])))
        return scored, counts


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
