"""A hybrid search over the slices of a plan: on threads of this process, or on executors, the same functions.

The weighted sum takes one pass over the rows, two where scores are normalized. Ranks take two: one for the rows that
can be among the best, one to count how many rows are nearer than each of them, column by column.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hudi_vector import options
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints
from hudi_vector.query.execute import open_slice, tie_keys
from hudi_vector.query.hybrid.best import BestRows, Scale, Scored
from hudi_vector.query.hybrid.fusion import by_rank, kept_near, limits_of, scale_of, score_of_ranks
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.query.hybrid.ranks import Counts, Extremes, NearestByColumn
from hudi_vector.query.local import threads_of
from hudi_vector.query.merge import SliceHits, Winners, break_ties, merge_hits
from hudi_vector.query.plan import SearchPlan, SliceAccess
from hudi_vector.query.report import Progress
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.several import Together, in_step
from hudi_vector.read.sparse import SparseColumn, sparse_blocks
from hudi_vector.read.spec import ScanCounts, ScanSpec

__all__ = ["HybridWinners", "run_hybrid", "run_hybrid_local"]

Entry = tuple[int, SliceAccess]
Group = tuple[Entry, ...]


@dataclass(frozen=True)
class HybridWinners:
    """The rows found, whose distance is the negated score, and their distances by column, shape (w, c)."""

    winners: Winners
    distances: Floats

    @property
    def score(self) -> Floats:
        """The score of each row."""
        return 0.0 - self.winners.distance


@dataclass(frozen=True)
class _SliceScored:
    """What a slice offers."""

    hits: SliceHits
    distances: Floats


class _Pass(Protocol):
    def offer(self, blocks: Together) -> None: ...


@dataclass(frozen=True)
class _Work:
    """What is done with a group of slices, in any process."""

    spec: ScanSpec
    question: HybridQuestion
    keep: bool

    def blocks(self, entry: Entry, counts: ScanCounts) -> Iterator[tuple[Together, MergedSlice | None]]:
        """The rows of a slice that have a vector in every column, and the reader that knows their keys, if merged."""
        access, columns, deadline = entry[1], self.question.read, self.question.deadline
        if access.access == "merged":
            merged = MergedSlice(access.file_slice, self.spec, self.keep)
            for blocks in merged.several(columns, counts):
                deadline.check(rows=len(blocks[0]))
                if len(blocks[0]):
                    yield blocks, merged
            deadline.check(slices=1)
            return
        assert access.file_slice.base_file is not None
        own = [ScanCounts() for _ in columns]
        streams: list[Iterator[Any]] = []
        for column, count in zip(columns, own, strict=True):
            if isinstance(column, SparseColumn):
                reader = open_slice(access, self.spec, self.keep)
                assert isinstance(reader, ParquetSlice)
                file = access.file_slice.base_file
                streams.append(sparse_blocks(reader, file, self.spec, column, self.keep, count))
            else:
                streams.append(open_slice(access, replace(self.spec, column=column), self.keep).blocks(count))
        found = 0
        for blocks in in_step(streams):
            found += len(blocks[0])
            deadline.check(rows=len(blocks[0]))
            yield blocks, None
        for _ in streams[0]:  # rows that another column lacks are counted too
            pass
        deadline.check(slices=1)
        rows = own[0].rows - own[0].pruned - own[0].filtered
        counts.add(replace(own[0], nulls=rows - found, invalid=0, bytes_read=sum(count.bytes_read for count in own)))

    def run(self, entry: Entry, step: _Pass, counts: ScanCounts) -> None:
        """Offer all rows of a slice."""
        for blocks, _ in self.blocks(entry, counts):
            step.offer(blocks)

    def found(self, entry: Entry, step: BestRows | NearestByColumn, counts: ScanCounts) -> tuple[Scored, Any]:
        """What a pass finds in a slice, with the reader that knows its rows' keys."""
        reader: Any = None
        for blocks, merged in self.blocks(entry, counts):
            step.offer(blocks)
            if merged is not None:
                reader = merged
                merged.retain(lambda: [step.candidates()])
        counts.invalid += step.invalid
        return step.found(), reader


def _best(group: Group, work: _Work, bounds: Bounds, scale: Scale | None) -> tuple[list[_SliceScored], ScanCounts]:
    """The best rows of a group of slices, at most k a query over all of them."""
    counts, parts = ScanCounts(), []
    readers: dict[int, Any] = {}
    for entry in group:
        scored, reader = work.found(entry, BestRows(work.question, bounds, scale), counts)
        readers[entry[0]] = reader or open_slice(entry[1], work.spec, work.keep)
        hits = break_ties(scored.hits, work.question.k, partial(tie_keys, readers[entry[0]], work.spec))
        parts.append(_with_keys(entry, hits, scored.distances_of(hits), reader, work.spec))
    if len(group) > 1:
        merged = _merged(parts, work.question, lambda index, at: tie_keys(readers[index], work.spec, at))
        parts = _parts_of(merged)
    return parts, counts


def _with_keys(entry: Entry, hits: Hits, distances: Floats, reader: Any, spec: ScanSpec) -> _SliceScored:
    keys = tie_keys(reader, spec, hits.position) if reader is not None else None
    return _SliceScored(SliceHits(entry[0], hits, keys), distances)


def _parts_of(merged: HybridWinners) -> list[_SliceScored]:
    """Winners as candidates again."""
    places = merged.winners.slice_index
    return [
        _SliceScored(merged.winners.of_slice(int(index)), merged.distances[places == index])
        for index in np.unique(places)
    ]


