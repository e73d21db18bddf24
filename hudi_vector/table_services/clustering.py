"""``hv.table_services.cluster``: Hudi's own clustering, and then the blobs in the order of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import InvalidArgumentError, RefusedError, UnknownColumnError
from hudi_vector.table_services.arguments import hudi_settings, texts
from hudi_vector.table_services.compact import COMPACT, Wanted, of_plan, publish, tell_by_default
from hudi_vector.table_services.compaction_result import CompactResult
from hudi_vector.table_services.report_file import reported
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.spark.blob_table import BlobTable
    from hudi_vector.table_services.compaction_run import Compaction

__all__ = ["ClusterResult", "cluster"]

_DISORDER_PERCENT = 10


@dataclass(frozen=True)
class ClusterResult:
    """The outcome of a clustering.

    Attributes:
        table: The table's base path.
        instants: The clustering instants that Hudi completed.
        moved_out: Inline blobs that were put into containers.
        moved_in: Blobs of containers that were put into their rows.
        restored_rows: Rows of other writers that the commit of these had overwritten, and that were written again.
        compaction: What became of the containers whose blobs no longer lay in the order of their rows.
        report: Where the plan of that lies, or the file that was asked for.
    """

    table: str
    instants: tuple[str, ...]
    moved_out: int
    moved_in: int
    restored_rows: int
    compaction: CompactResult
    report: str

    @property
    def is_well(self) -> bool:
        """Whether nothing was doubtful."""
        return self.compaction.is_well

    def rows(self) -> list[dict[str, Any]]:
        """A row for each container, as of `CompactResult`."""
        return self.compaction.rows()

    def lines(self) -> Iterator[str]:
        """The outcome in a few sentences for people, without the ends of lines."""
        yield f"clustering instants: {', '.join(self.instants) or 'none, Hudi found nothing to cluster'}"
        if self.moved_out or self.moved_in:
            yield f"{self.moved_out} inline blobs went to containers, {self.moved_in} came into their rows"
        if self.restored_rows:
            yield f"{self.restored_rows} rows that other writers changed meanwhile were restored"
        yield from self.compaction.lines()


def cluster(
    spark: SparkSession,
    table: str,
    *,
    order_by: str | Iterable[str] = (),
    assume_single_writer: bool = False,
    report: str | None = None,
    options: Mapping[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
) -> ClusterResult:
    """Run Hudi's clustering, and let the blobs follow their rows.

    Hudi rewrites the rows, in the order that is asked for, by its own procedure and with its own concurrency control.
    Then blobs whose size is on the other side of ``hoodie.storage.blob.inline.threshold`` go to containers, or come
    into their rows; and containers whose blobs no longer lie in the order of their rows are repacked as by
    `compact_blobs`, together with those that it would repack anyway.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        order_by: The columns by which Hudi sorts rows; none leaves them in the order of their files. A vector column
            is refused: Hudi sorts by columns, and the cluster of a vector is none.
        assume_single_writer: As for `compact_blobs`.
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
    from hudi_vector.table_services.compaction_run import Compaction

    tell = progress or tell_by_default("cluster")
    given = hudi_settings(options)
    work = Compaction.of(spark, table, given, tell, alone=assume_single_writer)
    order = _ordering(work.table, order_by)
    for key, value in given.items():
        if "," in key + value:
            raise InvalidArgumentError(f"'{key} = {value}' holds a comma, at which Hudi's procedure cuts options")
    wanted = Wanted(spark, None, None, None, None)
    refusal = work.why_refused()
    if refusal is not None:
        raise RefusedError(refusal)
    with ServiceLease(work.table.source.uri, COMPACT, options=work.storage_options) as lease:
        notes = work.end_begun_runs(lease)
        tell("clustering")
        instants = _cluster(work, order, given)
        lease.check()
        work = work.reopened()
        tell("applying thresholds")
        moved = work.store_by_size(lease)
        work = work.reopened()
        made = wanted.plan(work, work.table.columns, deduplicate=False, disorder_percent=_DISORDER_PERCENT)
        publish(made, work)
        done = work.run(made, lease) if made.candidates else of_plan(made)
    result = ClusterResult(
        table=made.table,
        instants=instants,
        moved_out=moved.moved_out,
        moved_in=moved.moved_in,
        restored_rows=moved.restored,
        compaction=replace(done, notes=(*notes, *done.notes)),
        report=done.report,
    )
    return reported(result, report)


def _ordering(table: BlobTable, order_by: str | Iterable[str]) -> list[str]:
    schema = table.frame.schema
    names = texts("order_by", order_by)
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError.of(name, schema.names, table.label)
        kind = schema[name].dataType.typeName()
        if kind in ("array", "map", "struct"):
            raise InvalidArgumentError(
                f"column '{name}' is {schema[name].dataType.simpleString()}, and Hudi's clustering sorts by columns of "
                "plain values only; order by a column that holds the cluster of each row, or leave order_by out"
            )
    return names


def _cluster(work: Compaction, order: list[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """Let Hudi schedule and execute; gives the instants it completed."""
    path = work.path.replace("'", "\\'")
    settings = ",".join(f"{key}={value}" for key, value in options.items()).replace("'", "\\'")
    call = f"call run_clustering(path => '{path}', op => 'scheduleAndExecute'"
    call += f", order => '{','.join(order)}'" if order else ""
    call += f", options => '{settings}'" if settings else ""
    return tuple(row["timestamp"] for row in work.spark.sql(call + ")").collect() if row["state"] == "COMPLETED")
