"""A search on the driver, or in any process without Spark: threads over slices."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import pyarrow as pa

from hudi_vector import options
from hudi_vector.kernels.topk import Bounds, Ints
from hudi_vector.read.cache import process_cache
from hudi_vector.search.execute import Question, open_slice, tie_keys
from hudi_vector.search.indexed import search_slices
from hudi_vector.search.merge import SliceHits, Winners, merge_hits
from hudi_vector.search.plan import SearchPlan
from hudi_vector.search.report import Progress

__all__ = ["run_local", "threads_of"]


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
    parts: list[SliceHits] = []
    threads = threads_of(conf)
    each = threads.map if threads else map
    entries = list(enumerate(plan.slices))
    for hits, counts in search_slices(entries, plan.index, plan.spec, question, bounds, True, each, plan.beside):
        parts += hits
        progress.counts.add(counts)
    scanned = time.perf_counter()
    winners = merge_winners(plan, parts)
    progress.seconds["scan"] = scanned - begun
    progress.seconds["merge"] = time.perf_counter() - scanned
    return winners


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
