"""A search on the driver, or in any process without Spark: threads over slices, or groups of slices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_vector import options
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.topk import Bounds, Ints
from hudi_vector.query.execute import Asked, Measure, SliceFound, Slices, offer_slice, open_slice, tie_keys
from hudi_vector.query.indexed.slices import scans_only, search_slices
from hudi_vector.query.merge import SliceHits, Winners, merge_hits
from hudi_vector.query.plan import Entry, IndexUse, SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.query.winners import fetch_rows
from hudi_vector.read.cache import process_cache
from hudi_vector.read.predicate.nodes import Predicate
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage.parallel import set_parallelism, threads_named

__all__ = ["Gathered", "GroupedSlices", "ThreadedSlices", "merge_winners", "run_local", "run_slices", "threads_of"]

_HELD_HITS = 1 << 22  # a hundred megabytes


def run_local(plan: SearchPlan, asked: Asked, conf: Mapping[str, str], progress: Progress) -> Winners:
    """Search every slice of a plan with threads of this process; `conf` are settings, as text."""
    process_cache().resize(options.CACHE_MAX_BYTES.read(conf))
    set_parallelism(options.IO_PARALLELISM.read(conf))
    threads = threads_of(conf)
    return run_slices(plan, asked, ThreadedSlices(plan, threads.map if threads else map), progress)


def run_slices(plan: SearchPlan, asked: Asked, slices: Slices, progress: Progress) -> Winners:
    """Search the slices of a plan and merge what is found; `progress` gets counts and seconds."""
    begun = time.perf_counter()
    asked = asked.by(plan.deadline(progress.begun))
    progress.deadline = asked.deadline
    bounds = asked.bounds()
    gathered = Gathered(plan, bounds)
    with asked.deadline.limiting():
        for hits, counts in asked.found(slices, bounds):
            gathered.add(hits)
            progress.counts.add(counts)
        scanned = time.perf_counter()
        winners = gathered.winners()
    progress.seconds["scan"] = scanned - begun
    progress.seconds["merge"] = time.perf_counter() - scanned
    progress.deadline.check()
    return winners


class _OfPlan:
    """The parts that slices of a plan have in common, however they are searched."""

    plan: SearchPlan

    def merged(self, asked: Asked, parts: list[SliceHits]) -> Winners:
        """Return the winners of one pass, which may want other rows than the plan."""
        return _best(self.plan, parts, asked.k, asked.per_group)

    def columns(self, winners: Winners, names: Sequence[str]) -> pa.Table:
        """Return columns of winners, in their order."""
        return fetch_rows(self.plan, winners, names, keep=True)


def _limited(plan: SearchPlan, condition: Predicate | None) -> SearchPlan:
    return plan if condition is None else replace(plan, spec=plan.spec.filtered(condition))


@dataclass(frozen=True)
class ThreadedSlices(_OfPlan):
    """All slices of a plan, gone through by `each`: `map`, or that of a thread pool. What is decoded is kept."""

    plan: SearchPlan
    each: Each

    def search(self, asked: Asked, bounds: Bounds) -> Iterator[SliceFound]:
        """Give the hits of all slices, those of an index first."""
        plan, entries = self.plan, list(enumerate(self.plan.slices))
        return search_slices(entries, plan.index, plan.spec, asked, bounds, True, self.each, plan.pruned_segments)

    def measured(self, asked: Asked, make: Callable[[], Measure]) -> Iterable[Any]:
        """Give the result of a measurement for each slice."""
        entries = sorted(enumerate(self.plan.slices), key=lambda entry: -entry[1].file_slice.size)
        return GroupedSlices(self.plan, [(entry,) for entry in entries], self.each, True).measured(asked, make)

    def wider(self, times: int) -> ThreadedSlices | None:
        """Return the slices with a wider probe of their index, None if vectors are scanned."""
        if self.plan.index is None or scans_only(self.plan.slices, self.plan.index, self.plan.spec):
            return None
        return replace(self, plan=_wider(self.plan, times))

    def limited(self, condition: Predicate | None) -> ThreadedSlices:
        """Return the slices without the rows that do not meet a condition."""
        return replace(self, plan=_limited(self.plan, condition))


@dataclass(frozen=True)
class GroupedSlices(_OfPlan):
    """The slices of a plan in groups, each searched in one task, here or on executors, by a function like `map`.

    With `keep`, what is decoded is kept in the process's cache.
    """

    plan: SearchPlan
    groups: Sequence[tuple[Entry, ...]]
    each: Each
    keep: bool

    def search(self, asked: Asked, bounds: Bounds) -> Iterable[SliceFound]:
        """Return the hits of each group; a task in another process tightens a copy of the bounds."""
        run = partial(_search_group, index=self.plan.index, spec=self.plan.spec, keep=self.keep)
        return self.each(partial(run, asked=asked, bounds=bounds), self.groups)

    def measured(self, asked: Asked, make: Callable[[], Measure]) -> Iterable[Any]:
        """Give the result of a measurement for each group."""
        return self.each(
            partial(_measure_group, spec=self.plan.spec, asked=asked, keep=self.keep, make=make), self.groups
        )

    def wider(self, times: int) -> GroupedSlices | None:
        """Return the slices with a wider probe of their index, None without an index."""
        return None if self.plan.index is None else replace(self, plan=_wider(self.plan, times))

    def limited(self, condition: Predicate | None) -> GroupedSlices:
        """Return the slices without the rows that do not meet a condition."""
        return replace(self, plan=_limited(self.plan, condition))


def _search_group(
    group: Sequence[Entry], index: IndexUse | None, spec: ScanSpec, keep: bool, asked: Asked, bounds: Bounds
) -> SliceFound:
    """Search a group's slices and keep at most k candidates a query over all of them, if their distances are final."""
    total, found = ScanCounts(), list[SliceHits]()
    access_of = dict(group)

    def keys(place: int, positions: Ints) -> pa.Table | None:
        return tie_keys(open_slice(access_of[place], spec, keep), spec, positions)

    with asked.deadline.limiting():
        for hits, counts in search_slices(group, index, spec, asked, bounds, keep):
            total.add(counts)
            found += hits
            if asked.is_final:
                found = merge_hits(found, asked.k, keys, asked.per_group).parts()
    return found, total


