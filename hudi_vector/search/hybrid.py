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
from hudi_vector.index.truth import Each
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints
from hudi_vector.read.cache import process_cache
from hudi_vector.read.merged import MergedSlice
from hudi_vector.read.several import Together, in_step
from hudi_vector.read.sparse import SparseColumn, sparse_blocks
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.search.execute import open_slice, tie_keys
from hudi_vector.search.hybrid_best import BestRows, Scale, Scored
from hudi_vector.search.hybrid_question import RANK_CONSTANT, HybridQuestion, scores
from hudi_vector.search.hybrid_ranks import Counts, Extremes, NearestByColumn, ranks_needed
from hudi_vector.search.local import threads_of
from hudi_vector.search.merge import SliceHits, Winners, break_ties, merge_hits
from hudi_vector.search.plan import SearchPlan, SliceAccess
from hudi_vector.search.report import Progress

__all__ = [
    "HybridWinners",
    "by_rank",
    "kept_near",
    "limits_of",
    "run_hybrid",
    "run_hybrid_local",
    "scale_of",
    "score_of_ranks",
]

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
        access, columns = entry[1], self.question.read
        if access.access == "merged":
            merged = MergedSlice(access.file_slice, self.spec, self.keep)
            for blocks in merged.several(columns, counts):
                if len(blocks[0]):
                    yield blocks, merged
            return
        assert access.file_slice.base_file is not None
        own = [ScanCounts() for _ in columns]
        streams: list[Iterator[Any]] = []
        for column, count in zip(columns, own, strict=True):
            if isinstance(column, SparseColumn):
                streams.append(sparse_blocks(access.file_slice.base_file, self.spec, column, self.keep, count))
            else:
                streams.append(open_slice(access, replace(self.spec, column=column), self.keep).blocks(count))
        found = 0
        for blocks in in_step(streams):
            found += len(blocks[0])
            yield blocks, None
        for stream in streams:
            for _ in stream:  # rows that no other column has are counted too
                pass
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
        merged = _merged(parts, work.question.k, lambda index, at: tie_keys(readers[index], work.spec, at))
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


def _merged(parts: Sequence[_SliceScored], k: int, keys_of: Callable[[int, Ints], pa.Table | None]) -> HybridWinners:
    ordered = sorted(parts, key=lambda part: part.hits.slice_index)
    winners = merge_hits([part.hits for part in ordered], k, keys_of)
    distances = np.empty((len(winners), parts[0].distances.shape[1] if parts else 0))
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

    found = _merged(parts, question.k, keys)
    progress.seconds["merge"] = time.perf_counter() - merging
    return found


def _collected(results: Iterable[tuple[list[_SliceScored], ScanCounts]], counts: ScanCounts) -> list[_SliceScored]:
    parts: list[_SliceScored] = []
    for found, own in results:
        parts += found
        counts.add(own)
    return parts


def scale_of(question: HybridQuestion, passed: Iterable[tuple[Floats, Floats]]) -> Scale:
    """What normalizing takes off and divides by, from the least and largest distances of all parts of the rows."""
    parts = list(passed)
    shape = (question.queries, len(question.columns))
    least, span = np.zeros(shape), np.zeros(shape)
    for number, entry in enumerate(question.columns):
        nearest = np.min([part[:, number] for part, _ in parts] or [np.full(shape[0], np.inf)], axis=0)
        farthest = np.max([part[:, number] for _, part in parts] or [np.full(shape[0], -np.inf)], axis=0)
        seen = nearest <= farthest
        least[seen, number] = scores(farthest[seen], entry.metric)
        span[seen, number] = scores(nearest[seen], entry.metric) - least[seen, number]
    return Scale(least, span)


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


def kept_near(question: HybridQuestion, query: Ints, distances: Floats) -> Any:
    """Which candidates by rank are near enough in a column, now that all are known: a mask of shape (h,)."""
    needed = ranks_needed([entry.weight for entry in question.columns], question.k)
    kept = np.zeros(len(query), np.bool_)
    for asked in np.unique(query):
        here = np.flatnonzero(query == asked)
        for number, entry in enumerate(question.columns):
            if entry.weight > 0:
                column = distances[here, number]
                last = np.partition(column, needed - 1)[needed - 1] if len(column) >= needed else np.inf
                kept[here[column <= last]] = True
    return kept


def limits_of(question: HybridQuestion, query: Ints, distances: Floats) -> tuple[tuple[Floats, ...], ...]:
    """The distinct distances of the candidates for every query and column, ascending."""
    columns = range(len(question.columns))
    parts = [distances[query == asked] for asked in range(question.queries)]
    return tuple(tuple(np.unique(part[:, number]) for number in columns) for part in parts)


def by_rank(counted: Sequence[Any]) -> list[list[Ints]]:
    """How many rows are nearer than each limit, from the counts of all parts of the rows."""
    added = [
        [np.sum(column, axis=0) for column in zip(*of_query, strict=True)] for of_query in zip(*counted, strict=True)
    ]
    return [[np.cumsum(column)[:-1] for column in of_query] for of_query in added]


def score_of_ranks(
    question: HybridQuestion,
    limits: tuple[tuple[Floats, ...], ...],
    nearer: list[list[Ints]],
    query: Ints,
    distances: Floats,
) -> Floats:
    """The sums of weight / (60 + rank), the rank being 1 and how many rows are nearer."""
    total = np.zeros(len(query))
    for asked in np.unique(query):
        here = np.flatnonzero(query == asked)
        for number, entry in enumerate(question.columns):
            if entry.weight > 0:
                at = np.searchsorted(limits[asked][number], distances[here, number])
                total[here] += entry.weight / (RANK_CONSTANT + 1.0 + nearer[asked][number][at])
    return total
