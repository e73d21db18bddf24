"""``hv.table_services.cluster``: Hudi's own clustering, followed by repacking blobs in the order of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, RefusedError, UnknownColumnError
from hudi_vector.events import heard_as
from hudi_vector.storage import join
from hudi_vector.table_services.arguments import hudi_settings, texts
from hudi_vector.table_services.clustering.vector_order import is_vector, vectors_among, why_not_in_order
from hudi_vector.table_services.compaction.api import COMPACT, of_plan, tell_by_default
from hudi_vector.table_services.plans.clustering_files import (
    CLUSTERINGS,
    ClusteringRun,
    publish_clustering,
    read_clustering,
)
from hudi_vector.table_services.plans.clustering_result import ClusterResult
from hudi_vector.table_services.plans.compaction_files import read_run
from hudi_vector.table_services.report_file import reported
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.read.spec import VectorColumn
    from hudi_vector.spark.blobs.table import BlobTable
    from hudi_vector.table_services.clustering.run import Clustering

__all__ = ["ClusterResult", "cluster"]


@known_arguments()
@heard_as("cluster")
def cluster(
    spark: SparkSession,
    table: str,
    *,
    order_by: str | Iterable[str] = (),
    assume_single_writer: bool = False,
    plan: str | None = None,
    dry_run: bool = False,
    report: str | None = None,
    options: Mapping[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ClusterResult:
    """Run Hudi's clustering, and repack blobs in the new order of their rows.

    Hudi rewrites the rows in the requested order, by its own plan and with its own concurrency control. If the order
    names a vector column, all rows are sorted by the coarse clusters of their vectors instead, within each partition,
    and one commit replaces the file groups that they were read from. This needs a lock by which writers take turns, or
    `assume_single_writer`.

    Afterwards blobs whose size is on the other side of ``hoodie.storage.blob.inline.threshold`` are moved from their
    rows to containers, or from containers into their rows. Then containers whose blobs are not in the new order of
    their rows are repacked as by `compact_blobs`, together with those that `compact_blobs` would repack anyway.

    Everything is planned first. A dry run publishes the plan, and `plan` runs exactly that plan, or refuses to if one
    of its file groups has changed since. A run that was killed is ended by the next run; given the same plan, the next
    run continues it.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        order_by: The columns by which rows are sorted; without any, rows keep the order of their files. For a vector
            column rows are sorted by the cluster of their vectors; there are about as many clusters as the square root
            of the number of rows, and at most 1024.
        assume_single_writer: As for `compact_blobs`.
        plan: The id of a plan that a dry run published, to run exactly that plan.
        dry_run: Whether to only plan, with the same rows of the result as a real run; the plan is published too.
        report: A local file that gets the rows of the result as JSON, one object per line.
        options: Hudi's settings for the clustering and the commits.
        progress: A function that is called with a sentence at each step, as for `compact_blobs`.

    Returns:
        The file groups that Hudi clustered, and what was done with the blobs.

    Raises:
        RefusedError: Rows of other writers could be lost, a compaction or clustering is running, a write without a lock
            is unfinished, or something that the plan names has changed.
        UnknownColumnError: There is no such column.
        InvalidArgumentError: Rows cannot be ordered by a column, or the table has no such plan.
        UnsupportedTableError: Rows of the table cannot be written back unchanged.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.cluster(spark, "photos", order_by="taken").moved_out
    """
    from hudi_vector.table_services.clustering.run import Clustering

    order = texts("order_by", order_by)
    if plan is not None and order:
        raise InvalidArgumentError("a plan says how rows are put in order; leave order_by out with plan")
    given, tell = hudi_settings(options), progress or tell_by_default("cluster")
    work = Clustering.of(spark, table, given, tell, alone=assume_single_writer, needs_blobs=False)
    asked = _Asked(plan, order if plan is None else [])
    names, vectors = asked.order(work)
    refusal = why_not_in_order(work, names, vectors) or work.why_refused()
    if dry_run:
        made = asked.decided(work, vectors)
        refusal = refusal or work.why_changed(made)
        planned = _of_plan(made)
        planned = replace(planned, compaction=replace(planned.compaction, dry_run=True), dry_run=True, refusal=refusal)
        return reported(planned, report)
    if refusal is not None:
        raise RefusedError(refusal)
    with ServiceLease(work.table.source.uri, COMPACT, options=work.storage_options) as lease:
        work.settle_writes()  # before the plan, which names files that a rollback may remove
        notes = (*work.end_begun_runs(lease), *work.end_begun_clusterings(lease))
        work = work.reopened() if notes else work
        made = asked.decided(work, vectors)
        reported(_of_plan(made), report)
        done = _run(work, made, vectors, lease)
        work.forget_old_plans(keep=made.plan.plan_id)
    return reported(replace(done, compaction=replace(done.compaction, notes=(*notes, *done.compaction.notes))), report)


class _Asked:
    """The id of the plan that a caller names, or the order for a new plan."""

    def __init__(self, plan: str | None, order: list[str]) -> None:
        self._plan = plan
        self._order = order

    def order(self, work: Clustering) -> tuple[Sequence[str], list[VectorColumn]]:
        """Return the columns of the order and the vectors among them, checked that rows can be ordered by them."""
        if self._plan is not None:
            plan = self._read(work).plan
            return plan.order_by, vectors_among(work.table, plan.vectors)
        return self._order, vectors_among(work.table, _ordering(work.table, self._order))

    def decided(self, work: Clustering, vectors: list[VectorColumn]) -> ClusteringRun:
        """Return the plan that was named, or make a new plan, which is published if it has any work."""
        if self._plan is not None:
            return self._read(work)
        made = ClusteringRun(work.planned(self._order, vectors))
        return publish_clustering(made, work.storage_options) if made.plan.has_work else made

    def _read(self, work: Clustering) -> ClusteringRun:
        assert self._plan is not None
        return read_clustering(work.table.source.uri, self._plan, work.storage_options)


def _run(work: Clustering, made: ClusteringRun, vectors: list[VectorColumn], lease: ServiceLease) -> ClusterResult:
    """Put rows in order, then move blobs by the inline threshold, then repack containers; the caller holds `lease`."""
    if not made.plan.has_work:
        return _of_plan(made)
    run = work.put_in_order(made, vectors, lease)
    try:
        return _with_blobs(work.reopened(), run, lease)
    finally:
        work.end(run)


def _with_blobs(work: Clustering, run: ClusteringRun, lease: ServiceLease) -> ClusterResult:
    """Move blobs by the inline threshold and repack containers, after rows were put in order."""
    plan = run.plan
    done = replace(_of_plan(run), instants=run.instants[-1:], moved_out=0, moved_in=0)
    if plan.moved_out or plan.moved_in:
        lease.check()
        sized = work.store_by_size(plan.settings, lease)
        work = work.reopened()
        done = replace(done, moved_out=sized.moved_out, moved_in=sized.moved_in, restored_rows=sized.restored)
    if plan.compaction.candidates:
        planned = read_run(plan.table, plan.compaction.plan_id, work.storage_options)
        done = replace(done, compaction=replace(work.run(planned, lease), plan_id=""))
    return done


def _of_plan(made: ClusteringRun) -> ClusterResult:
    """Return the result that a plan predicts, before anything was done."""
    plan = made.plan
    compaction = replace(of_plan(plan.compaction), plan_id="")
    home = join(plan.table, CLUSTERINGS, plan.plan_id) if plan.has_work else ""
    groups, plan_id = list(plan.groups), plan.plan_id if plan.has_work else ""
    return ClusterResult(plan.table, (), groups, plan.moved_out, plan.moved_in, 0, compaction, plan_id, home)


def _ordering(table: BlobTable, names: list[str]) -> list[str]:
    schema = table.frame.schema
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError.of(name, schema.names, table.label)
        kind = schema[name].dataType.typeName()
        if kind in ("array", "map", "struct") and not is_vector(schema[name]):
            raise InvalidArgumentError(
                f"column '{name}' is {schema[name].dataType.simpleString()}, and rows are ordered by columns of plain "
                "values and by VECTOR columns; order by another column, or leave order_by out"
            )
    return names
