"""The steps of a maintenance run, listed in `STEPS` in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hudi_vector.blobs.leases import read_lease
from hudi_vector.errors import RefusedError, UnsupportedTableError, number_of
from hudi_vector.options import (
    MAINTAIN_CLEAN_INTERVAL,
    MAINTAIN_CLUSTER_INTERVAL,
    MAINTAIN_CLUSTER_ORDER,
    MAINTAIN_COMPACT_INTERVAL,
    MAINTAIN_FIGURES_INTERVAL,
    MAINTAIN_HUDI_CLEAN,
    MAINTAIN_INDEX_INTERVAL,
    Option,
    parse_names,
)
from hudi_vector.storage import open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.compaction.api import COMPACT, tell_by_default
from hudi_vector.table_services.compaction.state import require_suitable
from hudi_vector.table_services.located import locate
from hudi_vector.table_services.maintenance.figures import Figures, measure
from hudi_vector.table_services.maintenance.history import DONE, DUE, NOTHING, REFUSED
from hudi_vector.table_services.plans.clustering_files import begun_clusterings
from hudi_vector.table_services.plans.compaction_files import unended_runs
from hudi_vector.table_services.result import report_lines
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.table_services.plans.clustering_result import ClusterResult

__all__ = ["STEPS", "Job", "Outcome", "Step", "end_killed_runs"]

_ALL_COVERED = "every base file is covered by the indexes there are"


@dataclass(frozen=True)
class Job:
    """The arguments that every step gets.

    Attributes:
        spark: A registered session.
        table: The table, as the user named it.
        dry_run: Whether nothing may be changed.
        other_tables: The paths of tables that may refer to this table's blobs.
        single_writer: Whether no other process writes to the table during the run.
    """

    spark: SparkSession
    table: str
    dry_run: bool
    other_tables: Sequence[str] = ()
    single_writer: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step: its state, a text for people, and figures if it took any."""

    state: str
    text: str
    figures: Figures | None = None

    @classmethod
    def of(cls, result: Any, has_work: bool, lines: Iterable[str]) -> Outcome:
        """Make the outcome of a service from its result, whether it had work, and its lines for people.

        A result that is not well gives the state "refused".
        """
        text = "; ".join(line for line in lines if not line.startswith("report: "))
        if not result.is_well:
            return cls(REFUSED, text)
        return cls((DUE if result.dry_run else DONE) if has_work else NOTHING, text)


@dataclass(frozen=True)
class Step:
    """A step: its name, the setting of its interval, and its function."""

    name: str
    interval: Option[int]
    run: Callable[[Job], Outcome]


def end_killed_runs(job: Job) -> Outcome:
    """End the compactions and clusterings that were killed; until then they may hide rows of other writers."""
    from hudi_vector.table_services.clustering.run import Clustering

    root, _, options = locate(job.spark, job.table)
    begun = [f"compaction {run.plan.plan_id}" for run in unended_runs(root, options)]
    begun += [f"clustering {run.plan.plan_id}" for run in begun_clusterings(root, options)]
    lease = read_lease(open_storage(root, options), root, COMPACT) if begun else None
    # As long as the lease holds, the run may still be working; a killed run is ended once its lease has run out.
    if not begun or (lease is not None and clock_ms() < lease.until_ms):
        return Outcome(NOTHING, "")
    if job.dry_run:
        return Outcome(DUE, f"{', '.join(begun)} was killed, or gave up, and is to be ended")
    tell = tell_by_default("maintain")
    work = Clustering.of(job.spark, job.table, {}, tell, alone=job.single_writer, needs_blobs=False)
    with ServiceLease(root, COMPACT, options=options) as held:
        notes = (*work.end_begun_runs(held), *work.end_begun_clusterings(held))
    return Outcome(DONE, "; ".join(notes))


