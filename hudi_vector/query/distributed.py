"""A search on executors: one stage, its tasks where their slices were read before, few candidates a query back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark import SparkContext

from hudi_vector import options
from hudi_vector.errors import UnmergeableError
from hudi_vector.executors.distributed import on_executors, placed, rows_of_workers
from hudi_vector.executors.placement import Item
from hudi_vector.query.execute import Asked, open_slice
from hudi_vector.query.local import GroupedSlices, run_slices
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan, SliceAccess
from hudi_vector.query.report import Progress
from hudi_vector.read.logs.merged import MergedSlice

__all__ = ["find_unmergeable", "run_distributed"]


def run_distributed(
    context: SparkContext, plan: SearchPlan, asked: Asked, conf: Mapping[str, str], progress: Progress
) -> Winners:
    """Search every slice of a plan on the executors, in groups of nearly equal bytes; its jobs end at the deadline.

    `conf` are settings, as text.
    """
    asked = asked.by(plan.deadline(progress.begun))
    items = [_item(plan, access) for access in plan.slices]
    groups, keeping = placed(context, items, options.CACHE_MAX_BYTES.read(conf))
    entries = [tuple((place, plan.slices[place]) for place in group.items) for group in groups]
    by_tasks = on_executors(context, places=[group.executor for group in groups], keeping=keeping)

    def each(run: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        with asked.deadline.cancelling(context):
            return by_tasks(run, items)

    if plan.index is not None:
        plan = replace(plan, index=replace(plan.index, lists_at_once=False))
    return run_slices(plan, asked, GroupedSlices(plan, entries, each, keep=True), progress)


def _item(plan: SearchPlan, access: SliceAccess) -> Item:
    """Return a slice as it is placed: by its file group, whose later versions are read where the earlier ones were."""
    found = access.file_slice
    return Item(f"{plan.spec.table_uri} {found.partition_path} {found.file_id}", access.size)


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

    problems = rows_of_workers(context.parallelize(merged, len(merged)).map(problem_of).filter(bool))
    return problems[0] if problems else None
