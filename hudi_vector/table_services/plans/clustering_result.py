"""What a clustering hands back, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hudi_vector.table_services.plans.clustering import CLUSTER, PlannedGroup
from hudi_vector.table_services.plans.compaction import KEEP, PlannedContainer
from hudi_vector.table_services.plans.compaction_result import CompactResult

__all__ = ["ClusterResult"]


@dataclass(frozen=True)
class ClusterResult:
    """The outcome of a clustering.

    Attributes:
        table: The table's base path.
        instants: The clustering instants that were completed.
        groups: Every file group of the newest snapshot when the plan was made, with what is done about it.
        moved_out: Inline blobs that were put into containers, in a dry run those that would be.
        moved_in: Blobs of containers that were put into their rows, in a dry run those that would be.
        restored_rows: Rows of other writers that the commit of these had overwritten, and that were written again.
        compaction: What becomes of the containers of whose blobs too many do not lie in the order of their rows.
        plan_id: The plan, by which it can be run; empty where there was nothing to do.
        report: Where the plan lies, or the file that was asked for.
        dry_run: Whether nothing was to be changed.
        refusal: Why the real run would be refused, in a dry run.
    """

    table: str
    instants: tuple[str, ...]
    groups: list[PlannedGroup]
    moved_out: int
    moved_in: int
    restored_rows: int
    compaction: CompactResult
    plan_id: str = ""
    report: str = ""
    dry_run: bool = False
    refusal: str | None = None

    @property
    def candidates(self) -> list[PlannedGroup | PlannedContainer]:
        """The file groups whose rows are put in order, and the containers that are repacked."""
        return [*self._clustered, *self.compaction.candidates]

    @property
    def kept(self) -> list[PlannedGroup | PlannedContainer]:
        """The file groups and containers that stay as they are, with the reason."""
        return [*(each for each in self.groups if each.action == KEEP), *self.compaction.kept]

    @property
    def deleted(self) -> list[PlannedGroup | PlannedContainer]:
        """Always empty: a clustering deletes nothing, and Hudi's clean and the cleaner take what was replaced."""
        return []

    @property
    def bytes(self) -> int:
        """Of the file groups that are rewritten."""
        return sum(group.bytes for group in self._clustered)

    @property
    def is_well(self) -> bool:
        """Whether nothing was refused or doubtful."""
        return self.compaction.is_well and not self.refusal

    def rows(self) -> list[dict[str, Any]]:
        """A row for each file group (its action is ``cluster`` or ``keep``) and each container, as of `CompactResult`.

        They are the same for a dry run and the real one.
        """
        return [*(group.row() for group in self.groups), *self.compaction.rows()]

    def lines(self) -> Iterator[str]:
        """The outcome in a few sentences for people, without the ends of lines."""
        if self.refusal:
            yield f"the run would be refused: {self.refusal}"
        groups = f"{len(self._clustered)} file groups of {self.bytes} bytes"
        if self.dry_run:
            yield f"{groups} would be clustered"
            yield f"{self.moved_out} inline blobs would go to containers, {self.moved_in} come into their rows"
        else:
            yield f"clustering instants: {', '.join(self.instants) or 'none, there was nothing to cluster'}; {groups}"
        if not self.dry_run and (self.moved_out or self.moved_in):
            yield f"{self.moved_out} inline blobs went to containers, {self.moved_in} came into their rows"
        if self.restored_rows:
            yield f"{self.restored_rows} rows that other writers changed meanwhile were restored"
        if self.compaction.rows() or self.compaction.notes:
            yield from self.compaction.lines()
        if self.plan_id:
            yield f"plan: {self.plan_id}"

    @property
    def _clustered(self) -> list[PlannedGroup]:
        return [group for group in self.groups if group.action == CLUSTER]