def _cluster(job: Job) -> Outcome:
    from hudi_vector.table_services.clustering.api import cluster

    order = parse_names(MAINTAIN_CLUSTER_ORDER.in_session(job.spark))
    run = partial(cluster, job.spark, job.table, order_by=order, assume_single_writer=job.single_writer)
    try:
        result = run(dry_run=job.dry_run)
    except RefusedError:
        result = run(dry_run=True)
        if _has_work(result):
            raise
    return Outcome.of(result, True, result.lines()) if _has_work(result) else Outcome(NOTHING, "")


def _has_work(result: ClusterResult) -> bool:
    return bool(result.candidates or result.moved_out or result.moved_in)


def _compact_blobs(job: Job) -> Outcome:
    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.table_services.compaction.api import compact_blobs

    table = BlobTable.of(job.spark, job.table)
    try:
        require_suitable(table)
    except UnsupportedTableError as unsuitable:  # a permanent property of the table, so not a failure
        return Outcome(NOTHING, str(unsuitable))
    run = partial(compact_blobs, job.spark, job.table, assume_single_writer=job.single_writer)
    planned = run(dry_run=True)
    if not planned.containers_before:  # without candidates, a refusal does not matter
        return Outcome(NOTHING, "; ".join(planned.notes))
    result = planned if job.dry_run else run(plan=planned.plan_id)
    return Outcome.of(result, True, result.lines())


def _clean_blobs(job: Job) -> Outcome:
    from hudi_vector.table_services.cleaning.api import clean_blobs

    with_hudi = MAINTAIN_HUDI_CLEAN.in_session(job.spark) == "true"
    result = clean_blobs(
        job.spark,
        job.table,
        dry_run=job.dry_run,
        other_tables=job.other_tables,
        run_hudi_clean=with_hudi and not job.dry_run,
    )
    return Outcome.of(result, bool(result.bytes or result.deleted or result.expired), report_lines(result))


def _look_after_indexes(job: Job) -> Outcome:
    from hudi_vector.table_services.vector_index.api import describe, refresh
    from hudi_vector.table_services.vector_index.compacting import compact

    known = describe(job.spark, job.table)
    stale = [index for index in known if index.covered_files < index.files]
    if job.dry_run and stale:
        lacking = sum(index.files - index.covered_files for index in stale)
        return Outcome(
            DUE, f"{number_of(lacking, 'segment is', 'segments are')} missing in {number_of(len(stale), 'index')}"
        )
    if job.dry_run:
        return Outcome(NOTHING, _ALL_COVERED)
    made = [refresh(job.spark, job.table, one.column, kind=one.kind, metric=one.metric) for one in stale]
    gone = [
        name for one in known for name in compact(job.spark, job.table, one.column, kind=one.kind, metric=one.metric)
    ]
    lines = [line for result in made for line in result.lines()]
    deleted = number_of(len(gone), "file of indexes was", "files of indexes were")
    lines += [f"{deleted} deleted that nothing needs any more"] if gone else []
    return Outcome(DONE, "; ".join(lines)) if lines else Outcome(NOTHING, _ALL_COVERED)


def _measure(job: Job) -> Outcome:
    figures = measure(job.spark, job.table)
    return Outcome(DONE, "; ".join(figures.lines()) or "neither blobs nor vector indexes", figures)


STEPS: Sequence[Step] = (
    # First: the containers that clustering repacks need no compaction afterwards.
    Step("cluster", MAINTAIN_CLUSTER_INTERVAL, _cluster),
    # Before the cleaner, which takes the old containers once no older commit needs them.
    Step("compact_blobs", MAINTAIN_COMPACT_INTERVAL, _compact_blobs),
    Step("clean_blobs", MAINTAIN_CLEAN_INTERVAL, _clean_blobs),
    # After clustering, so that its new files are indexed.
    Step("index", MAINTAIN_INDEX_INTERVAL, _look_after_indexes),
    # Last, so that the figures show the table as the other steps left it.
    Step("figures", MAINTAIN_FIGURES_INTERVAL, _measure),
)
