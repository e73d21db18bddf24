"""Clusterings on storage: the plan and the state of its run, so that another run can end what a killed one began.

``{table}/.hoodie/blob_service/v1/clusterings/{plan id}/`` holds side files. The newest one has the plan and its state:
*planned*; *running*, with the instants that were begun, each noted before anything else of it is written; or *ended*.
What is done with containers is a separate plan, as of a blob compaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hudi_vector.storage import StorageOptions, normalise, open_storage
from hudi_vector.storage.records import Entry, Record
from hudi_vector.storage.stored_values import value_of
from hudi_vector.table_services.plans.clustering import ClusteringPlan
from hudi_vector.table_services.plans.compaction_files import publish_plan, read_run
from hudi_vector.table_services.plans.plan_files import PLANNED, PlanFiles

__all__ = [
    "CLUSTERINGS",
    "ClusteringRun",
    "begun_clusterings",
    "idle_clusterings",
    "publish_clustering",
    "read_clustering",
]

CLUSTERINGS = ".hoodie/blob_service/v1/clusterings"

_PLANS = PlanFiles(CLUSTERINGS, Record("clustering", 1, ClusteringPlan, elsewhere=("table", "compaction")))
_LOCAL = StorageOptions()


@dataclass(frozen=True)
class ClusteringRun:
    """A plan and the state of its run.

    Attributes:
        plan: The plan.
        state: *planned*, *running* or *ended*.
        instants: The instants under which rows were to be put in order; only the last one counts.
        generation: The generation of the newest side file; -1 for a new plan.
    """

    plan: ClusteringPlan
    state: str = PLANNED
    instants: tuple[str, ...] = ()
    generation: int = -1


def publish_clustering(run: ClusteringRun, options: StorageOptions = _LOCAL) -> ClusteringRun:
    """Make a plan and its state durable, and return the run with its new generation.

    The first time, the plan for the containers is published too.
    """
    plan = run.plan
    if run.generation < 0:
        publish_plan(plan.compaction, options)
    published = replace(run, generation=run.generation + 1)
    state = {"state": run.state, "instants": run.instants, "compaction": plan.compaction.plan_id}
    _PLANS.publish(plan, plan.table, plan.plan_id, published.generation, options, **state)
    return published


def read_clustering(table: str, plan_id: str, options: StorageOptions = _LOCAL) -> ClusteringRun:
    """Read a published plan and the state of its run.

    Raise InvalidArgumentError if the table has no such plan or no whole one, DataFileError if the plan is damaged or
    its list of containers is gone or damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    return _run_of(normalise(table), _PLANS.read(table, plan_id, options), options)


def _run_of(root: str, found: Entry[ClusteringPlan], options: StorageOptions) -> ClusteringRun:
    state = found.body.pop("state")
    instants = value_of(tuple[str, ...], found.body.pop("instants", None), found.uri, "instants")
    compaction = read_run(root, found.body.pop("compaction", None), options).plan
    return ClusteringRun(found.value(table=root, compaction=compaction), state, instants, found.generation)


def begun_clusterings(table: str, options: StorageOptions = _LOCAL) -> Sequence[ClusteringRun]:
    """Return the clusterings that were begun and have not ended, the oldest first."""
    root, begun = normalise(table), _PLANS.begun(table, options)
    return open_storage(root, options).each(lambda found: _run_of(root, found[1], options), begun)


def idle_clusterings(table: str, before_ms: int, options: StorageOptions = _LOCAL) -> Sequence[str]:
    """Return the ids of clusterings planned before `before_ms` that ended or were never run, the oldest first.

    `before_ms` is in milliseconds since 1970, UTC.
    """
    return _PLANS.idle(table, before_ms, options)
