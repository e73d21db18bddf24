"""The result of a blob compaction, as rows and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hudi_vector.errors import number_of
from hudi_vector.shown import Shown
from hudi_vector.table_services.plans.compaction import PlannedContainer

__all__ = ["CompactResult"]


@dataclass(frozen=True, repr=False)
class CompactResult(Shown):
    """The outcome of a blob compaction.

    Attributes:
        table: The table's base path.
        candidates: The containers that are repacked, according to the plan.
        kept: The containers that stay as they are, with the reason.
        released: The candidates that neither a row of the newest snapshot nor a registered table refers to any more;
            older snapshots still do, and the cleaner takes these containers when those snapshots are gone.
        bytes: Bytes that were copied to new containers; in a dry run those that would be, before de-duplication.
        blobs: The number of blobs that were copied.
        references: The number of references that were rewritten.
        containers_before: The number of containers that are repacked.
        containers_after: The number of new containers; in a dry run an estimate from sizes.
        reclaimable_bytes: Bytes of the released containers.
        deduplicated_bytes: Bytes of blobs that were equal to another blob and were not stored again.
        restored_rows: Rows of other writers that our commits had overwritten and that were written again.
        commits: The instants that rewrote references.
        plan_id: The plan's id, by which it can be run; empty if there was nothing to do.
        report: The place of the plan, or the local file that was asked for.
        dry_run: Whether this was a dry run, which changes nothing.
        doubts: Problems that an operator must look at.
        notes: Information for an operator.
        refusal: In a dry run, why the real run would be refused, or None.

    Example:
        >>> result = hv.table_services.compact_blobs(spark, "photos", dry_run=True)
        >>> result.is_well
        True
        >>> containers = result.rows()
    """

    table: str
    candidates: list[PlannedContainer]
    kept: list[PlannedContainer]
    released: list[PlannedContainer]
    bytes: int = 0
    blobs: int = 0
    references: int = 0
    containers_before: int = 0
    containers_after: int = 0
    reclaimable_bytes: int = 0
    deduplicated_bytes: int = 0
    restored_rows: int = 0
    commits: tuple[str, ...] = ()
    plan_id: str = ""
    report: str = ""
    dry_run: bool = False
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str | None = None

    @property
    def is_well(self) -> bool:
        """Return True if nothing was refused or doubtful."""
        return not (self.doubts or self.refusal)

    @property
    def deleted(self) -> list[PlannedContainer]:
        """Return an empty list: a compaction deletes nothing; the cleaner takes the `released` containers later."""
        return []

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per container that rows refer to; a dry run and the real run give the same rows.

        Returns:
            Rows of `path`, `bytes`, `live` (bytes that rows refer to), `action` (``repack`` or ``keep``) and `reason`,
            ordered by path.
        """
        shown = sorted([*self.candidates, *self.kept], key=lambda each: each.path)
        names = ("path", "bytes", "live", "action", "reason")
        return [{name: getattr(each, name) for name in names} for each in shown]

    def lines(self) -> Iterator[str]:
        """Yield the outcome as a few sentences for people, without line ends."""
        yield from (f"look at this: {doubt}" for doubt in self.doubts)
        yield from (f"note: {note}" for note in self.notes)
        if self.refusal:
            yield f"the run would be refused: {self.refusal}"
        before, after = self.containers_before, self.containers_after
        if self.dry_run:
            yield (
                f"{number_of(before, 'container')} would become about {after}, {self.bytes} bytes copied, "
                f"{len(self.kept)} kept"
            )
        else:
            yield (
                f"{number_of(before, 'container')} became {after}, {self.bytes} bytes copied, "
                f"{number_of(self.references, 'reference')} "
                f"rewritten by {number_of(len(self.commits), 'commit')}, {len(self.kept)} kept"
            )
            yield f"{number_of(self.reclaimable_bytes, 'byte')} can go when older snapshots are gone"
        if self.deduplicated_bytes:
            yield f"{number_of(self.deduplicated_bytes, 'byte')} of equal blobs were not stored again"
        if self.restored_rows:
            changed = "that other writers changed meanwhile"
            yield f"{number_of(self.restored_rows, f'row {changed} was', f'rows {changed} were')} restored"
        if self.plan_id:
            yield f"plan: {self.plan_id}"
