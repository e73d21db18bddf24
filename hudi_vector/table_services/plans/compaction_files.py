"""Compactions on storage: the plan and the state of its run, so that another run can end what a killed one began.

``{table}/.hoodie/blob_service/v1/compactions/{plan id}/`` holds the containers of the plan as a side table, and side
files. The newest side file has the state: *planned*; *running*, with the commit that is under way, if any; or *ended*.
A commit is noted before its first byte is copied, with the token that Hudi's commit will carry, so that the commit can
be found later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from hudi_vector.blobs.names import WRITE_ID
from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, publish_table, rows_of, table_of
from hudi_vector.errors import DataFileError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.side_files import publish
from hudi_vector.storage.stored_values import is_path_below, named, shaped, value_of
from hudi_vector.table.timeline import Instant
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer
from hudi_vector.table_services.plans.plan_files import PLANNED, begun_plans, idle_plans, read_plan

__all__ = [
    "COMPACTIONS",
    "REPACKING",
    "RESIZING",
    "CompactionRun",
    "PendingCommit",
    "begun_runs",
    "idle_compactions",
    "publish_plan",
    "publish_run",
    "read_run",
]

COMPACTIONS = ".hoodie/blob_service/v1/compactions"
REPACKING, RESIZING = "repack", "resize"

_KIND, _VERSION = "compaction", 1
_CONTAINERS = "containers"
_LOCAL = StorageOptions()


@dataclass(frozen=True)
class PendingCommit:
    """A commit that is about to be made.

    Attributes:
        write_id: The name of the folder of its staged rows, and of its upload if the commit repacks.
        token: The token that the commit carries.
        seen: The instants that were committed before its rows were read.
        kind: `REPACKING`, or `RESIZING` if blobs move by the inline threshold.
    """

    write_id: str
    token: str
    seen: tuple[Instant, ...]
    kind: str = REPACKING


@dataclass(frozen=True)
class CompactionRun:
    """A plan and the state of its run.

    Attributes:
        plan: The plan.
        state: *planned*, *running* or *ended*.
        pending: The commit that is under way, or None.
        containers: The side table with the containers of the plan.
        generation: The generation of the newest side file; -1 for a new plan.
    """

    plan: CompactionPlan
    state: str
    pending: PendingCommit | None
    containers: SideTable
    generation: int


def publish_plan(plan: CompactionPlan, options: StorageOptions = _LOCAL) -> CompactionRun:
    """Make a new plan durable, and return its run in the state *planned*.

    Example:
        >>> import tempfile
        >>> table = normalise(tempfile.mkdtemp())
        >>> plan = CompactionPlan("20260101000000000_0123456789ab", table, 0, ("img",), (), 1, 1)
        >>> made = publish_plan(plan)
        >>> read_run(table, plan.plan_id) == made
        True
    """
    storage, folder = open_storage(plan.table, options), join(plan.table, COMPACTIONS, plan.plan_id)
    containers = publish_table(storage, folder, _CONTAINERS, table_of(PlannedContainer, plan.containers))
    return publish_run(CompactionRun(plan, PLANNED, None, containers, -1), options)


def publish_run(run: CompactionRun, options: StorageOptions = _LOCAL) -> CompactionRun:
    """Make the state of a run durable, and return the run with its new generation."""
    body = {key: value for key, value in asdict(run.plan).items() if key not in ("table", "containers")}
    body |= {"state": run.state, "containers": asdict(run.containers)}
    body["pending"] = None if run.pending is None else asdict(run.pending)
    storage, folder = open_storage(run.plan.table, options), join(run.plan.table, COMPACTIONS, run.plan.plan_id)
    publish(storage, folder, _KIND, _VERSION, run.generation + 1, body)
    return replace(run, generation=run.generation + 1)


def read_run(table: str, plan_id: str, options: StorageOptions = _LOCAL) -> CompactionRun:
    """Read a published plan and the state of its run.

    Raise InvalidArgumentError if the table has no such plan or no whole one, DataFileError if the plan is damaged or
    its list of containers is gone or damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    body, generation = read_plan(table, COMPACTIONS, plan_id, _KIND, _VERSION, options)
    root = normalise(table)
    storage, folder = open_storage(root, options), join(root, COMPACTIONS, plan_id)
    state, pending = body.pop("state"), value_of(PendingCommit | None, body.pop("pending", None), folder, "pending")
    files = shaped(SideTable, body.pop("containers", None), folder)
    containers = rows_of(PlannedContainer, load_table(storage, folder, files), folder)
    _require_sense(pending, containers, folder)
    plan = shaped(CompactionPlan, body, folder, plan_id=plan_id, table=root, containers=containers)
    return CompactionRun(plan, state, pending, files, generation)


def begun_runs(table: str, options: StorageOptions = _LOCAL) -> Sequence[CompactionRun]:
    """Return the runs that were begun and have not ended, the oldest first."""
    return [read_run(table, name, options) for name in begun_plans(table, COMPACTIONS, _KIND, _VERSION, options)]


def idle_compactions(table: str, before_ms: int, options: StorageOptions = _LOCAL) -> Sequence[str]:
    """Return the ids of compactions planned before `before_ms` that ended or were never run, the oldest first.

    `before_ms` is in milliseconds since 1970, UTC.
    """
    return idle_plans(table, COMPACTIONS, _KIND, _VERSION, before_ms, options)


def _require_sense(pending: PendingCommit | None, containers: Sequence[PlannedContainer], folder: str) -> None:
    """Raise DataFileError if a plan has a path outside of the table, an invalid write id or an unknown kind of commit.

    The write id matters because the process that ends a run removes the staging folder of that name.
    """
    if pending is not None:
        named(folder, "write", pending.write_id, WRITE_ID)
    wrong = [each.path for each in containers if not is_path_below(each.path)]
    if wrong or (pending is not None and pending.kind not in (REPACKING, RESIZING)):
        what = f"{wrong[0]!r} is no path below the table's folder" if wrong else "its commit is of no known kind"
        raise DataFileError(f"'{folder}' is damaged, or somebody changed it: {what}")
