"""The functions of ``hudi_vector.index`` that make, refresh, describe and drop the vector index of a table or of files.

An index is built by one task per file or group of files: executors read the vectors and write the segments, and only
names are sent between driver and executors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_count, as_share, as_text, known_arguments
from hudi_vector.errors import InvalidTypeError, number_of
from hudi_vector.events import heard_as
from hudi_vector.index.build import Parameters, create_index, indexable_files, of_usual_kind, refresh_index
from hudi_vector.index.catalog import Index, drop_index
from hudi_vector.index.drift import mean_quality, retraining
from hudi_vector.index.kinds.kinds import indexed_metric
from hudi_vector.index.manifest import IndexManifest, ManifestEntry
from hudi_vector.index.recall_history import measurements_of
from hudi_vector.shown import Listed, Shown
from hudi_vector.storage import scheme_of
from hudi_vector.table_services.vector_index.places import (
    IndexOptions,
    IndexSource,
    IndexSpec,
    IndexSubject,
    Place,
    chosen,
    chosen_places,
    indexes_in,
    the_index,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from hudi_vector.options import Settings
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

# Bytes of vectors as float32 from which an index makes repeated searches of a local disk faster: those with a recall
# target below 1, and exact ones. On two cores 20,000 x 128 (10 MiB) took 3.2 ms without an index, 3.5 ms exactly with
# ivf_sq8 and 2.6 ms at 0.95; 100,000 x 384 (146 MiB) took 20.9, 16.0 and 3.0 ms.
_FEW_BYTES, _MANY_BYTES = 8 << 20, 128 << 20


@dataclass(frozen=True, repr=False)
class IndexResult(Shown):
    """The outcome of a job on an index, and the index afterwards.

    Attributes:
        table: The table's base path; for files the path of the file, or a short description of several files.
        column: The vector column.
        kind: The kind of index.
        metric: The metric of the index.
        segments_made: The number of segments that were written.
        segments_kept: The number of segments that existed before.
        covered_rows: The number of rows in the files that the index covers.
        bytes: Bytes of the index's segments.
        seconds: The time that the job took.
        proposal: Why the index should be made again, in one sentence; empty if there is no reason to.
        advice: Why the index is hardly worth having, in one sentence; empty if it is.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> made.kind, made.metric
        ('ivf_sq8', 'cosine')
    """

    table: str
    column: str
    kind: str
    metric: str
    segments_made: int
    segments_kept: int
    covered_rows: int
    bytes: int
    seconds: float
    proposal: str = ""
    advice: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the outcome as a few sentences for people, without line ends.

        Example:
            >>> made = hv.index.build_if_missing(spark, "products", "embedding")
            >>> next(made.lines())
            "ivf_sq8 for cosine of 'embedding': ..."
        """
        yield (
            f"{self.kind} for {self.metric} of '{self.column}': {number_of(self.segments_made, 'segment')} made, "
            f"{self.segments_kept} kept; {number_of(self.covered_rows, 'row')} in {self.bytes} bytes, "
            f"{self.seconds:.1f} s"
        )
        yield from (sentence for sentence in (self.proposal, self.advice) if sentence)


