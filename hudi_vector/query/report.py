"""Reports of the searches that ran, for notebooks and logs."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, kind_of, number_of
from hudi_vector.events import listener
from hudi_vector.kernels.topk import Ints
from hudi_vector.query.deadline import NEVER, Deadline
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import EVERY_ROW, SearchPlan
from hudi_vector.read.spec import ScanCounts
from hudi_vector.shown import Listed, Shown, ShownText
from hudi_vector.storage.parallel import Traffic, traffic
from hudi_vector.table.model import Snapshot

if TYPE_CHECKING:
    from hudi_vector.query.answered import Answered
    from hudi_vector.query.receipts.receipt import Receipt

__all__ = [
    "Progress",
    "SearchFacts",
    "SearchReport",
    "answering",
    "keep_report",
    "last_reports",
    "report_of",
    "report_of_frame",
]

_LOG = logging.getLogger("hudi_vector.search")
_KEPT = 100
_ANSWERS, _MOST_ANSWER = 8, 8 << 20
"""So many answers are kept for receipts, each of up to so many bytes of vectors and rows."""


@dataclass(frozen=True, repr=False)
class SearchReport(Shown):
    """The counts and times of one search. Its text is a few lines; a notebook shows the same.

    `proved` says how many of the rows returned are certainly among the true k nearest of their query: all of them in an
    exact search, and by an index those that are nearer than any row can be whose distance was not computed. `groups` is
    the number of groups found, over all queries, None in a search without ``group_by``; k is then a number of groups.

    Of a table on S3, `requests` are those that this process sent for the search, and `waves` the longest chain of them
    that waited for one another; `bytes_received` are the bytes of objects in their answers. What Spark's executors,
    Lance, hudi-rs, and pyarrow with settings that only it understands ask for is not counted, nor what is asked for
    again after a failure. Of a table on any store, `from_memory` and `from_storage` say by kind how much of what the
    search needed was in memory and how much was read: segments and lists of the index, footers of files, and vectors
    and columns of row groups. `from_disk` are decoded vectors and ranges of objects that the cache on disk had.

    Example:
        >>> rows = hv.search(spark, "products", "embedding", q, k=5).collect()
        >>> report = hv.last_reports()[0]
        >>> report.k, report.returned, report.proved
        (5, 5, 5)
    """

    table: str
    instant: str | None
    metric: str
    k: int
    queries: int
    execution: str
    execution_reason: str
    slices: dict[str, int]
    slices_pruned: int
    rows_seen: int
    pruned: int
    filtered: int
    nulls: int
    invalid: int
    bytes_read: int
    cached_slices: int
    returned: int
    proved: int
    reached_k: bool
    why_fewer: str
    invalid_queries: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    waves: int = 0
    bytes_received: int = 0
    from_memory: dict[str, int] = field(default_factory=dict)
    from_disk: dict[str, int] = field(default_factory=dict)
    from_storage: dict[str, int] = field(default_factory=dict)
    groups: int | None = None

    # No field: it holds settings of storage, which are no part of what a report shows, and of no copy of it.
    _answered: ClassVar[Answered | None] = None

    def receipt(self, *, vector: bool = True) -> Receipt:
        """Return the receipt of the search: what it was asked, what it read and what it answered, as JSON with a hash.

        The report of the hits of an opened table has it at any time. `hudi_vector.last_reports` keep the answers of the
        last 8 searches of the process, up to 8 MiB each. Record keys of the rows are read now, nothing else.

        Args:
            vector: False leaves the query vectors out, for their hash; `hudi_vector.replay` then needs them again.

        Returns:
            The receipt, which holds no credentials: `to_json` and `save` give its text.

        Raises:
            InvalidArgumentError: The answer is no longer kept, or never was: of a join, a stream or a hybrid search.
            UnsupportedTableError: The search was not one of a Hudi table, or Spark read the table.
            DataFileError: A file with a row of the answer was removed since.

        Example:
            >>> with hv.open("/tables/products", column="embedding") as t:
            ...     receipt = t.search(q, k=5).report.receipt()
            >>> receipt.rows()[0].keys()
            dict_keys(['query', 'rank', 'key', 'partition', 'file', 'row', 'distance'])
        """
        if not isinstance(vector, bool):
            raise InvalidTypeError(f"vector is True or False, not {kind_of(vector)}; False leaves the vector out")
        if self._answered is None:
            raise InvalidArgumentError(
                f"the answer of this search of '{self.table}' is not kept: receipts are of searches by one vector "
                "column in a table, by the report of the hits of an opened table, or by one of the last 8 of "
                "hv.last_reports (up to 8 MiB); search again"
            )
        from hudi_vector.query.receipts.made import receipt_of

        return receipt_of(self._answered, vector)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_answered"}

    def __str__(self) -> str:
        phases = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in self.seconds.items())
        execution = f"{self.execution} ({self.execution_reason})"
        slices = ", ".join(f"{count} {access}" for access, count in self.slices.items()) or "none"
        asked = number_of(self.queries, "query")
        of_groups = "" if self.groups is None else f" of {number_of(self.groups, 'group')}"
        found = f"{number_of(self.returned, 'row')}{of_groups} for {asked}"
        instant = self.instant or "none"
        kept = f"{self.slices_pruned} pruned, {self.cached_slices} from memory"
        rows = f"{self.rows_seen} seen, {self.pruned} pruned by statistics, {self.filtered} filtered out"
        vectors = f"{self.nulls} without a vector, {self.invalid} invalid"
        reached = "k reached" if self.reached_k else f"fewer than k: {self.why_fewer}"
        wanted = f"k = {self.k}"
        if self.k >= EVERY_ROW:
            wanted, reached = "every row within the distance", "all found"
        certain = number_of(self.returned, "row is", "rows are")
        lines = [
            f"search of {self.table} at instant {instant}: {found}, {wanted}, {self.metric}",
            f"  {execution}; slices: {slices}, {kept}",
            f"  rows: {rows}, {vectors}; {number_of(self.bytes_read, 'byte')} read",
            f"  {reached}; {phases}",
            f"  proved: {self.proved} of {certain} certainly in the exact answer",
        ]
        if self.requests or self.from_memory or self.from_disk or self.from_storage:
            asked_for = (
                f"{number_of(self.requests, 'request')} in {number_of(self.waves, 'wave')}, {self.bytes_received} "
                "bytes received"
            )
            parts = [_listed("from memory", self.from_memory), _listed("read", self.from_storage)]
            if self.from_disk:
                parts.insert(1, _listed("from disk", self.from_disk))
            lines.append("  store: " + "; ".join([asked_for, *parts] if self.requests else parts))
        if self.invalid_queries:
            lines.append(f"  {number_of(self.invalid_queries, 'query row')} without a usable vector gave no rows")
        return "\n".join(lines)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report's text."""
        yield from str(self).splitlines()

    def _repr_html_(self) -> str:
        return ShownText(self)._repr_html_()