def _merged(
    parts: Sequence[_SliceScored], question: HybridQuestion, keys_of: Callable[[int, Ints], pa.Table | None]
) -> HybridWinners:
    ordered = sorted(parts, key=lambda part: part.hits.slice_index)
    winners = merge_hits([part.hits for part in ordered], question.k, keys_of)
    distances = np.empty((len(winners), len(question.columns)))
    for part in ordered:
        here = winners.slice_index == part.hits.slice_index
        asked = Hits(winners.query[here], winners.distance[here], winners.position[here])
        distances[here] = Scored(part.hits.hits, part.distances).distances_of(asked)
    return HybridWinners(winners, distances)


def _nearest(group: Group, work: _Work, bounds: tuple[Bounds, ...]) -> tuple[list[_SliceScored], ScanCounts]:
    counts, parts = ScanCounts(), []
    for entry in group:
        scored, reader = work.found(entry, NearestByColumn(work.question, bounds), counts)
        parts.append(_with_keys(entry, scored.hits, scored.distances, reader, work.spec))
    return parts, counts


def _counted(group: Group, work: _Work, limits: tuple[tuple[Floats, ...], ...]) -> tuple[Any, ScanCounts]:
    step, counts = Counts(work.question, limits), ScanCounts()
    for entry in group:
        work.run(entry, step, counts)
    return step.nearer, counts


def _extremes(group: Group, work: _Work) -> tuple[tuple[Floats, Floats], ScanCounts]:
    step, counts = Extremes(work.question), ScanCounts()
    for entry in group:
        work.run(entry, step, counts)
    return (step.least, step.largest), counts


def run_hybrid_local(
    plan: SearchPlan, question: HybridQuestion, conf: Mapping[str, str], progress: Progress
) -> HybridWinners:
    """Search every slice of a plan with threads of this process.

    Args:
        plan: The slices and the filter.
        question: The columns and their queries.
        conf: Settings, as text.
        progress: What is counted and timed on the way.

    Returns:
        The rows found.
    """
    process_cache().resize(options.CACHE_MAX_BYTES.read(conf))
    entries = sorted(enumerate(plan.slices), key=lambda entry: -entry[1].file_slice.size)
    threads = threads_of(conf)
    return run_hybrid(plan, question, [(entry,) for entry in entries], threads.map if threads else map, True, progress)


def run_hybrid(
    plan: SearchPlan,
    question: HybridQuestion,
    groups: Sequence[Group],
    each: Each,
    keep: bool,
    progress: Progress,
) -> HybridWinners:
    """Search the slices of a plan, group by group.

    Args:
        plan: The slices and the filter.
        question: The columns and their queries.
        groups: The slices with their places in the plan.
        each: How the groups are gone through: `map`, that of a thread pool, or of executors.
        keep: Whether what is decoded is kept in the process's cache.
        progress: What is counted and timed on the way.

    Returns:
        The rows found, by query and rank.
    """
    begun = time.perf_counter()
    question = replace(question, deadline=plan.deadline(progress.begun))
    work = _Work(plan.spec, question, keep)
    if question.fusion == "rrf":
        parts = _by_ranks(work, groups, each, progress.counts)
    else:
        scale = None
        if question.normalize:
            passed = [extremes for extremes, _ in each(partial(_extremes, work=work), groups)]
            scale = scale_of(question, passed)
        bounds = Bounds.of(question.queries)
        parts = _collected(each(partial(_best, work=work, bounds=bounds, scale=scale), groups), progress.counts)
    progress.seconds["scan"] = time.perf_counter() - begun
    merging = time.perf_counter()

    def keys(index: int, positions: Ints) -> pa.Table | None:
        return tie_keys(open_slice(plan.slices[index], plan.spec, keep=True), plan.spec, positions)

    found = _merged(parts, question, keys)
    progress.seconds["merge"] = time.perf_counter() - merging
    return found


def _collected(results: Iterable[tuple[list[_SliceScored], ScanCounts]], counts: ScanCounts) -> list[_SliceScored]:
    parts: list[_SliceScored] = []
    for found, own in results:
        parts += found
        counts.add(own)
    return parts


def _by_ranks(work: _Work, groups: Sequence[Group], each: Each, counts: ScanCounts) -> list[_SliceScored]:
    """The rows that may be among the best by rank, with their scores."""
    question = work.question
    bounds = tuple(Bounds.of(question.queries) for _ in question.columns)
    parts = _collected(each(partial(_nearest, work=work, bounds=bounds), groups), counts)
    query = np.concatenate([np.empty(0, np.int64), *(part.hits.hits.query for part in parts)])
    distances = np.concatenate([np.empty((0, len(question.columns))), *(part.distances for part in parts)])
    kept = kept_near(question, query, distances)
    limits = limits_of(question, query[kept], distances[kept])
    nearer = by_rank([found for found, _ in each(partial(_counted, work=work, limits=limits), groups)])
    scored, done = [], 0
    for part in parts:
        chosen = kept[done : done + len(part.hits.hits)]
        done += len(part.hits.hits)
        hits, keys = part.hits.hits.take(chosen), part.hits.keys
        own = part.distances[chosen]
        total = score_of_ranks(question, limits, nearer, hits.query, own)
        hits = Hits(hits.query, 0.0 - total, hits.position)
        keys = keys.filter(pa.array(chosen)) if keys is not None else None
        scored.append(_SliceScored(SliceHits(part.hits.slice_index, hits, keys), own))
    return scored
