"""The figures of a service's run, from its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hudi_vector.errors import RefusedError
from hudi_vector.events import ServiceRun
from hudi_vector.table_services.plans.clustering_result import ClusterResult
from hudi_vector.table_services.plans.compaction_result import CompactResult
from hudi_vector.table_services.result import CleanResult, RestoreResult

__all__ = ["RunFigures", "figures_of", "outcome_of"]


@dataclass(frozen=True)
class RunFigures:
    """The figures of a run: None where its service has no such number."""

    taken_files: int | None = None
    taken_bytes: int | None = None
    kept_files: int | None = None
    failed_files: int | None = None
    reclaimable_bytes: int | None = None


def outcome_of(run: ServiceRun) -> str:
    """Return ``done``, ``dry_run``, ``problems``, ``refused`` or ``failed``."""
    if run.error is not None:
        return "refused" if isinstance(run.error, RefusedError) else "failed"
    if getattr(run.result, "refusal", None) is not None:
        return "refused"
    if not getattr(run.result, "is_well", True):
        return "problems"
    return "dry_run" if getattr(run.result, "dry_run", False) else "done"


def figures_of(result: Any) -> RunFigures:
    """Return the figures of a result of any service."""
    if isinstance(result, CleanResult):
        return _of_cleaning(result)
    if isinstance(result, RestoreResult):
        return RunFigures(len(result.restored), result.bytes, len(result.kept))
    if isinstance(result, CompactResult):
        return RunFigures(kept_files=len(result.kept), reclaimable_bytes=result.reclaimable_bytes)
    if isinstance(result, ClusterResult):
        return RunFigures(kept_files=len(result.kept), reclaimable_bytes=result.compaction.reclaimable_bytes)
    return RunFigures()


def _of_cleaning(result: CleanResult) -> RunFigures:
    kept, failed = len(result.kept), len(result.failed)
    if result.dry_run or result.trash is None:  # which only finds files
        return RunFigures(0, 0, kept, failed, result.bytes)
    gone = {file.path for file in result.deleted}
    left = sum(file.bytes for file in result.candidates if file.path not in gone)
    return RunFigures(len(result.deleted), result.bytes, kept, failed, left)
