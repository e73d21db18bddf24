"""Compactions on storage: the plan, and how far a run of it came, so that another run can end what a killed one began.

``{table}/.hoodie/blob_service/v1/compactions/{plan id}/`` holds the containers of the plan as a side table, and side
files whose newest says how far it is: *planned*; *running*, with the commit that is under way, if there is one;
*ended*. A commit is noted before its first byte is copied, with the token that Hudi's commit will carry, so that it can
be found.
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
        write_id: The folder of its staged rows; the upload of the same name, where the commit repacks.
        token: The token it carries.
        seen: What was committed before its rows were read.
        kind: `REPACKING`, or `RESIZING` where blobs change places by the inline thresholds.
    """

    write_id: str
    token: str
    seen: tuple[Instant, ...]
    kind: str = REPACKING


@dataclass(frozen=True)
class CompactionRun:
    """A plan and how far it is."""

    plan: CompactionPlan
    state: str
    pending: PendingCommit | None
    containers: SideTable
    generation: int


def publish_plan(plan: CompactionPlan, options: StorageOptions = _LOCAL) -> CompactionRun:
    """Make a plan durable.

    Args:
        plan: What was decided.
        options: How storage is opened.

    Returns:
        The run that may begin with it.

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
    """Note how far a run is.

    Args:
        run: Its new state.
        options: How storage is opened.

    Returns:
        The run as it is now.
    """
    body = {key: value for key, value in asdict(run.plan).items() if key not in ("table", "containers")}
    body |= {"state": run.state, "containers": asdict(run.containers)}
    body["pending"] = None if run.pending is None else asdict(run.pending)
    storage, folder = open_storage(run.plan.table, options), join(run.plan.table, COMPACTIONS, run.plan.plan_id)
    publish(storage, folder, _KIND, _VERSION, run.generation + 1, body)
    return replace(run, generation=run.generation + 1)


def read_run(table: str, plan_id: str, options: StorageOptions = _LOCAL) -> CompactionRun:
    """A plan that was published, and how far it is.

    Args:
        table: The table's base path.
        plan_id: The plan.
        options: How storage is opened.

    Returns:
        The run.

    Raises:
        InvalidArgumentError: The table has no such plan, or no whole one.
        DataFileError: The list of its containers is gone or damaged, or it says what no plan says.
        UnsupportedTableError: Another version of this package wrote it.
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
    """The runs that were begun and not ended, the oldest first.

    Args:
        table: The table's base path.
        options: How storage is opened.
    """
    return [read_run(table, name, options) for name in begun_plans(table, COMPACTIONS, _KIND, _VERSION, options)]


def idle_compactions(table: str, before_ms: int, options: StorageOptions = _LOCAL) -> Sequence[str]:
    """The ids of the compactions that were planned before some time and ended, or were never run; the oldest first.

    Args:
        table: The table's base path.
        before_ms: The time, milliseconds since 1970, UTC.
        options: How storage is opened.
    """
    return idle_plans(table, COMPACTIONS, _KIND, _VERSION, before_ms, options)


def _require_sense(pending: PendingCommit | None, containers: Sequence[PlannedContainer], folder: str) -> None:
    """Refuse what leads out of the table: whoever ends a run removes the staged rows of its commit."""
    if pending is not None:
        named(folder, "write", pending.write_id, WRITE_ID)
    wrong = [each.path for each in containers if not is_path_below(each.path)]
    if wrong or (pending is not None and pending.kind not in (REPACKING, RESIZING)):
        what = f"{wrong[0]!r} is no path below the table's folder" if wrong else "its commit is of no known kind"
        raise DataFileError(f"'{folder}' is damaged, or somebody changed it: {what}")