@dataclass
class Progress:
    """The counts and times of a running search so far, and its time limit; `begun` is a time of `time.monotonic`."""

    counts: ScanCounts = field(default_factory=ScanCounts)
    seconds: dict[str, float] = field(default_factory=dict)
    unusable_queries: int = 0
    begun: float = field(default_factory=time.monotonic)
    deadline: Deadline = NEVER
    traffic: Traffic | None = field(default_factory=traffic)


def report_of(plan: SearchPlan, progress: Progress, queries: int, winners: Winners) -> SearchReport:
    """Return the report of a search by a plan, which found these rows."""
    return _report(
        progress,
        winners,
        SearchFacts(plan.snapshot.source.name, plan.metric, plan.k, plan.max_distance, queries),
        _Execution(
            plan.snapshot.instant,
            plan.execution,
            plan.reason,
            plan.access_counts,
            plan.pruned_slices,
            filtered=plan.filter_text is not None,
        ),
    )


@dataclass(frozen=True)
class SearchFacts:
    """The arguments of a search that its report shows; `table` is the user's name for it."""

    table: str
    metric: str
    k: int
    max_distance: float | None
    queries: int


def report_of_frame(facts: SearchFacts, reason: str, progress: Progress, winners: Winners) -> SearchReport:
    """Return the report of a search over a plan that is not a Hudi table; `reason` says why Spark searched it."""
    return _report(progress, winners, facts, _Execution(None, "spark", reason, {}, 0, filtered=True))


@dataclass(frozen=True)
class _Execution:
    """The place and extent of a search: its snapshot, and the slices that it reads."""

    instant: str | None
    execution: str
    reason: str
    slices: dict[str, int]
    pruned_slices: int
    filtered: bool


def _listed(title: str, counts: Mapping[str, int]) -> str:
    """Return counts by kind as text.

    Example:
        >>> _listed("read", {"footers": 2, "lists": 1})
        'read: 2 footers, 1 list'
    """
    return f"{title}: " + (
        ", ".join(number_of(count, kind.removesuffix("s"), kind) for kind, count in counts.items()) or "nothing"
    )


