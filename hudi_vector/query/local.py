"""A search on the driver, or in any process without Spark: threads over slices."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import pyarrow as pa

from hudi_vector import options
from hudi_vector.kernels.topk import Bounds, Ints
from hudi_vector.query.execute import Question, open_slice, tie_keys
from hudi_vector.query.indexed.slices import search_slices
from hudi_vector.query.merge import SliceHits, Winners, merge_hits
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.report import Progress
from hudi_vector.read.cache import process_cache

__all__ = ["Gathered", "run_local", "threads_of"]

_HELD_HITS = 1 << 22  # a hundred megabytes


def run_local(plan: SearchPlan, question: Question, conf: Mapping[str, str], progress: Progress) -> Winners:
    """Search every slice of a plan with threads of this process.

    Args:
        plan: The search.
        question: Its queries.
        conf: Settings, as text.
        progress: What is counted and timed on the way.

    Returns:
        The rows found.
    """
    begun = time.perf_counter()
    process_cache().resize(options.CACHE_MAX_BYTES.read(conf))
    bounds = Bounds.of(len(question.vectors), question.max_distance)
    question = question.by(plan.deadline(progress.begun))
    gathered = Gathered(plan, bounds)
    threads = threads_of(conf)
    each = threads.map if threads else map
    entries = list(enumerate(plan.slices))
    for hits, counts in search_slices(entries, plan.index, plan.spec, question, bounds, True, each, plan.beside):
        gathered.add(hits)
        progress.counts.add(counts)
    scanned = time.perf_counter()
    winners = gathered.winners()
    progress.seconds["scan"] = scanned - begun
    progress.seconds["merge"] = time.perf_counter() - scanned
    return winners


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
            last = winners.rank == self._plan.k
            self._bounds.distance[winners.query[last]] = winners.distance[last]
            self._bounds.is_full[winners.query[last]] = True
            self._parts = winners.parts()
            self._held = len(winners)

    def winners(self) -> Winners:
        """The winners among all of them."""
        return merge_winners(self._plan, self._parts)


def merge_winners(plan: SearchPlan, parts: list[SliceHits]) -> Winners:
    """The winners among the candidates of all slices; keys are read only where distances tie."""

    def keys(index: int, positions: Ints) -> pa.Table | None:
        return tie_keys(open_slice(plan.slices[index], plan.spec, keep=True), plan.spec, positions)

    return merge_hits(sorted(parts, key=lambda part: part.slice_index), plan.k, keys)


def threads_of(conf: Mapping[str, str]) -> ThreadPoolExecutor | None:
    """The threads searches on the driver share.

    Args:
        conf: Settings, as text.

    Returns:
        The pool of that many threads; None for one, which is the caller's own.
    """
    count = options.LOCAL_THREADS.read(conf) or len(os.sched_getaffinity(0))
    return _pool(count) if count > 1 else None


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="hudi-vector")
