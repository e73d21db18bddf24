"""What a clustering does: which file groups, in which order, which containers follow; data, to be run as reviewed."""

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
    """A file group with what is done about it, and why.

    Attributes:
        path: Its place, from the table's folder: the partition, and the id of the group.
        bytes: Of its newest base file and log files.
        action: `CLUSTER` or `KEEP`.
        reason: Why.
        files: The names of these files, the base file first.
    """

    path: str
    bytes: int
    action: str
    reason: str
    files: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """What is reported of it."""
        return {
            "path": self.path,
            "bytes": self.bytes,
            "live": self.bytes,
            "action": self.action,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class ClusteringPlan:
    """What one clustering does, as it was decided, to be reviewed and run as it is.

    Attributes:
        plan_id: Its name, which begins with the time in UTC.
        table: The table's base path, normalised.
        made_ms: When it was made, milliseconds since 1970, UTC.
        order_by: The columns by which rows are put in order.
        vectors: Those of them that are vectors.
        groups: Every file group of the newest snapshot, by path.
        pending: The table services that were pending on the timeline, of whose file groups Hudi plans none.
        settings: How blobs that leave their rows are stored, and which do, by the inline threshold.
        moved_out: Inline blobs that this puts into containers, as counted when it was made.
        moved_in: Blobs of containers that this puts into their rows, as counted when it was made.
        compaction: What becomes of the containers that rows refer to.
        hudi: Hudi's own plan as Avro's JSON; empty where no group is clustered, or not by Hudi's clustering.
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
        """The file groups whose rows are put in order."""
        return tuple(each for each in self.groups if each.action == CLUSTER)

    @property
    def kept(self) -> tuple[PlannedGroup, ...]:
        """Those that stay."""
        return tuple(each for each in self.groups if each.action == KEEP)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.clustered or self.moved_out or self.moved_in or self.compaction.candidates)


def why_changed(plan: ClusteringPlan, files: Mapping[str, tuple[str, ...]], pending: frozenset[str]) -> str | None:
    """Why file groups of a plan cannot be clustered as it says any more, or None.

    Args:
        plan: The plan.
        files: The file groups of the newest snapshot, and the names of their files, as `PlannedGroup` has them.
        pending: The table services that are pending now.

    Returns:
        A sentence.

    Example:
        >>> from hudi_vector.blobs.settings import BlobSettings
        >>> group = PlannedGroup("p/a", 3, CLUSTER, "", ("a_1.parquet",))
        >>> nothing = CompactionPlan("2", "/t", 0, (), (), 1, 1)
        >>> plan = ClusteringPlan("1", "/t", 0, (), (), (group,), (), BlobSettings(), 0, 0, nothing)
        >>> why_changed(plan, {"p/a": ("a_1.parquet",)}, frozenset())
        >>> why_changed(plan, {"p/a": ("a_2.parquet",)}, frozenset())
        "file group 'p/a' changed since plan '1' was made; make another plan by a dry run"
    """
    again = f"since plan '{plan.plan_id}' was made; make another plan by a dry run"
    for group in plan.clustered:
        if files.get(group.path) != group.files:
            return f"file group '{group.path}' changed {again}"
    if not plan.clustered:
        return None
    # An order by vectors takes the place of all rows.
    new = sorted(files.keys() - {group.path for group in plan.groups}) if plan.vectors else []
    if new:
        return f"file group '{new[0]}' was added {again}"
    services = sorted(pending.difference(plan.pending))
    if services:
        return f"table service '{services[0]}' became pending {again}, when it has completed"
    return None
