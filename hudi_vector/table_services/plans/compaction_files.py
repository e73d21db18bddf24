"""Compactions on storage: the plan and the state of its run, so that another run can end what a killed one began.

``{table}/.hoodie/blob_service/v1/compactions/{plan id}/`` holds the containers of the plan as a side table, and side
files. The newest side file has the state: *planned*; *running*, with the commit that is under way, if any; or *ended*.
A commit is noted before its first byte is copied, with the token that Hudi's commit will carry, so that the commit can
be found later. The first note of a new plan is sent together with the list of its containers and with the manifest of
the upload that it names, and nothing is copied until all three are durable: a note without the others is of a run that
was killed before it did anything. Such a run is ended like any other (`unended_runs`). A mark must know what is
repacked, and takes the missing list for a doubt (`begun_runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from hudi_vector.blobs.names import WRITE_ID
from hudi_vector.blobs.uploads.side_tables import SideTable, load_table, new_table, rows_of, table_of
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.records import Entry, Record, json_of
from hudi_vector.storage.stored_values import has_form, one_of, shaped, value_of
from hudi_vector.table.timeline import Instant
from hudi_vector.table_services.plans.compaction import CompactionPlan, PlannedContainer
from hudi_vector.table_services.plans.plan_files import PLANNED, RUNNING, PlanFiles

__all__ = [
    "COMPACTIONS",
    "REPACKING",
    "RESIZING",
    "CompactionRun",
    "PendingCommit",
    "begun_runs",
    "idle_compactions",
    "new_run",
    "plan_of",
    "publish_plan",
    "publish_run",
    "read_run",
    "unended_runs",
]

COMPACTIONS = ".hoodie/blob_service/v1/compactions"
REPACKING, RESIZING = "repack", "resize"

_CONTAINERS = "containers"
_PLANS = PlanFiles(COMPACTIONS, Record("compaction", 1, CompactionPlan, elsewhere=("table", _CONTAINERS)))
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

    # The process that ends a run removes the staging folder of this name.
    write_id: Annotated[str, has_form("write", WRITE_ID)]
    token: str
    seen: tuple[Instant, ...]
    kind: Annotated[str, one_of(REPACKING, RESIZING)] = REPACKING


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
    run, publish_containers = new_run(plan, options)
    publish_containers()
    return publish_run(replace(run, state=PLANNED), options)


def new_run(plan: CompactionPlan, options: StorageOptions = _LOCAL) -> tuple[CompactionRun, Callable[[], None]]:
    """Return the run of a new plan, to be published with its first commit, and what makes its containers durable.

    Until then no other process knows of the plan.
    """
    storage, folder = open_storage(plan.table, options), join(plan.table, COMPACTIONS, plan.plan_id)
    containers, publish = new_table(storage, folder, _CONTAINERS, table_of(PlannedContainer, plan.containers))
    return CompactionRun(plan, RUNNING, None, containers, -1), publish


def plan_of(planned: CompactionPlan | CompactionRun) -> CompactionPlan:
    """Return the plan of what is a plan, or a run of one."""
    return planned.plan if isinstance(planned, CompactionRun) else planned


def publish_run(run: CompactionRun, options: StorageOptions = _LOCAL) -> CompactionRun:
    """Make the state of a run durable, and return the run with its new generation."""
    plan, published = run.plan, replace(run, generation=run.generation + 1)
    state = {"state": run.state, _CONTAINERS: json_of(run.containers), "pending": json_of(run.pending)}
    _PLANS.publish(plan, plan.table, plan.plan_id, published.generation, options, **state)
    return published


def read_run(table: str, plan_id: str, options: StorageOptions = _LOCAL) -> CompactionRun:
    """Read a published plan and the state of its run.

    Raise InvalidArgumentError if the table has no such plan or no whole one, DataFileError if the plan is damaged or
    its list of containers is gone or damaged, and UnsupportedTableError if another version of this package wrote it.
    """
    return _run_of(normalise(table), plan_id, _PLANS.read(table, plan_id, options), options)


def _run_of(root: str, plan_id: str, found: Entry[CompactionPlan], options: StorageOptions) -> CompactionRun:
    run, folder = _noted_of(root, found), join(root, COMPACTIONS, plan_id)
    containers = rows_of(PlannedContainer, load_table(open_storage(root, options), folder, run.containers), folder)
    return replace(run, plan=replace(run.plan, containers=containers))


def _noted_of(root: str, found: Entry[CompactionPlan]) -> CompactionRun:
    """Return a run whose plan lacks the containers."""
    body = found.body
    state, pending = body.pop("state"), value_of(PendingCommit | None, body.pop("pending", None), found.uri, "pending")
    files = shaped(SideTable, body.pop(_CONTAINERS, None), found.uri)
    return CompactionRun(found.value(table=root, containers=()), state, pending, files, found.generation)


def begun_runs(table: str, options: StorageOptions = _LOCAL) -> Sequence[CompactionRun]:
    """Return the runs that were begun and have not ended, the oldest first.

    Raise DataFileError if the list of containers of one is gone or damaged.
    """
    root, begun = normalise(table), _PLANS.begun(table, options)
    return open_storage(root, options).each(lambda found: _run_of(root, found[0], found[1], options), begun)


def unended_runs(table: str, options: StorageOptions = _LOCAL) -> Sequence[CompactionRun]:
    """Return what `begun_runs` returns, without reading which containers the plans repack: they have none."""
    root = normalise(table)
    return [_noted_of(root, found) for _, found in _PLANS.begun(table, options)]


def idle_compactions(table: str, before_ms: int, options: StorageOptions = _LOCAL) -> Sequence[str]:
    """Return the ids of compactions planned before `before_ms` that ended or were never run, the oldest first.

    `before_ms` is in milliseconds since 1970, UTC.
    """
    return _PLANS.idle(table, before_ms, options)
