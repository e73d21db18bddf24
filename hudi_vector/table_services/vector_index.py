"""The vector index of a table, made, brought up to date and looked after from Spark: ``hudi_vector.index``.

Building is one task a file: the executors read the vectors and write the segments, and only names travel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.index.build import Each, Parameters, create_index, indexable_files, refresh_index
from hudi_vector.index.catalog import Index, drop_index, indexed_columns, list_indexes
from hudi_vector.kernels.metrics import metric_named
from hudi_vector.search.checks import as_count, as_share, as_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.read.spec import ScanSpec
    from hudi_vector.table.model import Snapshot

__all__ = [
    "IndexDescription",
    "IndexResult",
    "Place",
    "build_if_missing",
    "create",
    "describe",
    "drop",
    "place_of",
    "refresh",
    "the_index",
]


@dataclass(frozen=True)
class IndexResult:
    """What a job did to an index, and what the index then is.

    Attributes:
        table: The table's base path.
        column: The vector column.
        kind: The kind of index.
        metric: Its metric.
        segments_made: Segments that were written.
        segments_kept: Segments that were there already.
        rows: Rows of the files it covers.
        bytes: Bytes of its segments.
        seconds: How long the job took.
    """

    table: str
    column: str
    kind: str
    metric: str
    segments_made: int
    segments_kept: int
    rows: int
    bytes: int
    seconds: float

    def lines(self) -> Iterator[str]:
        """The outcome in a few sentences for people, without the ends of lines."""
        yield (
            f"{self.kind} for {self.metric} of '{self.column}': {self.segments_made} segments made, "
            f"{self.segments_kept} kept; {self.rows} rows in {self.bytes} bytes, {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class IndexDescription:
    """An index as it is now, beside the table as it is now.

    Attributes:
        column: The vector column.
        kind: The kind of index.
        metric: Its metric.
        segments: Segments it has, those of older file slices too.
        covered_files: Base files of the newest snapshot that have a segment.
        files: Base files of the newest snapshot.
        covered_rows: Rows of the covered files.
        bytes: Bytes of its segments.
        clipped_rows: Rows with a value outside the range the model was trained on.
        generation: How often it was published.
        created_ms: When that was published, milliseconds since 1970.
    """

    column: str
    kind: str
    metric: str
    segments: int
    covered_files: int
    files: int
    covered_rows: int
    bytes: int
    clipped_rows: int
    generation: int
    created_ms: int


def create(
    spark: SparkSession,
    table: str,
    column: str,
    *,
    kind: str = "ivf_sq8",
    metric: str = "cosine",
    num_partitions: int | None = None,
    max_iters: int | None = None,
    sample: int | None = None,
    recall_target: float | None = None,
) -> IndexResult:
    """Make an index of a vector column, or make it anew.

    Searches use it from then on without being changed. Writers are never blocked; what they write later is searched
    without the index until `refresh`. A build that was stopped goes on where it was when it is run again.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: A VECTOR column.
        kind: ``"ivf_sq8"``: codes of one byte for each element; ``"ivf_flat"``: of four.
        metric: ``"cosine"``, ``"l2"`` or ``"dot_product"``, or an alias of one: the metric of the searches it serves.
        num_partitions: Lists of the coarse quantiser; by default about the root of the number of rows.
        max_iters: Rounds of k-means.
        sample: Vectors the model is trained on; 256 for each list by default.
        recall_target: The recall searches aim at that have no target of their own and no setting of the session;
            without it they are exact.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: Its files can only be read by Spark.

    Example:
        >>> hv.index.create(spark, "products", "embedding", metric="cosine")  # doctest: +SKIP
    """
    parameters = _parameters(kind, metric, num_partitions, max_iters, sample, recall_target)
    return _run(spark, table, column, lambda at, each: create_index(at.snapshot, at.spec, parameters, each))


def build_if_missing(
    spark: SparkSession,
    table: str,
    column: str,
    *,
    kind: str = "ivf_sq8",
    metric: str = "cosine",
    num_partitions: int | None = None,
    max_iters: int | None = None,
    sample: int | None = None,
    recall_target: float | None = None,
) -> IndexResult:
    """Make an index where there is none, else bring it up to date.

    Args:
        spark: A registered session.
        table: As for `create`.
        column: As for `create`.
        kind: As for `create`.
        metric: As for `create`.
        num_partitions: As for `create`; used where the index is made, as are the others.
        max_iters: As for `create`.
        sample: As for `create`.
        recall_target: As for `create`.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: An argument is not allowed.

    Example:
        >>> hv.index.build_if_missing(spark, "products", "embedding")  # doctest: +SKIP
    """
    parameters = _parameters(kind, metric, num_partitions, max_iters, sample, recall_target)

    def run(at: Place, each: Each) -> Index:
        return create_index(at.snapshot, at.spec, parameters, each, retrain=False)

    return _run(spark, table, column, run)


def refresh(
    spark: SparkSession, table: str, column: str, *, kind: str | None = None, metric: str | None = None
) -> IndexResult:
    """Make the segments of the base files that came since the index was made or refreshed.

    Args:
        spark: A registered session.
        table: As for `create`.
        column: As for `create`.
        kind: Which index, where the column has several.
        metric: Which index, where the column has several.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: The column has no such index, or several and none was named.

    Example:
        >>> hv.index.refresh(spark, "products", "embedding")  # doctest: +SKIP
    """

    def run(at: Place, each: Each) -> Index:
        return refresh_index(at.snapshot, at.spec, the_index(at, kind, metric), each)

    return _run(spark, table, column, run)


def describe(spark: SparkSession, table: str, column: str | None = None) -> list[IndexDescription]:
    """The indexes of a table, and how much of its newest snapshot they cover.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: Only those of this column.

    Returns:
        One description an index, by column, metric and kind.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.index.describe(spark, "products")[0].covered_files  # doctest: +SKIP
    """
    snapshot, found = _indexes(spark, table, column)
    return [_described(index, snapshot) for index in found]


def drop(
    spark: SparkSession, table: str, column: str, *, kind: str | None = None, metric: str | None = None
) -> list[IndexDescription]:
    """Remove indexes of a column; searches then scan.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: The column.
        kind: Only indexes of this kind.
        metric: Only indexes for this metric.

    Returns:
        What was removed.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.index.drop(spark, "products", "embedding")  # doctest: +SKIP
    """
    snapshot, found = _indexes(spark, table, as_text(column, "column"))
    going = _chosen(found, kind, metric)
    gone = [_described(index, snapshot) for index in going]
    for index in going:
        drop_index(index, snapshot.source.options)
    return gone


@dataclass(frozen=True)
class Place:
    """The table of a job, and its column as a scan reads it.

    Attributes:
        snapshot: The table now.
        spec: The column.
    """

    snapshot: Snapshot
    spec: ScanSpec


def _run(spark: SparkSession, table: str, column: str, job: Callable[[Place, Each], Index]) -> IndexResult:
    from hudi_vector.search.distributed import on_executors

    begun = time.monotonic()
    at = place_of(spark, table, column)
    before = {
        entry.segment
        for index in list_indexes(at.spec.table_uri, at.spec.column.name, at.spec.options)
        for entry in index.manifest.entries
    }
    manifest = job(at, on_executors(spark.sparkContext)).manifest
    made = [entry for entry in manifest.entries if entry.segment not in before]
    return IndexResult(
        table=at.spec.table_uri,
        column=manifest.column,
        kind=manifest.kind,
        metric=manifest.metric,
        segments_made=len(made),
        segments_kept=len(manifest.entries) - len(made),
        rows=sum(entry.rows for entry in manifest.entries),
        bytes=sum(entry.bytes for entry in manifest.entries),
        seconds=round(time.monotonic() - begun, 3),
    )


def place_of(spark: SparkSession, table: str, column: str) -> Place:
    """Find a table and its vector column for a job.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: A VECTOR column.

    Returns:
        The table as it is now.

    Raises:
        InvalidArgumentError: The column is an array.
        UnsupportedTableError: Only Spark can read the table's files.
    """
    from hudi_vector.search.planner import table_needs_spark
    from hudi_vector.spark.resolve import resolve_name
    from hudi_vector.spark.table_functions import checked_search

    target = resolve_name(spark, table)
    target.table()
    search = checked_search(spark, target, as_text(column, "column") or "", None, k=1)
    if not search.column.is_vector:
        raise InvalidArgumentError(
            f"column '{search.column.name}' of '{table}' is an array; an index is made of a VECTOR column, whose "
            "dimension the table knows"
        )
    plan = search.plan(search.column.dimension, {"hoodie.vector.search.mode": "exact"})
    assert plan is not None
    reason = table_needs_spark(plan.snapshot)
    if reason is not None:
        raise UnsupportedTableError(f"'{table}' can have no index: only Spark can read its files, since {reason}")
    return Place(plan.snapshot, plan.spec)


def _parameters(
    kind: Any, metric: Any, num_partitions: Any, max_iters: Any, sample: Any, recall_target: Any
) -> Parameters:
    """The parameters of an index, those checked that the index itself cannot tell from others."""
    for name, count in (("num_partitions", num_partitions), ("max_iters", max_iters)):
        if count is not None and not isinstance(count, int):
            raise InvalidTypeError(f"{name} must be a whole number, not {count!r}")
    return Parameters(
        kind=as_text(kind, "kind") or "",
        metric=metric_named(metric),
        num_partitions=num_partitions,
        max_iters=max_iters,
        sample=as_count(sample, "sample"),
        recall_target=as_share(recall_target, "recall_target"),
    )


def _indexes(spark: SparkSession, table: str, column: str | None) -> tuple[Snapshot, list[Index]]:
    """A table now, and the indexes of one of its columns, or of all."""
    from hudi_vector.spark.columns import vector_column
    from hudi_vector.spark.resolve import resolve_name
    from hudi_vector.spark.snapshots import snapshot_for

    target = resolve_name(spark, table)
    source = target.table()
    columns = indexed_columns(source.uri, source.options)
    if column is not None:
        # The index of a column that the table has no longer can be named too.
        known = as_text(column, "column") in columns
        found = column if known else vector_column(target.schema, column, target.label, None).name
        columns = [found if known else dict(target.physical)[found]]
    indexes = [index for name in columns for index in list_indexes(source.uri, name, source.options)]
    return snapshot_for(spark, source, None), indexes


def _chosen(indexes: Sequence[Index], kind: str | None, metric: str | None) -> list[Index]:
    """The indexes of a kind and for a metric; None stands for any."""
    wanted = None if metric is None else metric_named(metric)
    return [m for m in indexes if kind in (None, m.manifest.kind) and wanted in (None, m.manifest.metric)]


def the_index(at: Place, kind: str | None, metric: str | None) -> Index:
    """The one index of a column that is meant.

    Args:
        at: The table and the column.
        kind: A kind, None for any.
        metric: A metric, None for any.

    Returns:
        The index.

    Raises:
        InvalidArgumentError: There is none, or several.
    """
    found = list_indexes(at.spec.table_uri, at.spec.column.name, at.spec.options)
    fitting = _chosen(found, kind, metric)
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{m.manifest.metric}-{m.manifest.kind}" for m in found) or "none"
    raise InvalidArgumentError(
        f"column '{at.spec.column.name}' has {len(fitting)} such indexes (there are: {there}); "
        + ("name one by metric and kind" if fitting else "make one with hudi_vector.index.create")
    )


def _described(index: Index, snapshot: Snapshot) -> IndexDescription:
    files, manifest = indexable_files(snapshot), index.manifest
    covering = [entry for _, entry in index.covered(files)]
    return IndexDescription(
        column=manifest.column,
        kind=manifest.kind,
        metric=manifest.metric,
        segments=len(manifest.entries),
        covered_files=len(covering),
        files=len(files),
        covered_rows=sum(entry.rows for entry in covering),
        bytes=sum(entry.bytes for entry in manifest.entries),
        clipped_rows=sum(entry.clipped for entry in covering),
        generation=manifest.generation,
        created_ms=manifest.created_ms,
    )