def _report(progress: Progress, winners: Winners, facts: SearchFacts, run: _Execution) -> SearchReport:
    counts, seen = progress.counts, progress.traffic
    kept, on_disk, read = ({}, {}, {}) if seen is None else seen.counts()
    found = _found(winners, facts.queries)
    fewest = int(found.min()) if facts.queries else 0
    reached = fewest >= facts.k or facts.k >= EVERY_ROW
    return SearchReport(
        table=facts.table,
        instant=run.instant,
        metric=facts.metric,
        k=facts.k,
        queries=facts.queries,
        execution=run.execution,
        execution_reason=run.reason,
        slices=run.slices,
        slices_pruned=run.pruned_slices,
        rows_seen=counts.rows,
        pruned=counts.pruned,
        filtered=counts.filtered,
        nulls=counts.nulls,
        invalid=counts.invalid,
        bytes_read=counts.bytes_read,
        cached_slices=counts.cached_slices,
        returned=len(winners),
        proved=_proved(winners, counts),
        reached_k=reached,
        why_fewer="" if reached else _why_fewer(counts, facts, run, None if winners.group_rank is None else fewest),
        groups=None if winners.group_rank is None else int(found.sum()),
        invalid_queries=progress.unusable_queries,
        seconds=dict(progress.seconds),
        requests=0 if seen is None else len(seen.requests),
        waves=0 if seen is None else seen.waves,
        bytes_received=0 if seen is None else seen.nbytes,
        from_memory=kept,
        from_disk=on_disk,
        from_storage=read,
    )


def _proved(winners: Winners, counts: ScanCounts) -> int:
    """Return how many rows are nearer than any row whose distance was not computed."""
    if counts.unseen is None:
        return len(winners)
    return int((winners.distance < counts.unseen[winners.query]).sum())


def _found(winners: Winners, queries: int) -> Ints:
    """Return the number of rows found for each query, or of groups in a search for groups."""
    if winners.group_rank is None:
        return np.bincount(winners.query, minlength=queries)
    found = np.zeros(queries, np.int64)
    np.maximum.at(found, winners.query, winners.group_rank)
    return found


def _why_fewer(counts: ScanCounts, facts: SearchFacts, run: _Execution, groups: int | None) -> str:
    """Return why a query has fewer than k rows or groups; `groups` is the least number of groups, None without them."""
    if not facts.queries:
        return "no query has a usable vector"
    filtered = counts.filtered or counts.pruned or run.pruned_slices or (run.execution == "spark" and run.filtered)
    if groups is not None:
        near = "" if facts.max_distance is None else f" within max_distance = {facts.max_distance}"
        passed = ("group passed", "groups passed") if filtered else ("group is in", "groups are in")
        return f"only {number_of(groups, *passed)} the {'filter' if filtered else 'table'}{near}"
    reasons = []
    if filtered:
        reasons.append("the filter left out the others")
    elif not counts.rows:
        return "the table holds no rows at this instant"
    if counts.nulls:
        reasons.append(f"{number_of(counts.nulls, 'row has', 'rows have')} no vector")
    if counts.invalid:
        reasons.append(f"{number_of(counts.invalid, 'row has', 'rows have')} an invalid one")
    searched = counts.rows - counts.pruned - counts.filtered - counts.nulls - counts.invalid
    if facts.max_distance is not None and searched >= facts.k:
        reasons.append(f"the others lie beyond max_distance = {facts.max_distance}")
    return ", ".join(reasons) or f"the table holds {number_of(counts.rows, 'row')}"


_REPORTS: deque[SearchReport] = deque(maxlen=_KEPT)
# Answers hold a plan with its snapshot, so fewer of them are kept.
_ANSWERED: deque[tuple[SearchReport, Answered]] = deque(maxlen=_ANSWERS)
_LOCK = threading.Lock()


def keep_report(report: SearchReport, snapshot: Snapshot | None = None, answered: Answered | None = None) -> None:
    """Log a report and keep it among the last ones; `snapshot` is what was searched, None for a plan of Spark.

    `answered` is what a receipt is made of; it is kept apart, for the last reports and up to some bytes only.
    """
    with _LOCK:
        _REPORTS.append(report)
        if answered is not None and answered.nbytes <= _MOST_ANSWER:
            _ANSWERED.append((report, answered))
    _LOG.info("%s", report)
    heard_by = listener()
    if heard_by is not None:
        heard_by.searched(report, snapshot)


def answering(report: SearchReport, answered: Answered) -> SearchReport:
    """Return a report that refers to the answer, of which it can make a receipt; the given one stays as it is."""
    copied = object.__new__(SearchReport)
    copied.__dict__.update(report.__dict__, _answered=answered)
    return copied


@known_arguments()
def last_reports(count: int = 1) -> Listed[SearchReport]:
    """Return the reports of the last searches of this process, the newest last.

    Args:
        count: The number of reports; the process keeps 100.

    Returns:
        The reports, fewer than `count` if there were fewer searches.

    Raises:
        ValueError: The count is below 1.

    Example:
        >>> for report in last_reports(1):
        ...     print(report)
    """
    if count < 1:
        raise ValueError(f"give a count of 1 or more, not {count}")
    with _LOCK:
        found, answers = list(_REPORTS)[-count:], {id(report): answered for report, answered in _ANSWERED}
    return Listed([answering(each, answers[id(each)]) if id(each) in answers else each for each in found])
