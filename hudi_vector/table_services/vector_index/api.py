"""The vector index of a table or of files, made, brought up to date and looked after: ``hudi_vector.index``.

Building is a task for each file, or for some of many: the executors read the vectors and write the segments, and only
names travel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_count, as_share, as_text
from hudi_vector.errors import InvalidTypeError
from hudi_vector.index.build import Parameters, create_index, indexable_files, refresh_index
from hudi_vector.index.catalog import Index, drop_index
from hudi_vector.index.drift import mean_quality, retraining
from hudi_vector.index.kinds.kinds import indexed_metric
from hudi_vector.index.manifest import IndexManifest, ManifestEntry
from hudi_vector.index.recall_history import measurements_of
from hudi_vector.table_services.vector_index.places import IndexSubject, Place, chosen, the_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.table.model import Snapshot

__all__ = [
    "IndexDescription",
    "IndexResult",
    "build_if_missing",
    "create",
    "describe",
    "drop",
    "refresh",
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
        proposal: Why the index should be made anew, in one sentence; empty where nothing speaks for it.
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
    proposal: str = ""

    def lines(self) -> Iterator[str]:
        """The outcome in a few sentences for people, without the ends of lines."""
        yield (
            f"{self.kind} for {self.metric} of '{self.column}': {self.segments_made} segments made, "
            f"{self.segments_kept} kept; {self.rows} rows in {self.bytes} bytes, {self.seconds:.1f} s"
        )
        if self.proposal:
            yield self.proposal


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
        error: The mean distance of a vector from its code, of the covered files.
        imbalance: How many times more codes a probe of one list looks at than if all lists were of one length.
        proposal: Why the index should be made anew, in one sentence; empty where nothing speaks for it.
        recalls: When `recall` measured, in milliseconds since 1970, and what; the oldest first.
        latencies: When `recall` measured, and the median of a search in milliseconds; the oldest first.
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
    error: float
    imbalance: float
    proposal: str
    recalls: tuple[tuple[int, float], ...] = ()
    latencies: tuple[tuple[int, float], ...] = ()


def create(
    spark: SparkSession | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    files: Sequence[str] | None = None,
    delta: str | None = None,
    directory: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    kind: str = "ivf_sq8",
    metric: str = "cosine",
    num_partitions: int | None = None,
    num_sub_vectors: int | None = None,
    num_bits: int | None = None,
    max_iters: int | None = None,
    sample: int | None = None,
    recall_target: float | None = None,
) -> IndexResult:
    """Make an index of a vector column, or make it anew.

    Searches use it from then on without being changed. Writers are never blocked; what they write later is searched
    without the index until `refresh`. A build that was stopped goes on where it was when it is run again.

    Args:
        spark: A registered session; None for files, which threads of this process then read.
        table: The name or path of a Hudi table.
        column: A VECTOR column; of files also lists of FLOAT, DOUBLE or TINYINT that are all of one length.
        files: Parquet files in place of a table.
        delta: A Delta table in place of one.
        directory: Where the index lies, a path or URI that all executors reach; under the table by default, of files
            ``hoodie.vector.index.external.dir``.
        storage_options: Hadoop's storage settings for files; the session's by default.
        kind: ``"ivf_sq8"``: codes of one byte for each element; ``"ivf_flat"``: of four; with faiss, the extra
            ``faiss``, also ``"ivf_pq"``: about two bits for each element, and ``"hnsw"``: a graph for each base file,
            which searches use that have a recall target or ``mode="approximate"``.
        metric: ``"cosine"``, ``"l2"`` or ``"dot_product"``, or an alias of one: the metric of the searches it serves.
        num_partitions: Lists of the coarse quantiser; by default about the root of the number of rows.
        num_sub_vectors: ``ivf_pq``: into how many equal parts a vector is cut; by default for two bits an element.
        num_bits: ``ivf_pq``: bits of a part's code, ``hnsw``: of an element's; 8, the default, or 4.
        max_iters: Rounds of k-means.
        sample: Vectors the model is trained on; 256 for each list by default.
        recall_target: The recall searches aim at that have no target of their own and no setting of the session;
            without it they are exact.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        MissingDependencyError: The kind needs faiss, which is not installed.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: Its files can only be read by Spark.

    Example:
        >>> made = hv.index.create(spark, "products", "embedding", metric="cosine")
    """
    parameters = _parameters(
        kind,
        metric,
        sample,
        recall_target,
        num_partitions=num_partitions,
        num_sub_vectors=num_sub_vectors,
        num_bits=num_bits,
        max_iters=max_iters,
    )
    subject = IndexSubject.of(spark, table, files, delta, directory, storage_options)
    return _make(subject, column, parameters, retrain=True)


def build_if_missing(
    spark: SparkSession | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    files: Sequence[str] | None = None,
    delta: str | None = None,
    directory: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    kind: str = "ivf_sq8",
    metric: str = "cosine",
    num_partitions: int | None = None,
    num_sub_vectors: int | None = None,
    num_bits: int | None = None,
    max_iters: int | None = None,
    sample: int | None = None,
    recall_target: float | None = None,
) -> IndexResult:
    """Make an index where there is none, else bring it up to date.

    Args:
        spark: As for `create`.
        table: As for `create`.
        column: As for `create`.
        files: As for `create`.
        delta: As for `create`.
        directory: As for `create`.
        storage_options: As for `create`.
        kind: As for `create`.
        metric: As for `create`.
        num_partitions: As for `create`; used where the index is made, as are the others.
        num_sub_vectors: As for `create`.
        num_bits: As for `create`.
        max_iters: As for `create`.
        sample: As for `create`.
        recall_target: As for `create`.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        MissingDependencyError: The kind needs faiss, which is not installed.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
    """
    parameters = _parameters(
        kind,
        metric,
        sample,
        recall_target,
        num_partitions=num_partitions,
        num_sub_vectors=num_sub_vectors,
        num_bits=num_bits,
        max_iters=max_iters,
    )
    subject = IndexSubject.of(spark, table, files, delta, directory, storage_options)
    return _make(subject, column, parameters, retrain=False)


def refresh(
    spark: SparkSession | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    files: Sequence[str] | None = None,
    delta: str | None = None,
    directory: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    kind: str | None = None,
    metric: str | None = None,
    deep: bool = False,
) -> IndexResult:
    """Make the segments of the base files that came since the index was made or refreshed, and those that are gone.

    Of segments that are there the lengths are compared, and one of another length than it had is made anew. With
    ``deep=True`` the executors read them all, and those with damaged content are made anew too.

    Args:
        spark: As for `create`.
        table: As for `create`.
        column: As for `create`.
        files: As for `create`.
        delta: As for `create`.
        directory: As for `create`.
        storage_options: As for `create`.
        kind: Which index, where the column has several.
        metric: Which index, where the column has several.
        deep: Whether all segments are read to find damaged ones.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: The column has no such index, or several and none was named.
        InvalidTypeError: ``deep`` is neither true nor false.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> refreshed = hv.index.refresh(spark, "products", "embedding")
    """
    if not isinstance(deep, bool):
        raise InvalidTypeError(f"deep must be true or false, not {deep!r}")
    subject = IndexSubject.of(spark, table, files, delta, directory, storage_options)
    return _run(
        subject,
        column,
        lambda at: refresh_index(at.snapshot, at.spec, the_index(at, kind, metric), at.each, deep=deep),
    )


def describe(
    spark: SparkSession | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    files: Sequence[str] | None = None,
    delta: str | None = None,
    directory: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[IndexDescription]:
    """The indexes of a table, and how much of its newest snapshot they cover.

    Args:
        spark: As for `create`; None for a path on this machine too.
        table: The name or path of a Hudi table.
        column: Only those of this column.
        files: As for `create`.
        delta: As for `create`.
        directory: As for `create`.
        storage_options: As for `create`.

    Returns:
        One description an index, by column, metric and kind.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> [index.column for index in hv.index.describe(spark, "products")]
        ['embedding']
    """
    subject = IndexSubject.of(spark, table, files, delta, directory, storage_options, builds=False)
    snapshot, found = subject.indexes(column)
    return [_described(index, snapshot) for index in found]


def drop(
    spark: SparkSession | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    files: Sequence[str] | None = None,
    delta: str | None = None,
    directory: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    kind: str | None = None,
    metric: str | None = None,
) -> list[IndexDescription]:
    """Remove indexes of a column; searches then scan.

    Args:
        spark: As for `create`; None for a path on this machine too.
        table: The name or path of a Hudi table.
        column: The column.
        files: As for `create`.
        delta: As for `create`.
        directory: As for `create`.
        storage_options: As for `create`.
        kind: Only indexes of this kind.
        metric: Only indexes for this metric.

    Returns:
        What was removed.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> dropped = hv.index.drop(spark, "products", "embedding")
    """
    subject = IndexSubject.of(spark, table, files, delta, directory, storage_options, builds=False)
    snapshot, found = subject.indexes(as_text(column, "column"))
    going = chosen(found, kind, metric)
    gone = [_described(index, snapshot) for index in going]
    for index in going:
        drop_index(index, snapshot.source.options)
    return gone


def _make(subject: IndexSubject, column: Any, parameters: Parameters, retrain: bool) -> IndexResult:
    return _run(
        subject,
        column,
        lambda at: create_index(at.snapshot, at.spec, parameters, at.each, retrain, at.homes[0]),
    )


def _run(subject: IndexSubject, column: Any, job: Callable[[Place], Index]) -> IndexResult:
    begun = time.monotonic()
    at = subject.place(column)
    before = at.segments()
    index = job(at)
    manifest = index.manifest
    written = {name for name, _ in at.segments() - before}
    made = [entry for entry in manifest.entries if entry.segment in written]
    return IndexResult(
        table=at.snapshot.source.uri if subject.files is None else at.snapshot.source.name,
        column=manifest.column,
        kind=manifest.kind,
        metric=manifest.metric,
        segments_made=len(made),
        segments_kept=len(manifest.entries) - len(made),
        rows=sum(entry.rows for entry in manifest.entries),
        bytes=sum(entry.bytes for entry in manifest.entries),
        seconds=round(time.monotonic() - begun, 3),
        proposal=_proposal(manifest, [entry for _, entry in index.covered(indexable_files(at.snapshot))]),
    )


def _parameters(kind: Any, metric: Any, sample: Any, recall_target: Any, **numbers: Any) -> Parameters:
    """The parameters of an index, those checked that the index itself cannot tell from others."""
    for name, count in numbers.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise InvalidTypeError(f"{name} must be a whole number, not {count!r}")
    return Parameters(
        kind=as_text(kind, "kind") or "",
        metric=indexed_metric(metric),
        **numbers,
        sample=as_count(sample, "sample"),
        recall_target=as_share(recall_target, "recall_target"),
    )


def _described(index: Index, snapshot: Snapshot) -> IndexDescription:
    files, manifest = indexable_files(snapshot), index.manifest
    covering = [entry for _, entry in index.covered(files)]
    quality = mean_quality((entry.rows, entry.quality) for entry in covering)
    measured = measurements_of(index, snapshot.source.options)
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
        error=quality.error,
        imbalance=round(quality.imbalance, 3),
        proposal=_proposal(manifest, covering),
        recalls=tuple((at, recall) for at, recall, _ in measured),
        latencies=tuple((at, milliseconds) for at, _, milliseconds in measured),
    )


def _proposal(manifest: IndexManifest, entries: Sequence[ManifestEntry]) -> str:
    """Why the index should be made anew, or nothing."""
    now = mean_quality((entry.rows, entry.quality) for entry in entries)
    clipped, rows = sum(entry.clipped for entry in entries), sum(entry.rows for entry in entries)
    return retraining(manifest.kind, manifest.trained, now, clipped, rows)
