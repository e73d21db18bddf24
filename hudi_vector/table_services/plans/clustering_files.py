"""Clusterings on storage: the plan and the state of its run, so that another run can end what a killed one began.

``{table}/.hoodie/blob_service/v1/clusterings/{plan id}/`` holds side files. The newest one has the plan and its state:
*planned*; *running*, with the instants that were begun, each noted before anything else of it is written; or *ended*.
What is done with containers is a separate plan, as of a blob compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import publish
from hudi_vector.storage.stored_values import shaped, value_of
from hudi_vector.table_services.plans.clustering import ClusteringPlan
from hudi_vector.table_services.plans.compaction_files import publish_plan, read_run
from hudi_vector.table_services.plans.plan_files import PLANNED, begun_plans, idle_plans, read_plan

__all__ = [
    "CLUSTERINGS",
    "ClusteringRun",
    "begun_clusterings",
    "idle_clusterings",
    "publish_clustering",
    "read_clustering",
]

CLUSTERINGS = ".hoodie/blob_service/v1/clusterings"

_KIND, _VERSION = "clustering", 1
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
    body = {key: value for key, value in asdict(plan).items() if key not in ("table", "compaction", "settings")}
    body |= {"compaction": plan.compaction.plan_id, "settings": plan.settings.to_options()}
    body |= {"state": run.state, "instants": run.instants}
    folder = join(plan.table, CLUSTERINGS, plan.plan_id)
    publish(open_storage(plan.table, options), folder, _KIND, _VERSION, run.generation + 1, body)
    return replace(run, generation=run.generation + 1)


def read_clustering(table: str, plan_id: str, options: StorageOptions = _LOCAL) -> ClusteringRun:
    """Read a published plan and the state of its run.

    Raise InvalidArgumentError if the table has no such plan or no whole one, DataFileError if the plan is damaged or
    its list of containers is gone or damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    body, generation = read_plan(table, CLUSTERINGS, plan_id, _KIND, _VERSION, options)
    root = normalise(table)
    folder, state = join(root, CLUSTERINGS, plan_id), body.pop("state")
    instants = value_of(tuple[str, ...], body.pop("instants", None), folder, "instants")
    compaction = read_run(root, body.pop("compaction", None), options).plan
    settings = BlobSettings.of(value_of(Mapping[str, str], body.pop("settings", None), folder, "settings"))
    plan = shaped(ClusteringPlan, body, folder, plan_id=plan_id, table=root, settings=settings, compaction=compaction)
    return ClusteringRun(plan, state, instants, generation)


def begun_clusterings(table: str, options: StorageOptions = _LOCAL) -> Sequence[ClusteringRun]:
    """Return the clusterings that were begun and have not ended, the oldest first."""
    return [read_clustering(table, name, options) for name in begun_plans(table, CLUSTERINGS, _KIND, _VERSION, options)]


def idle_clusterings(table: str, before_ms: int, options: StorageOptions = _LOCAL) -> Sequence[str]:
    """Return the ids of clusterings planned before `before_ms` that ended or were never run, the oldest first.

    `before_ms` is in milliseconds since 1970, UTC.
    """
    return idle_plans(table, CLUSTERINGS, _KIND, _VERSION, before_ms, options)
