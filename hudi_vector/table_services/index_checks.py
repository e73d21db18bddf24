"""What an index is worth: its recall against exact search, whether its files are whole, and what can go."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hudi_vector.blobs.leases import clock_ms
from hudi_vector.errors import HudiVectorError, InvalidArgumentError, InvalidTypeError, RefusedError
from hudi_vector.index.build import indexable_files
from hudi_vector.index.catalog import Index
from hudi_vector.index.files import fingerprint_of, load_model, load_segment
from hudi_vector.index.manifest import publish_manifest
from hudi_vector.index.truth import sampled_vectors
from hudi_vector.options import parse_duration
from hudi_vector.search.checks import as_count, as_k, as_share
from hudi_vector.search.tuning import Tuning
from hudi_vector.storage import join, open_storage
from hudi_vector.storage.side_files import generation_of, is_side_file, newest, publish
from hudi_vector.table_services.vector_index import Place, place_of, the_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.kernels.metrics import Floats

__all__ = ["IndexProblem", "RecallResult", "compact", "recall", "verify"]

_HISTORY = "index-recall"
_VERSION = 1
_USUAL_SAMPLE = 100


@dataclass(frozen=True)
class RecallResult:
    """How much of the truth searches by an index find, and how long they take.

    Attributes:
        column: The vector column.
        kind: The kind of index.
        metric: Its metric.
        k: How many rows each search wanted.
        queries: How many searches there were, for vectors of the table.
        recall: The share of the true nearest rows that were found; the row that asked does not count.
        milliseconds: The median time of one search by the index.
        exact_milliseconds: The median time of the same search without it.
        measured_ms: When, in milliseconds since 1970.
    """

    column: str
    kind: str
    metric: str
    k: int
    queries: int
    recall: float
    milliseconds: float
    exact_milliseconds: float
    measured_ms: int


@dataclass(frozen=True)
class IndexProblem:
    """Something wrong with an index: the base file and the segment, and what it is."""

    file: str
    segment: str
    problem: str


def recall(
    spark: SparkSession,
    table: str,
    column: str,
    *,
    k: int = 10,
    sample: int = _USUAL_SAMPLE,
    recall_target: float | None = None,
    at_least: float | None = None,
    kind: str | None = None,
    metric: str | None = None,
) -> RecallResult:
    """Measure the recall and the latency of an index against exact search, and keep both in its history.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: The vector column.
        k: How many rows each search wants.
        sample: How many vectors of the table ask.
        recall_target: What the searches aim at; the session's, the index's or 0.95 by default.
        at_least: Refuse, after it was noted, where the recall is below this: a scheduled job then fails.
        kind: Which index, where the column has several.
        metric: Which index, where the column has several.

    Returns:
        What was measured.

    Raises:
        RefusedError: The recall is below ``at_least``.
        InvalidArgumentError: There is no such index, or no vector in it.

    Example:
        >>> hv.index.recall(spark, "products", "embedding", at_least=0.9).recall  # doctest: +SKIP
    """
    k, asking = as_k(k), as_count(sample, "sample", 2) or _USUAL_SAMPLE
    if at_least is not None and not isinstance(at_least, (int, float)):
        raise InvalidTypeError(f"at_least must be a number, not {at_least!r}")
    wanted = Tuning("approximate", recall_target=as_share(recall_target, "recall_target"))
    at = place_of(spark, table, column)
    index = the_index(at, kind, metric)
    queries = sampled_vectors(index, indexable_files(at.snapshot), at.spec, asking)
    if len(queries) < 2:
        raise InvalidArgumentError(f"the index of '{at.spec.column.name}' covers no vectors; refresh it first")
    wanted = replace(wanted, algorithm=index.manifest.kind)
    found, seconds = _answers(spark, table, index, queries, k + 1, wanted)
    truth, exact = _answers(spark, table, index, queries, k + 1, Tuning("exact"))
    # By distance, so that rows as near as the last true one count as well; the nearest is the row that asked.
    shares = [float((got[1:] <= true[-1]).sum()) / len(true[1:]) for got, true in zip(found, truth, strict=True)]
    known = index.manifest
    result = RecallResult(
        column=known.column,
        kind=known.kind,
        metric=known.metric,
        k=k,
        queries=len(queries),
        recall=float(np.mean(shares)),
        milliseconds=round(1000 * float(np.median(seconds)), 3),
        exact_milliseconds=round(1000 * float(np.median(exact)), 3),
        measured_ms=clock_ms(),
    )
    _note(index, at, result)
    if at_least is not None and result.recall < at_least:
        raise RefusedError(
            f"the index of '{known.column}' for {known.metric} finds {result.recall:.3f} of the nearest rows, and "
            f"{at_least} were wanted; raise the recall target, or make the index anew"
        )
    return result


def verify(
    spark: SparkSession, table: str, column: str, *, kind: str | None = None, metric: str | None = None
) -> list[IndexProblem]:
    """Read every file of an index, and compare what it was made of with what is there.

    Base files that Hudi has cleaned are no problem: their segments answer for nobody.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: The vector column.
        kind: Which index, where the column has several.
        metric: Which index, where the column has several.

    Returns:
        What is wrong; nothing if all is well. Searches scan what a problem concerns.

    Raises:
        InvalidArgumentError: There is no such index.

    Example:
        >>> hv.index.verify(spark, "products", "embedding")  # doctest: +SKIP
        []
    """
    at = place_of(spark, table, column)
    index = the_index(at, kind, metric)
    storage = open_storage(index.folder, at.spec.options)
    try:
        model = load_model(storage, index.folder, index.manifest.model_id)
    except HudiVectorError as problem:
        return [IndexProblem("", index.manifest.model_id, str(problem))]
    found = []
    for path, entry in sorted(index.entries.items()):
        try:
            load_segment(storage, index.folder, entry.segment, model, entry.file)
            file = storage.info(join(at.spec.table_uri, path))
            if file is not None and fingerprint_of(storage, at.spec.table_uri, file) != entry.file:
                found.append(IndexProblem(path, entry.segment, "the base file was written anew since it was indexed"))
        except HudiVectorError as problem:
            found.append(IndexProblem(path, entry.segment, str(problem)))
    return found


def compact(
    spark: SparkSession,
    table: str,
    column: str,
    *,
    grace: str = "24h",
    kind: str | None = None,
    metric: str | None = None,
) -> list[str]:
    """Drop the segments of base files that are gone, and delete files that no manifest names any more.

    Args:
        spark: A registered session.
        table: The name or path of a Hudi table.
        column: The vector column.
        grace: How old a file that is not needed must be: searches that began before may still read it.
        kind: Which index, where the column has several.
        metric: Which index, where the column has several.

    Returns:
        The files that were deleted, from the index's folder.

    Raises:
        InvalidArgumentError: There is no such index, or the grace is no duration.

    Example:
        >>> hv.index.compact(spark, "products", "embedding")  # doctest: +SKIP
    """
    window = parse_duration(grace) if isinstance(grace, str) else None
    if window is None:
        raise InvalidArgumentError(f"grace = {grace!r} is not allowed: give a duration such as '90s', '24h' or '7d'")
    at = place_of(spark, table, column)
    index = the_index(at, kind, metric)
    storage = open_storage(index.folder, at.spec.options)
    there = [entry for path, entry in index.entries.items() if storage.info(join(at.spec.table_uri, path)) is not None]
    manifest = index.manifest
    if len(there) < len(manifest.entries):
        manifest = publish_manifest(storage, index.folder, replace(manifest, entries=tuple(there)))
    needed = {f"{manifest.model_id}.arrow", *(entry.segment for entry in there)}
    gone = []
    for part in ("manifests", "models", "segments"):
        for file in storage.list_files(join(index.folder, part)):
            newest_one = is_side_file(file.name) and generation_of(file.name) >= manifest.generation
            old = file.mtime_ns // 1_000_000 < clock_ms() - window
            if file.name not in needed and not newest_one and old and storage.delete(file.uri):
                gone.append(f"{part}/{file.name}")
    return gone


def _answers(
    spark: SparkSession, table: str, index: Index, queries: Floats, k: int, tuning: Tuning
) -> tuple[list[Floats], list[float]]:
    """The distances each query found, ascending, and the seconds it took."""
    from hudi_vector.spark.resolve import resolve_name
    from hudi_vector.spark.table_functions import checked_search

    known = index.manifest
    search = checked_search(
        spark, resolve_name(spark, table), known.column, known.dimension, k=k, metric=known.metric, tuning=tuning
    )
    search.run(queries[:1], [])  # pays for what is read once
    found, seconds = [], []
    for query in queries:
        begun = time.perf_counter()
        found.append(search.run(query[None, :], []).distance)
        seconds.append(time.perf_counter() - begun)
    return found, seconds


def _note(index: Index, at: Place, result: RecallResult) -> None:
    storage, folder = open_storage(index.folder, at.spec.options), join(index.folder, "recall")
    last = newest(storage, folder, _HISTORY, _VERSION)
    generation = 1 + generation_of(last[0]) if last else 0
    publish(storage, folder, _HISTORY, _VERSION, generation, asdict(result))
