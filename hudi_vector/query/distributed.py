"""A search on executors: one stage, its tasks balanced by bytes, at most tasks × k candidates a query back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext

from hudi_vector.errors import HudiVectorError, UnmergeableError
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.topk import Bounds, Ints
from hudi_vector.query.execute import Question, open_slice, tie_keys
from hudi_vector.query.indexed.slices import search_slices
from hudi_vector.query.local import merge_winners
from hudi_vector.query.merge import SliceHits, Winners, merge_hits
from hudi_vector.query.plan import IndexUse, SearchPlan, SliceAccess
from hudi_vector.query.report import Progress
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.workers import balanced, unfit_workers

__all__ = ["find_unmergeable", "on_executors", "run_distributed"]

_TASKS_PER_CORE = 3
_MOST_TASKS_PER_CORE = 16


@dataclass(frozen=True)
class _Task:
    """What one task gets: its slices with their places in the plan, and the question."""

    slices: tuple[tuple[int, SliceAccess], ...]
    spec: ScanSpec
    question: Question
    index: IndexUse | None = None


def run_distributed(context: SparkContext, plan: SearchPlan, question: Question, progress: Progress) -> Winners:
    """Search every slice of a plan on the executors.

    Args:
        context: The Spark application.
        plan: The search.
        question: Its queries.
        progress: What is counted and timed on the way.

    Returns:
        The rows found.
    """
    begun = time.perf_counter()
    question = question.by(plan.deadline(progress.begun))
    sizes = [access.size for access in plan.slices]
    groups = balanced(sizes, min(len(sizes), max(1, context.defaultParallelism) * _TASKS_PER_CORE))
    tasks = [_Task(tuple((i, plan.slices[i]) for i in group), plan.spec, question, plan.index) for group in groups]
    parts: list[SliceHits] = []
    with question.deadline.cancelling(context):
        for hits, counts in on_executors(context)(_run_task, tasks):
            parts += hits
            progress.counts.add(counts)
    scanned = time.perf_counter()
    winners = merge_winners(plan, parts)
    progress.seconds["scan"] = scanned - begun
    progress.seconds["merge"] = time.perf_counter() - scanned
    return winners


def on_executors(context: SparkContext) -> Each:
    """A way to go through items with a task each, or, where they are many, some for each task.

    Args:
        context: The Spark application.

    Returns:
        A function that applies another to items and gives its values in their order; an error of this package that
        it raises is raised here.
    """

    def each(run: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        def guarded(item: Any) -> Any:
            try:
                return run(item)
            except HudiVectorError as problem:
                # As a value it reaches the driver in its own words, and is not tried four times.
                return type(problem)(str(problem))

        if not items:
            return []
        # To begin a task takes longer than to read a small file.
        tasks = min(len(items), _MOST_TASKS_PER_CORE * max(1, context.defaultParallelism))
        outcomes = _of_workers(context.parallelize(items, tasks).map(guarded))
        for outcome in outcomes:
            if isinstance(outcome, HudiVectorError):
                raise outcome
        return outcomes

    return each


def find_unmergeable(context: SparkContext, plan: SearchPlan, names: Sequence[str]) -> str | None:
    """Merge the slices with log files once on the executors, to know whether only Spark can.

    Args:
        context: The Spark application.
        plan: A search that cannot be answered another way once it has begun.
        names: The columns its answer will have.

    Returns:
        What cannot be merged and why, or None.
    """
    merged = [access for access in plan.slices if access.is_merged]
    if not merged:
        return None
    spec, wanted = plan.spec, tuple(names)

    def problem_of(access: SliceAccess) -> str | None:
        reader = open_slice(access, spec, keep=False)
        assert isinstance(reader, MergedSlice)
        try:
            reader.require_mergeable(wanted)
        except UnmergeableError as problem:
            return str(problem)
        return None

    problems = _of_workers(context.parallelize(merged, len(merged)).map(problem_of).filter(bool))
    return problems[0] if problems else None


def _of_workers(rows: RDD[Any]) -> list[Any]:
    """The rows that Python workers compute; SessionError where no worker could."""
    try:
        return rows.collect()
    except Py4JJavaError as problem:
        raise unfit_workers(problem) or problem from None


def _run_task(task: _Task) -> tuple[list[SliceHits], ScanCounts]:
    """Search a task's slices and keep at most k candidates a query over all of them."""
    question, spec = task.question, task.spec
    bounds = Bounds.of(len(question.vectors), question.max_distance)
    total = ScanCounts()
    access_of = dict(task.slices)
    kept: list[SliceHits] = []
    for hits, counts in search_slices(task.slices, task.index, spec, question, bounds, keep=False):
        total.add(counts)
        kept = _fewest([*kept, *hits], access_of, spec, question.k)
    return kept, total


def _fewest(parts: list[SliceHits], access_of: Mapping[int, SliceAccess], spec: ScanSpec, k: int) -> list[SliceHits]:
    """The same candidates, those left out that k others beat."""

    def keys(index: int, positions: Ints) -> pa.Table | None:
        return tie_keys(open_slice(access_of[index], spec, keep=False), spec, positions)

    return merge_hits(parts, k, keys).parts()
