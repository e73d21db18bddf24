"""The plan of a sweep, made from a report and a second mark before any file is touched."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.errors import number_of
from hudi_vector.table_services.guards import SweepLimits, too_much, why_not_ours
from hudi_vector.table_services.mark_report import MarkReport, UnneededFile
from hudi_vector.table_services.result import CleanFile
from hudi_vector.table_services.sites import Site, is_outside

__all__ = ["CHANGED", "GONE", "SweepPlan", "plan_sweep"]

GONE, CHANGED = "gone already", "it changed since the mark"
_NO_TRASH = "its storage is not the one of the table's trash; sweep it without trash"


@dataclass(frozen=True)
class SweepPlan:
    """The plan of a sweep.

    Attributes:
        going: The files that it takes, oldest first.
        kept: The candidates that it leaves, with the reason.
        gone: The candidates that are no longer in their place.
        doubts: The reasons why nothing may go at all.
        refusal: Why the sweep may not run, or None.
    """

    going: tuple[UnneededFile, ...]
    kept: tuple[CleanFile, ...]
    gone: tuple[CleanFile, ...]
    doubts: tuple[str, ...] = ()
    refusal: str | None = None


def plan_sweep(
    report: MarkReport, second: MarkReport, site: Site, limits: SweepLimits, *, trash: bool = True
) -> SweepPlan:
    """Decide which candidates of a report go; each candidate is in exactly one part of the plan.

    A candidate goes only if `second`, a later mark, finds it unneeded too, with the same size and modification time.
    With `trash`, a file below a managed root stays if its storage is not that of the table's trash.
    """
    doubts = tuple(dict.fromkeys((*report.doubts, *second.doubts)))
    if doubts:
        held = tuple(CleanFile.of(file, f"kept for a doubt: {doubts[0]}") for file in report.distinct)
        return SweepPlan((), held, (), doubts)
    agreed = {file.path: file for file in second.candidates}
    needed = {file.path: file.reason for file in second.kept}
    going, kept, gone = [], [], []
    for file in report.distinct:
        again = agreed.get(file.path)
        refused = why_not_ours(site.storage, site.table, file.path, second.roots)
        if refused:
            kept.append(CleanFile.of(file, refused))
        elif again is None and site.info(file.path) is None:
            gone.append(CleanFile(file.path, 0, GONE))
        elif again is None:
            kept.append(CleanFile.of(file, needed.get(file.path, "the second mark does not find it unneeded")))
        elif (again.bytes, again.mtime_ms) != (file.bytes, file.mtime_ms):
            kept.append(CleanFile.of(file, CHANGED))
        elif trash and is_outside(file.path) and not site.shares_storage(file.path):
            kept.append(CleanFile.of(file, _NO_TRASH))
        else:
            going.append(file)
    going.sort(key=lambda file: (file.mtime_ms, file.path))
    waits = (
        f"it waits for the next run: hoodie.blob.clean.max.files allows {number_of(limits.max_files, 'file')} in one"
    )
    kept += [CleanFile.of(file, waits) for file in going[limits.max_files :]]
    refusal = too_much((file.bytes for file in going), second.total_bytes, limits.max_share)
    return SweepPlan(tuple(going[: limits.max_files]), tuple(kept), tuple(gone), (), refusal)
