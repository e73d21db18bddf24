"""``hv.table_services.cluster``: Hudi's own clustering, and then the blobs in the order of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import InvalidArgumentError, RefusedError, UnknownColumnError
from hudi_vector.table_services.arguments import hudi_settings, texts
from hudi_vector.table_services.compact import COMPACT, Wanted, of_plan, publish, tell_by_default
from hudi_vector.table_services.compaction_result import CompactResult
from hudi_vector.table_services.hudi_clustering import (
    ClusteredGroup,
    all_groups,
    cluster_with_hudi,
    groups_of_hudi,
    require_no_comma,
)
from hudi_vector.table_services.report_file import reported
from hudi_vector.table_services.service_lease import ServiceLease
from hudi_vector.table_services.vector_order import is_vector, vectors_among, why_not_in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.read.spec import VectorColumn
    from hudi_vector.spark.blob_table import BlobTable
    from hudi_vector.table_services.clustering_run import Clustering
    from hudi_vector.table_services.compaction_plan import CompactionPlan

__all__ = ["ClusterResult", "cluster"]

_DISORDER_PERCENT = 10


@dataclass(frozen=True)
class ClusterResult:
    """The outcome of a clustering.

    Attributes:
        table: The table's base path.
        instants: The clustering instants that were completed.
        groups: The file groups whose rows were put in order, in a dry run those that would be.
        moved_out: Inline blobs that were put into containers.
        moved_in: Blobs of containers that were put into their rows.
        restored_rows: Rows of other writers that the commit of these had overwritten, and that were written again.
        compaction: What became of the containers whose blobs no longer lay in the order of their rows.
        report: Where the plan of that lies, or the file that was asked for.
        dry_run: Whether nothing was to be changed.
        refusal: Why the real run would be refused, in a dry run.
    """

    table: str
    instants: tuple[str, ...]
    groups: list[ClusteredGroup]
    moved_out: int
    moved_in: int
    restored_rows: int
    compaction: CompactResult
    report: str = ""
    dry_run: bool = False
    refusal: str | None = None

    @property
    def bytes(self) -> int:
        """Of the file groups that were rewritten."""
        return sum(group.bytes for group in self.groups)

    @property
    def is_well(self) -> bool:
        """Whether nothing was refused or doubtful."""
        return self.compaction.is_well and not self.refusal

    def rows(self) -> list[dict[str, Any]]:
        """A row for each file group (its action is ``cluster``) and each container, as of `CompactResult`."""
        return [*(group.row() for group in self.groups), *self.compaction.rows()]

    def lines(self) -> Iterator[str]:
        """The outcome in a few sentences for people, without the ends of lines."""
        if self.refusal:
            yield f"the run would be refused: {self.refusal}"
        groups = f"{len(self.groups)} file groups of {self.bytes} bytes"
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


def cluster(
    spark: SparkSession,
    table: str,
    *,
    order_by: str | Iterable[str] = (),
    assume_single_writer: bool = False,
    dry_run: bool = False,
    report: str | None = None,
    options: Mapping[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ClusterResult:
    """Run Hudi's clustering, and let the blobs follow their rows.

    Hudi rewrites the rows, in the order that is asked for, by its own procedure and with its own concurrency control.
    Where the order names a vector column, all rows are sorted by the coarse cluster of their vectors instead, within
    each partition, and take the place of the file groups they were read from by one commit; that needs a lock by
    which writers take turns, or `assume_single_writer`.

    Then blobs whose size is on the other side of ``hoodie.storage.blob.inline.threshold`` go to containers, or come
    into their rows; and containers whose blobs no longer lie in the order of their rows are repacked as by
    `compact_blobs`, together with those that it would repack anyway.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        order_by: The columns by which rows are sorted; none leaves them in the order of their files. A vector column
            stands for the cluster that a vector belongs to, of as many as the square root of the rows, up to 1024.
        assume_single_writer: As for `compact_blobs`.
        dry_run: Whether to only say what would happen: the file groups that Hudi would plan to rewrite, how many blobs
            would change their place, and the containers that would be repacked as rows lie now.
        report: A local file that gets the rows of the result as JSON, one object a line.
        options: Hudi's settings, for the clustering and the commits.
        progress: Gets a sentence at each step, as for `compact_blobs`.

    Returns:
        What Hudi clustered, and what became of the blobs.

    Raises:
        RefusedError: Other writers cannot be kept from losing rows, or a compaction is under way.
        UnknownColumnError: There is no such column.
        InvalidArgumentError: Rows cannot be ordered by a column, or an option holds a comma.
        UnsupportedTableError: Rows of the table cannot be written back as they are.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.table_services.cluster(spark, "photos", order_by="taken").moved_out  # doctest: +SKIP
    """
    from hudi_vector.table_services.clustering_run import Clustering

    tell = progress or tell_by_default("cluster")
    given = hudi_settings(options)
    work = Clustering.of(spark, table, given, tell, alone=assume_single_writer, needs_blobs=False)
    order = _ordering(work.table, order_by)
    asked = _Asked(order, vectors_among(work.table, order), given, Wanted(spark, None, None, None, None))
    if not asked.vectors:
        require_no_comma(given)
    refusal = why_not_in_order(work, asked.vectors) or work.why_refused()
    if dry_run:
        return reported(asked.outlook(work, refusal), report)
    if refusal is not None:
        raise RefusedError(refusal)
    with ServiceLease(work.table.source.uri, COMPACT, options=work.storage_options) as lease:
        return reported(asked.run(work, lease), report)


@dataclass(frozen=True)
class _Asked:
    """What a caller asked for."""

    order: list[str]
    vectors: list[VectorColumn]
    options: Mapping[str, str]
    wanted: Wanted

    def outlook(self, work: Clustering, refusal: str | None) -> ClusterResult:
        """What a run would do now."""
        out, into = work.count_by_size() if work.table.columns else (0, 0)
        compaction = replace(of_plan(self._plan(work)), dry_run=True, plan_id="", report="")
        return ClusterResult(
            compaction.table, (), self._groups(work), out, into, 0, compaction, dry_run=True, refusal=refusal
        )

    def run(self, work: Clustering, lease: ServiceLease) -> ClusterResult:
        """Rows in order, then blobs by their size, then containers in the order of the rows."""
        notes = work.end_begun_runs(lease)
        work.tell("clustering")
        groups, instants = self._groups(work), self._cluster(work, lease)
        lease.check()
        work = work.reopened()
        out, into, restored = _by_size(work, lease)
        work = work.reopened()
        made = self._plan(work)
        publish(made, work)
        done = work.run(made, lease) if made.candidates else of_plan(made)
        done = replace(done, notes=(*notes, *done.notes))
        return ClusterResult(
            made.table, instants, groups if instants else [], out, into, restored, done, report=done.report
        )

    def _groups(self, work: Clustering) -> list[ClusteredGroup]:
        return all_groups(work) if self.vectors else groups_of_hudi(work, self.order, self.options)

    def _cluster(self, work: Clustering, lease: ServiceLease) -> tuple[str, ...]:
        if not self.vectors:
            return cluster_with_hudi(work, self.order, self.options)
        instant = work.put_in_order(self.order, self.vectors, lease)
        return (instant,) if instant else ()

    def _plan(self, work: Clustering) -> CompactionPlan:
        return self.wanted.plan(work, work.table.columns, deduplicate=False, disorder_percent=_DISORDER_PERCENT)


def _by_size(work: Clustering, lease: ServiceLease) -> tuple[int, int, int]:
    if not work.table.columns:
        return 0, 0, 0
    work.tell("applying thresholds")
    done = work.store_by_size(lease)
    return done.moved_out, done.moved_in, done.restored


def _ordering(table: BlobTable, order_by: str | Iterable[str]) -> list[str]:
    schema = table.frame.schema
    names = texts("order_by", order_by)
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
