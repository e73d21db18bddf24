"""Checks of an index: its recall compared with exact search, and whether its files are whole."""

from __future__ import annotations

import math
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hudi_vector.arguments import as_count, as_k, as_share, known_arguments
from hudi_vector.errors import (
    DataFileError,
    HudiVectorError,
    InvalidArgumentError,
    InvalidTypeError,
    RefusedError,
    UnsupportedTableError,
)
from hudi_vector.events import heard_as
from hudi_vector.index.build import indexable_files
from hudi_vector.index.calibration.held_out import sampled_vectors
from hudi_vector.index.catalog import Index
from hudi_vector.index.files import load_model
from hudi_vector.index.kinds.model import IndexModel
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.index.packs.stored import packs_of, read_segments
from hudi_vector.index.recall_history import note_recall
from hudi_vector.index.verified import is_as_indexed
from hudi_vector.query.tuning import Tuning
from hudi_vector.shown import Listed, Shown
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.parallel import within_memory
from hudi_vector.table_services.vector_index.places import IndexSource, IndexSubject, the_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Unpack

    from hudi_vector.options import Settings

__all__ = ["IndexProblem", "RecallResult", "recall", "verify"]

_USUAL_SAMPLE = 100
_REMEDY = "; hudi_vector.index.refresh(…, deep=True), as a command with --deep, makes it again"