def _measure_group(
    group: Sequence[Entry], spec: ScanSpec, keep: bool, asked: Asked, make: Callable[[], Measure]
) -> Any:
    """Return what one measurement of all slices of a group gives; rows are counted by the search alone."""
    step = make()
    for _, access in group:
        offer_slice(access, spec, asked, step, keep, ScanCounts())
    return step.result


class Gathered:
    """The hits of slices, merged before they are too many: queries times slices may be more than memory holds.

    Args:
        plan: The search.
        bounds: What is known of the k-th distances; tightened by what is merged.
    """

    def __init__(self, plan: SearchPlan, bounds: Bounds) -> None:
        self._plan = plan
        self._bounds = bounds
        self._parts: list[SliceHits] = []
        self._held = 0
        self._most = max(_HELD_HITS, 4 * plan.k * len(bounds.distance))

    def add(self, parts: Sequence[SliceHits]) -> None:
        """Hits of further slices."""
        self._parts += parts
        self._held += sum(len(part.hits) for part in parts)
        if self._held > self._most:
            winners = self.winners()
            last = winners.found_rank == self._plan.k
            self._bounds.distance[winners.query[last]] = winners.distance[last]
            self._bounds.is_full[winners.query[last]] = True
            self._parts = winners.parts()
            self._held = len(winners)

    def winners(self) -> Winners:
        """Return the winners among all hits."""
        return merge_winners(self._plan, self._parts)


def merge_winners(plan: SearchPlan, parts: list[SliceHits]) -> Winners:
    """Return the winners among the candidates of all slices; keys are read only where distances tie."""
    return _best(plan, parts, plan.k, None if plan.grouping is None else plan.grouping.per_group)


def _wider(plan: SearchPlan, times: int) -> SearchPlan:
    assert plan.index is not None
    nprobes = None if plan.index.nprobes is None else times * plan.index.nprobes
    return replace(plan, index=replace(plan.index, nprobes=nprobes))


def _best(plan: SearchPlan, parts: list[SliceHits], k: int, per_group: int | None) -> Winners:
    def keys(index: int, positions: Ints) -> pa.Table | None:
        return tie_keys(open_slice(plan.slices[index], plan.spec, keep=True), plan.spec, positions)

    return merge_hits(sorted(parts, key=lambda part: part.slice_index), k, keys, per_group)


def threads_of(conf: Mapping[str, str]) -> ThreadPoolExecutor | None:
    """Return the threads that searches on the driver share, None for one thread, the caller's; `conf` are settings."""
    count = options.LOCAL_THREADS.read(conf) or len(os.sched_getaffinity(0))
    return threads_named("hudi-vector", count) if count > 1 else None
