"""Plans of clusterings, as data: file groups, their order, and the containers that are repacked afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.table_services.plans.compaction import KEEP, CompactionPlan

__all__ = ["CLUSTER", "ClusteringPlan", "PlannedGroup", "why_changed"]

CLUSTER = "cluster"


@dataclass(frozen=True)
class PlannedGroup:
    """A file group with the decision about it.

    Attributes:
        path: The group's path relative to the table's folder: its partition and its id.
        bytes: The size of its newest base file and log files.
        action: `CLUSTER` or `KEEP`.
        reason: The reason for the action.
        files: The names of its newest files, the base file first.
    """

    path: str
    bytes: int
    action: str
    reason: str
    files: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the group's row of a report; `live` equals `bytes`."""
        return {
            "path": self.path,
            "bytes": self.bytes,
            "live": self.bytes,
            "action": self.action,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class ClusteringPlan:
    """A plan of one clustering, which can be reviewed and then run unchanged.

    Attributes:
        plan_id: The plan's id, which begins with the time in UTC.
        table: The table's base path, normalised.
        made_ms: When the plan was made, milliseconds since 1970, UTC.
        order_by: The columns by which rows are put in order.
        vectors: The vector columns among them.
        groups: Every file group of the newest snapshot, ordered by partition and id.
        pending: The table services that were pending on the timeline; Hudi's plan leaves their file groups out.
        settings: How blobs that leave their rows are stored; its inline threshold decides which blobs leave or enter
            rows.
        moved_out: The number of inline blobs to move to containers, as counted when the plan was made.
        moved_in: The number of blobs in containers to move into their rows, as counted when the plan was made.
        compaction: The plan for the containers that rows refer to.
        hudi: Hudi's own plan in Avro's JSON; empty if no group is clustered, or not by Hudi's clustering.
    """

    plan_id: str
    table: str
    made_ms: int
    order_by: tuple[str, ...]
    vectors: tuple[str, ...]
    groups: tuple[PlannedGroup, ...]
    pending: tuple[str, ...]
    settings: BlobSettings
    moved_out: int
    moved_in: int
    compaction: CompactionPlan
    hudi: str = field(default="", repr=False)

    @property
    def clustered(self) -> tuple[PlannedGroup, ...]:
        """Return the file groups whose rows are put in order."""
        return tuple(each for each in self.groups if each.action == CLUSTER)

    @property
    def kept(self) -> tuple[PlannedGroup, ...]:
        """Return the file groups that stay as they are."""
        return tuple(each for each in self.groups if each.action == KEEP)

    @property
    def has_work(self) -> bool:
        """Return True if the plan has anything to do."""
        return bool(self.clustered or self.moved_out or self.moved_in or self.compaction.candidates)


def why_changed(plan: ClusteringPlan, files: Mapping[str, tuple[str, ...]], pending: frozenset[str]) -> str | None:
    """Return a sentence that says why a plan's file groups can no longer be clustered as planned, or None.

    `files` has the file groups of the newest snapshot with the names of their files, both as in `PlannedGroup`, and
    `pending` has the requested times of the table services that are pending now.

    Example:
        >>> from hudi_vector.blobs.settings import BlobSettings
        >>> group = PlannedGroup("p/a", 3, CLUSTER, "", ("a_1.parquet",))
        >>> nothing = CompactionPlan("2", "/t", 0, (), (), 1, 1)
        >>> plan = ClusteringPlan("1", "/t", 0, (), (), (group,), (), BlobSettings(), 0, 0, nothing)
        >>> why_changed(plan, {"p/a": ("a_1.parquet",)}, frozenset())
        >>> why_changed(plan, {"p/a": ("a_2.parquet",)}, frozenset())
        "file group 'p/a' changed since plan '1' was made; run it without a plan, or make another by a dry run"
    """
    again = f"since plan '{plan.plan_id}' was made; run it without a plan, or make another by a dry run"
    for group in plan.clustered:
        if files.get(group.path) != group.files:
            return f"file group '{group.path}' changed {again}"
    if not plan.clustered:
        return None
    # Ordering by vectors replaces all file groups, so it must know every one.
    new = sorted(files.keys() - {group.path for group in plan.groups}) if plan.vectors else []
    if new:
        return f"file group '{new[0]}' was added {again}"
    services = sorted(pending.difference(plan.pending))
    if services:
        return f"table service '{services[0]}' became pending {again}, when it has completed"
    return None