@dataclass(frozen=True, repr=False)
class RecallResult(Shown):
    """The recall and the latency of searches with an index.

    Attributes:
        column: The vector column.
        kind: The kind of index.
        metric: The metric of the index.
        k: The number of rows that each search wanted.
        queries: The number of searches; each query is a vector of the table.
        recall: The share of the true nearest rows that were found; the query's own row does not count.
        milliseconds: The median time of one search with the index.
        exact_milliseconds: The median time of the same search without the index.
        measured_ms: When this was measured, milliseconds since 1970.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> measured = hv.index.recall(spark, "products", "embedding")
        >>> measured.kind, measured.metric
        ('ivf_sq8', 'cosine')
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


@dataclass(frozen=True, repr=False)
class IndexProblem(Shown):
    """A problem of an index.

    Attributes:
        file: The path of the base file; empty for a problem of the model.
        segment: The name of the segment, or the id of the model.
        problem: What is wrong.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> [problem.file for problem in hv.index.verify(spark, "products", "embedding")]
        []
    """

    file: str
    segment: str
    problem: str


@known_arguments(IndexSource)
@heard_as("index.recall")
def recall(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    k: int = 10,
    kind: str | None = None,
    metric: str | None = None,
    recall_target: float | None = None,
    sample: int = _USUAL_SAMPLE,
    at_least: float | None = None,
    **place: Unpack[IndexSource],
) -> RecallResult:
    """Measure the recall and the latency of an index compared with exact search, and store both in the index's history.

    The queries are vectors of rows of the table. A graph (`hnsw`) finds the neighbours of rows that it holds by links,
    so other queries may find somewhat less; recall targets hold for these too, as they are calibrated without these
    links.

    Args:
        spark: As for `create`.
        table: The name or path of a Hudi table.
        column: The vector column.
        k: The number of rows that each search wants.
        kind: The kind of the index, if the column has several indexes.
        metric: The metric of the index, if the column has several indexes.
        recall_target: The recall target of the searches; by default that of the session, that of the index, or 0.95.
        sample: The number of vectors of the table that are used as queries.
        at_least: Raise RefusedError if the recall is below this value, so that a scheduled job fails; the measurement
            is stored all the same.
        place: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`.

    Returns:
        The measured recall and latencies.

    Raises:
        RefusedError: The recall is below ``at_least``.
        InvalidArgumentError: There is no such index, or it covers no vector.

    Example:
        >>> hv.index.build_if_missing(spark, "products", "embedding")  # doctest: +ELLIPSIS
        IndexResult...
        >>> hv.index.recall(spark, "products", "embedding", at_least=0.9).recall > 0.9
        True
    """
    k, asking = as_k(k), as_count(sample, "sample", 2) or _USUAL_SAMPLE
    if at_least is not None and not isinstance(at_least, (int, float)):
        raise InvalidTypeError(f"at_least must be a number, not {at_least!r}")
    if at_least is not None and math.isnan(at_least):
        raise InvalidArgumentError("at_least must be a number, not NaN: no recall is below that")
    wanted = Tuning("approximate", recall_target=as_share(recall_target, "recall_target"))
    subject = IndexSubject.of(spark, table, **place)
    at = subject.place(column)
    index = the_index(at, kind, metric)
    queries = sampled_vectors(index, indexable_files(at.snapshot), at.spec, asking)
    if len(queries) < 2:
        raise InvalidArgumentError(f"the index of '{at.spec.column.name}' covers no vectors; refresh it first")
    wanted = replace(wanted, algorithm=index.manifest.kind)
    found, seconds = subject.answers(at, index, queries, k + 1, wanted)
    truth, exact = subject.answers(at, index, queries, k + 1, Tuning("exact"))
    if min(len(true) for true in truth) < 2:
        raise InvalidArgumentError(f"'{at.spec.column.name}' has fewer than two rows with a vector; add rows")
    # Rows are compared by distance, so that ties with the last true row count; the nearest row is the query's own.
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
    note_recall(index, asdict(result), at.spec.options)
    if at_least is not None and result.recall < at_least:
        raise RefusedError(
            f"the index of '{known.column}' for {known.metric} finds {result.recall:.3f} of the nearest rows, and "
            f"{at_least} were wanted; raise the recall target, or make the index again"
        )
    return result


@known_arguments(IndexSource)
@heard_as("index.verify")
def verify(
    spark: SparkSession | Settings | None,
    table: str | os.PathLike[str] | None = None,
    column: str | None = None,
    *,
    kind: str | None = None,
    metric: str | None = None,
    **place: Unpack[IndexSource],
) -> Listed[IndexProblem]:
    """Read every file of an index, and compare the base files with what the index was made of.

    Segments of base files that Hudi has cleaned are ignored.

    Args:
        spark: As for `create`.
        table: The name or path of a Hudi table.
        column: The vector column.
        kind: The kind of the index, if the column has several indexes.
        metric: The metric of the index, if the column has several indexes.
        place: `files`, `delta`, `directory` and `storage_options`, instead of a table: see `IndexSource`.

    Returns:
        The problems that were found; an empty list if there are none. Searches scan the files that have a problem, and
        `refresh` with ``deep=True`` makes damaged segments of the newest snapshot again.

    Raises:
        InvalidArgumentError: There is no such index.

    Example:
        >>> made = hv.index.build_if_missing(spark, "products", "embedding")
        >>> hv.index.verify(spark, "products", "embedding")
        []
    """
    subject = IndexSubject.of(spark, table, **place)
    at = subject.place(column)
    index = the_index(at, kind, metric)
    storage = open_storage(index.folder, at.spec.options)
    try:
        model = load_model(storage, index.folder, index.manifest.model_id)
    except HudiVectorError as problem:
        remedy = "make the index again with hudi_vector.index.create"
        return Listed([IndexProblem("", index.manifest.model_id, f"{problem}; {remedy}")])
    files = indexable_files(at.snapshot)
    listed, mended = {file.uri: file for file in files}, {entry.file.path for _, entry in index.covered(files)}
    singly = ([entry] for entry in index.manifest.entries if entry.pack is None)
    groups = [*packs_of(index.manifest.entries).values(), *singly]
    largest = max((_bytes_of(group) for group in groups), default=0)
    found = storage.each(
        lambda group: _problems(index, model, group, listed, mended, at.spec.options), groups, within_memory(largest)
    )
    return Listed(sorted((each for problems in found for each in problems), key=lambda problem: problem.file))


def _bytes_of(group: Sequence[ManifestEntry]) -> int:
    """Return the bytes of the file in which the segments of a group lie."""
    pack = group[0].pack
    return group[0].bytes if pack is None else pack.bytes


def _problems(
    index: Index,
    model: IndexModel,
    group: Sequence[ManifestEntry],
    listed: Mapping[str, FileInfo],
    mended: Container[str],
    options: StorageOptions,
) -> list[IndexProblem]:
    """Read the segments of one pack, or a single one, and return what is wrong with them and their base files.

    `listed` are the base files of the newest snapshot by URI. `mended` are the paths of those whose segments `refresh`
    makes again.
    """
    storage, found = open_storage(index.folder, options), []
    read, rewritten = storage.together(
        lambda: read_segments(storage, index.folder, model, group),
        lambda: storage.each(lambda entry: _was_rewritten(index, entry, listed, options), group),
    )
    for entry, was_rewritten in zip(group, rewritten, strict=True):
        one, path = read[entry.segment], entry.file.path
        if isinstance(one, DataFileError):
            found.append(IndexProblem(path, entry.segment, f"{one}{_REMEDY if path in mended else ''}"))
        elif isinstance(one, UnsupportedTableError):
            found.append(IndexProblem(path, entry.segment, str(one)))
        elif was_rewritten:
            found.append(IndexProblem(path, entry.segment, "the base file was rewritten since it was indexed"))
    return found


def _was_rewritten(index: Index, entry: ManifestEntry, listed: Mapping[str, FileInfo], options: StorageOptions) -> bool:
    uri = index.uri_of(entry.file.path)
    file = listed.get(uri) or open_storage(uri, options).info(uri)
    return file is not None and not is_as_indexed(file, entry, options)
