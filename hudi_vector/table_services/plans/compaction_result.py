"""What a blob compaction hands back, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hudi_vector.table_services.plans.compaction import PlannedContainer

__all__ = ["CompactResult"]


@dataclass(frozen=True)
class CompactResult:
    """The outcome of a blob compaction.

    Attributes:
        table: The table's base path.
        candidates: The containers that are repacked, by the plan.
        kept: Those that stay, with the reason.
        released: Candidates that no row of the newest snapshot refers to any more, nor a registered table; older
            snapshots still do, and the cleaner takes them when those are gone.
        bytes: Bytes that were copied to new containers; in a dry run those that would be, before de-duplication.
        blobs: Blobs that were copied.
        references: References that were rewritten.
        containers_before: How many containers are repacked.
        containers_after: How many new ones hold their blobs; in a dry run an estimate from their sizes.
        reclaimable_bytes: Bytes of the released containers.
        deduplicated_bytes: Bytes of blobs that were equal to another and were not stored again.
        restored_rows: Rows of other writers that our commits had overwritten, and that were written again.
        commits: The instants that rewrote references.
        plan_id: The plan, by which it can be run; empty where there was nothing to do.
        report: Where the plan lies, or the file that was asked for.
        dry_run: Whether nothing was to be changed.
        doubts: What an operator must look at.
        notes: What an operator should know.
        refusal: Why the real run would be refused, in a dry run.
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
        """Whether nothing was refused or doubtful."""
        return not (self.doubts or self.refusal)

    @property
    def deleted(self) -> list[PlannedContainer]:
        """Always empty: a compaction deletes nothing, and the cleaner takes what it `released`."""
        return []

    def rows(self) -> list[dict[str, Any]]:
        """A row for each container that rows refer to, the same for a dry run and the real one.

        Returns:
            Rows of `path`, `bytes`, `live` (bytes that rows refer to), `action` (``repack`` or ``keep``) and `reason`,
            by path.
        """
        shown = sorted([*self.candidates, *self.kept], key=lambda each: each.path)
        names = ("path", "bytes", "live", "action", "reason")
        return [{name: getattr(each, name) for name in names} for each in shown]

    def lines(self) -> Iterator[str]:
        """The outcome in a few sentences for people, without the ends of lines."""
        yield from (f"look at this: {doubt}" for doubt in self.doubts)
        yield from (f"note: {note}" for note in self.notes)
        if self.refusal:
            yield f"the run would be refused: {self.refusal}"
        before, after = self.containers_before, self.containers_after
        if self.dry_run:
            yield f"{before} containers would become about {after}, {self.bytes} bytes copied, {len(self.kept)} kept"
        else:
            yield (
                f"{before} containers became {after}, {self.bytes} bytes copied, {self.references} references "
                f"rewritten by {len(self.commits)} commits, {len(self.kept)} kept"
            )
            yield f"{self.reclaimable_bytes} bytes can go when older snapshots are gone"
        if self.deduplicated_bytes:
            yield f"{self.deduplicated_bytes} bytes of equal blobs were not stored again"
        if self.restored_rows:
            yield f"{self.restored_rows} rows that other writers changed meanwhile were restored"
        if self.plan_id:
            yield f"plan: {self.plan_id}"
