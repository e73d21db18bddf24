"""What a search did: the report after it, for notebooks and logs."""

from __future__ import annotations

import html
import logging
import threading
from collections import deque
from dataclasses import dataclass, field

from hudi_vector.read.spec import ScanCounts
from hudi_vector.search.plan import SearchPlan

__all__ = ["SearchReport", "keep_report", "last_reports"]

_LOG = logging.getLogger("hudi_vector.search")
_KEPT = 100


@dataclass(frozen=True)
class SearchReport:
    """What became of one search. Its text is a sentence or two; in a notebook it shows as a table."""

    table: str
    instant: str | None
    metric: str
    k: int
    queries: int
    execution: str
    execution_reason: str
    slices: dict[str, int]
    slices_pruned: int
    rows: int
    pruned: int
    filtered: int
    nulls: int
    invalid: int
    bytes_read: int
    cached_slices: int
    returned: int
    reached_k: bool
    why_fewer: str
    invalid_queries: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in self.seconds.items())
        execution = f"{self.execution} ({self.execution_reason})"
        slices = ", ".join(f"{count} {access}" for access, count in self.slices.items()) or "none"
        asked = "1 query" if self.queries == 1 else f"{self.queries} queries"
        found = f"{self.returned} rows for {asked}"
        instant = self.instant or "none"
        kept = f"{self.slices_pruned} pruned, {self.cached_slices} from memory"
        rows = f"{self.rows} seen, {self.pruned} pruned by statistics, {self.filtered} filtered out"
        vectors = f"{self.nulls} without a vector, {self.invalid} invalid"
        reached = "k reached" if self.reached_k else f"fewer than k: {self.why_fewer}"
        lines = [
            f"search of {self.table} at instant {instant}: {found}, k = {self.k}, {self.metric}",
            f"  {execution}; slices: {slices}, {kept}",
            f"  rows: {rows}, {vectors}; {self.bytes_read} bytes read",
            f"  {reached}; {phases}",
        ]
        if self.invalid_queries:
            lines.append(f"  {self.invalid_queries} query rows without a usable vector gave no rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass
class Progress:
    """What a running search has counted so far."""

    counts: ScanCounts = field(default_factory=ScanCounts)
    seconds: dict[str, float] = field(default_factory=dict)


def report_of(plan: SearchPlan, progress: Progress, queries: int, returned: int, fewest: int) -> SearchReport:
    """The report of a search that ran.

    Args:
        plan: What it was to do.
        progress: What it counted.
        queries: How many queries it had.
        returned: Rows it returned.
        fewest: Rows of the query that got the fewest.

    Returns:
        The report.
    """
    counts = progress.counts
    return SearchReport(
        table=plan.snapshot.source.name,
        instant=plan.snapshot.instant,
        metric=plan.metric,
        k=plan.k,
        queries=queries,
        execution=plan.execution,
        execution_reason=plan.reason,
        slices=plan.access_counts,
        slices_pruned=plan.pruned_slices,
        rows=counts.rows,
        pruned=counts.pruned,
        filtered=counts.filtered,
        nulls=counts.nulls,
        invalid=counts.invalid,
        bytes_read=counts.bytes_read,
        cached_slices=counts.cached_slices,
        returned=returned,
        reached_k=fewest >= plan.k,
        why_fewer="" if fewest >= plan.k else _why_fewer(plan, counts),
        seconds=dict(progress.seconds),
    )


def _why_fewer(plan: SearchPlan, counts: ScanCounts) -> str:
    searched = counts.rows - counts.pruned - counts.filtered - counts.nulls - counts.invalid
    reasons = []
    if not counts.rows and not plan.pruned_slices:
        return "the table holds no rows at this instant"
    if counts.filtered or counts.pruned or plan.pruned_slices:
        reasons.append("the filter left out the others")
    if counts.nulls:
        reasons.append(f"{counts.nulls} rows have no vector")
    if counts.invalid:
        reasons.append(f"{counts.invalid} rows have an invalid one")
    if plan.max_distance is not None and searched >= plan.k:
        reasons.append(f"the others lie beyond max_distance = {plan.max_distance}")
    if not reasons:
        reasons.append(f"the table holds {counts.rows} rows")
    return ", ".join(reasons)


_REPORTS: deque[SearchReport] = deque(maxlen=_KEPT)
_LOCK = threading.Lock()


def keep_report(report: SearchReport) -> None:
    """Log a report and keep it among the last ones."""
    with _LOCK:
        _REPORTS.append(report)
    _LOG.info("%s", report)


def last_reports(count: int = 1) -> list[SearchReport]:
    """The reports of the last searches of this process, the newest last.

    Args:
        count: How many, 100 at the most.

    Returns:
        The reports.

    Raises:
        ValueError: The count is below 1.

    Example:
        >>> last_reports(1)  # doctest: +SKIP
    """
    if count < 1:
        raise ValueError(f"give a count of 1 or more, not {count}")
    with _LOCK:
        return list(_REPORTS)[-count:]
