"""A search on executors: one stage, its tasks balanced by bytes, at most tasks × k candidates a query back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext

from hudi_vector.errors import HudiVectorError, UnmergeableError
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.query.execute import Asked, open_slice
from hudi_vector.query.local import GroupedSlices, run_slices
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan, SliceAccess
from hudi_vector.query.report import Progress
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.storage import parallel
from hudi_vector.workers import balanced, forget_archives, unfit_workers

__all__ = ["find_unmergeable", "on_executors", "run_distributed"]

_TASKS_PER_CORE = 3
_MOST_TASKS_PER_CORE = 16


def run_distributed(context: SparkContext, plan: SearchPlan, asked: Asked, progress: Progress) -> Winners:
    """Search every slice of a plan on the executors, in groups of nearly equal bytes; its jobs end at the deadline."""
    asked = asked.by(plan.deadline(progress.begun))
    sizes = [access.size for access in plan.slices]
    groups = balanced(sizes, min(len(sizes), max(1, context.defaultParallelism) * _TASKS_PER_CORE))
    entries = [tuple((place, plan.slices[place]) for place in group) for group in groups]

    def each(run: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        with asked.deadline.cancelling(context):
            return on_executors(context)(run, items)

    return run_slices(plan, asked, GroupedSlices(plan, entries, each, keep=False), progress)


def on_executors(context: SparkContext, at_once: int = 1) -> Each:
    """Return a function that applies another one to items, in a task for each or for several, and keeps their order.

    A task works on `at_once` of its items at a time. An error of this package in a task is raised on the driver.
    """

    def each(run: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        def guarded(item: Any) -> Any:
            try:
                return run(item)
            except HudiVectorError as problem:
                # As a value it reaches the driver in its own words, and is not tried four times.
                return type(problem)(str(problem))

        def task(items: Iterable[Any]) -> Iterable[Any]:
            forget_archives()
            return map(guarded, items) if together == 1 else parallel.each(guarded, items, most=together)

        if not items:
            return []
        together = min(at_once, parallel.parallelism())
        # To begin a task takes longer than to read a small file.
        tasks = min(len(items), _MOST_TASKS_PER_CORE * max(1, context.defaultParallelism))
        rows = context.parallelize(items, tasks)
        outcomes = _of_workers(rows.mapPartitions(task))
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
    """Return the rows that Python workers compute; raise SessionError if no worker can run this package."""
    try:
        return rows.collect()
    except Py4JJavaError as problem:
        raise unfit_workers(problem) or problem from None
