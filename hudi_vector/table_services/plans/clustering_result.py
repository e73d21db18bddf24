"""The result of a clustering, as rows and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hudi_vector.errors import number_of
from hudi_vector.shown import Shown
from hudi_vector.table_services.plans.clustering import CLUSTER, PlannedGroup
from hudi_vector.table_services.plans.compaction import KEEP, PlannedContainer
from hudi_vector.table_services.plans.compaction_result import CompactResult

__all__ = ["ClusterResult"]


@dataclass(frozen=True, repr=False)
class ClusterResult(Shown):
    """The outcome of a clustering.

    Attributes:
        table: The table's base path.
        instants: The clustering instants that were completed.
        groups: Every file group of the newest snapshot when the plan was made, with the decision about it.
        moved_out: The number of inline blobs that were moved to containers; in a dry run that would be.
        moved_in: The number of blobs in containers that were moved into their rows; in a dry run that would be.
        restored_rows: Rows of other writers that the commit which moved these blobs overwrote and that were written
            again.
        compaction: The outcome of repacking containers whose blobs are not in the order of their rows, or that
            `compact_blobs` would repack anyway.
        plan_id: The plan's id, by which it can be run; empty if there was nothing to do.
        report: The place of the plan, or the local file that was asked for.
        dry_run: Whether this was a dry run, which changes nothing.
        refusal: In a dry run, why the real run would be refused, or None.

    Example:
        >>> result = hv.table_services.cluster(spark, "photos", order_by="taken", dry_run=True)
        >>> result.is_well
        True
        >>> groups = result.rows()
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
        """Return the file groups whose rows are put in order, and the containers that are repacked."""
        return [*self._clustered, *self.compaction.candidates]

    @property
    def kept(self) -> list[PlannedGroup | PlannedContainer]:
        """Return the file groups and containers that stay as they are, with the reason."""
        return [*(each for each in self.groups if each.action == KEEP), *self.compaction.kept]

    @property
    def deleted(self) -> list[PlannedGroup | PlannedContainer]:
        """Return an empty list: a clustering deletes nothing; Hudi's clean and the cleaner take what was replaced."""
        return []

    @property
    def bytes(self) -> int:
        """Return the bytes of the file groups that are rewritten."""
        return sum(group.bytes for group in self._clustered)

    @property
    def is_well(self) -> bool:
        """Return True if nothing was refused or doubtful."""
        return self.compaction.is_well and not self.refusal

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per file group and per container; a dry run and the real run give the same rows.

        Returns:
            Rows of `path`, `bytes`, `live`, `action` and `reason`. The action of a file group is ``cluster`` or
            ``keep``, and its `live` equals `bytes`; the rows of containers are those of `CompactResult`.
        """
        return [*(group.row() for group in self.groups), *self.compaction.rows()]

    def lines(self) -> Iterator[str]:
        """Yield the outcome as a few sentences for people, without line ends."""
        if self.refusal:
            yield f"the run would be refused: {self.refusal}"
        groups = f"{number_of(len(self._clustered), 'file group')} of {self.bytes} bytes"
        if self.dry_run:
            yield f"{groups} would be clustered"
            yield (
                f"{number_of(self.moved_out, 'inline blob')} would go to containers, {self.moved_in} come into their "
                "rows"
            )
        else:
            yield f"clustering instants: {', '.join(self.instants) or 'none, there was nothing to cluster'}; {groups}"
        if not self.dry_run and (self.moved_out or self.moved_in):
            yield f"{number_of(self.moved_out, 'inline blob')} went to containers, {self.moved_in} came into their rows"
        if self.restored_rows:
            changed = "that other writers changed meanwhile"
            yield f"{number_of(self.restored_rows, f'row {changed} was', f'rows {changed} were')} restored"
        if self.compaction.rows() or self.compaction.notes:
            yield from self.compaction.lines()
        if self.plan_id:
            yield f"plan: {self.plan_id}"

    @property
    def _clustered(self) -> list[PlannedGroup]:
        return [group for group in self.groups if group.action == CLUSTER]