@dataclass(frozen=True, repr=False)
class IndexDescription(Shown):
    """An index as it is now, compared with the newest snapshot of its table.

    Attributes:
        column: The vector column.
        kind: The kind of index.
        metric: The metric of the index.
        segments: The number of its segments, including those of older file slices.
        covered_files: The number of base files in the newest snapshot that have a segment.
        files: The number of base files in the newest snapshot.
        covered_rows: The number of rows in the covered files.
        bytes: Bytes of the index's segments.
        clipped_rows: The number of rows with a value outside the range that the model was trained on.
        generation: How many times the index was published.
        created_ms: When the newest generation was published, milliseconds since 1970.
        error: The mean distance of a vector from its code, over the covered files.
        imbalance: How many times more codes a probe of one list reads than if all lists had the same length.
        proposal: Why the index should be made again, in one sentence; empty if there is no reason to.
        recalls: The measurements of `recall`, the oldest first: time in milliseconds since 1970, and recall.
        latencies: The measurements of `recall`, the oldest first: time in milliseconds since 1970, and the median
            latency of a search in milliseconds.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> [index.kind for index in hv.index.describe(spark, "products")]
        ['ivf_sq8']
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


@known_arguments(IndexOptions)
@heard_as("index.create")
def create(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    kind: str | None = None,
    metric: str = "cosine",
    recall_target: float | None = None,
    **options: Unpack[IndexOptions],
) -> IndexResult:
    """Make an index of a vector column, replacing the present one if there is one.

    Searches use the index from then on without any change to them. Writers are never blocked; rows that they write
    later are searched without the index until `refresh`. If a build was stopped, running it again continues it.

    Args:
        spark: A registered session, whose executors then do the work. Else threads of this process do it: `Settings` of
            `hudi_vector.options` for a table's path, or None for a path on this machine and for files.
        table: The name or path of a Hudi table.
        column: A VECTOR column; for files also a column of lists of FLOAT, DOUBLE or TINYINT that all have one length.
        kind: ``"ivf_sq8"`` stores a code of one byte for each element, ``"ivf_flat"`` one of four bytes, and
            ``"ivf_rabitq"`` one of a bit, for searches with a recall target. With faiss (the extra ``faiss``) also
            ``"ivf_pq"``, which stores about two bits for each element, and ``"hnsw"``, a graph for each base file,
            which only searches with a recall target or ``mode="approximate"`` use. None chooses ``"ivf_sq8"``, or
            ``"ivf_rabitq"`` if there is a recall target below 1, vectors have 256 elements or more, and codes of one
            byte for each element would have more than 1 GiB, on an object store more than 16 MiB.
        metric: The metric of the searches that the index serves: ``"cosine"``, ``"l2"`` or ``"dot_product"``, or an
            alias of one of them.
        recall_target: The recall target of searches that give none and whose session sets none; without it such
            searches are exact.
        options: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`;
            `num_partitions`, `num_sub_vectors`, `num_bits`, `max_iters` and `sample`: see `IndexSpec`.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        MissingDependencyError: The kind needs faiss, which is not installed.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: Only Spark can read the table's files.

    Example:
        >>> made = hv.index.create(spark, "products", "embedding", metric="cosine")
    """
    place, spec = _parted(options)
    parameters = _parameters(kind, metric, recall_target, **spec)
    subject = IndexSubject.of(spark, table, **place)
    return _make(subject, column, parameters, retrain=True, chooses=kind is None)


@known_arguments(IndexOptions)
@heard_as("index.build_if_missing")
def build_if_missing(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    kind: str | None = None,
    metric: str = "cosine",
    recall_target: float | None = None,
    **options: Unpack[IndexOptions],
) -> IndexResult:
    """Make an index if there is none; otherwise refresh it.

    Args:
        spark: As for `create`.
        table: As for `create`.
        column: As for `create`.
        kind: As for `create`; None takes the kind of an index that there is for the metric.
        metric: As for `create`.
        recall_target: As for `create`.
        options: As for `create`; `kind`, `metric` and those of `IndexSpec` are used only if the index is made.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        MissingDependencyError: The kind needs faiss, which is not installed.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
    """
    place, spec = _parted(options)
    parameters = _parameters(kind, metric, recall_target, **spec)
    subject = IndexSubject.of(spark, table, **place)
    return _make(subject, column, parameters, retrain=False, chooses=kind is None)


@known_arguments(IndexSource)
@heard_as("index.refresh")
def refresh(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    kind: str | None = None,
    metric: str | None = None,
    deep: bool = False,
    **place: Unpack[IndexSource],
) -> IndexResult:
    """Make the segments that an index lacks: those of new base files, and those that were lost or damaged.

    Without `deep` only the lengths of existing segments are checked, and a segment whose length has changed is made
    again. With ``deep=True`` the executors read all segments, and those with damaged content are made again too.

    Args:
        spark: As for `create`.
        table: As for `create`.
        column: As for `create`.
        kind: The kind of the index, if the column has several indexes.
        metric: The metric of the index, if the column has several indexes.
        deep: Whether to read all segments to find damaged ones.
        place: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`.

    Returns:
        What was made.

    Raises:
        InvalidArgumentError: The column has no such index, or several of which none was named.
        InvalidTypeError: ``deep`` is neither true nor false.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> refreshed = hv.index.refresh(spark, "products", "embedding")
    """
    if not isinstance(deep, bool):
        raise InvalidTypeError(f"deep must be true or false, not {deep!r}")
    subject = IndexSubject.of(spark, table, **place)
    return _run(
        subject,
        column,
        lambda at: refresh_index(at.snapshot, at.spec, the_index(at, kind, metric), at.each, deep=deep),
    )


@known_arguments(IndexSource)
@heard_as("index.describe")
def describe(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    **place: Unpack[IndexSource],
) -> Listed[IndexDescription]:
    """List the indexes of a table, and how much of its newest snapshot they cover.

    Args:
        spark: As for `create`.
        table: The name or path of a Hudi table.
        column: List only the indexes of this column; those of all columns by default.
        place: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`.

    Returns:
        One description per index, ordered by column, metric and kind.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> [index.column for index in hv.index.describe(spark, "products")]
        ['embedding']
    """
    subject = IndexSubject.of(spark, table, **place)
    snapshot, found = subject.indexes(column)
    return Listed(_described(index, snapshot) for index in found)


@known_arguments(IndexSource)
@heard_as("index.drop")
def drop(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    kind: str | None = None,
    metric: str | None = None,
    **place: Unpack[IndexSource],
) -> Listed[IndexDescription]:
    """Remove indexes of a column; searches then scan the table's files.

    If it is killed, run it again: the second run removes the files that the first one left.

    Args:
        spark: As for `create`.
        table: The name or path of a Hudi table.
        column: The vector column.
        kind: Remove only indexes of this kind.
        metric: Remove only indexes for this metric.
        place: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`.

    Returns:
        The descriptions of the indexes that were removed.

    Raises:
        TableNotFoundError: There is no such table.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> dropped = hv.index.drop(spark, "products", "embedding")
    """
    subject = IndexSubject.of(spark, table, **place)
    snapshot, homes = subject.homes(as_text(column, "column"))
    gone = Listed(_described(index, snapshot) for index in chosen(indexes_in(homes, snapshot), kind, metric))
    for going in chosen_places(homes, kind, metric, snapshot.source.options):
        drop_index(going, snapshot.source.options)
    return gone


def _make(subject: IndexSubject, column: Any, parameters: Parameters, *, retrain: bool, chooses: bool) -> IndexResult:
    """Make an index with these settings, of a kind that suits the table if it `chooses`."""

    def made(at: Place) -> Index:
        known = at.snapshot, at.spec
        suited = of_usual_kind(*known, parameters, at.each, retrain, at.homes[0]) if chooses else parameters
        return create_index(*known, suited, at.each, retrain, at.homes[0])

    return _run(subject, column, made)


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
        covered_rows=sum(entry.rows for entry in manifest.entries),
        bytes=sum(entry.bytes for entry in manifest.entries),
        seconds=round(time.monotonic() - begun, 3),
        proposal=_proposal(manifest, [entry for _, entry in index.covered(indexable_files(at.snapshot))]),
        advice=_advice(
            sum(entry.rows for entry in manifest.entries) * manifest.dimension * 4,
            manifest.parameters.get("recall_target"),
            index.folder,
        ),
    )


def _advice(size: int, recall_target: float | None, folder: str) -> str:
    """Return why an index of vectors of so many bytes is hardly worth having; empty if it is, or on an object store."""
    if scheme_of(folder) != "file":
        return ""
    few = f"the vectors have {size / (1 << 20):.1f} MiB: below about"
    if size < _FEW_BYTES:
        return f"{few} {_FEW_BYTES >> 20} MiB searches are as fast without an index"
    if size < _MANY_BYTES and recall_target in (None, 1.0):
        return (
            f"{few} {_MANY_BYTES >> 20} MiB exact searches are as fast without an index; those with a recall target, "
            "such as recall_target=0.95, are several times faster with it"
        )
    return ""


def _parted(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of `IndexSource` and those of `IndexSpec`."""
    place = {name: value for name, value in options.items() if name in IndexSource.__annotations__}
    return place, {name: value for name, value in options.items() if name in IndexSpec.__annotations__}


def _parameters(kind: Any, metric: Any, recall_target: Any, *, sample: Any = None, **numbers: Any) -> Parameters:
    """Return the parameters of an index; raise InvalidTypeError if one of `numbers` is not a whole number."""
    for name, count in numbers.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise InvalidTypeError(f"{name} must be a whole number, not {count!r}")
    return Parameters(
        kind=as_text(kind, "kind", allow_null=True) or Parameters.kind,
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
    """Return why the index should be made again, or "" if there is no reason to."""
    now = mean_quality((entry.rows, entry.quality) for entry in entries)
    clipped, rows = sum(entry.clipped for entry in entries), sum(entry.rows for entry in entries)
    return retraining(manifest.kind, manifest.trained, now, clipped, rows)
