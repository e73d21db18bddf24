"""A stream of the changes that each commit of a table makes to the nearest rows of fixed queries."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hudi_vector import options
from hudi_vector.arguments import as_count, as_text, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.query.changes.task import ON_GAP, Noted, WatchTask
from hudi_vector.query.opened.request import Asked, as_queries, require_readable
from hudi_vector.query.tuning import Tuning
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.spark.resolve import resolve_name, storage_options
from hudi_vector.spark.snapshots import writers_zone
from hudi_vector.storage import join, normalise, open_storage, path_text
from hudi_vector.storage.records import Record
from hudi_vector.table.instants import as_timeline_time, parse_as_of
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import parse_layout_2

__all__ = ["watch_search"]

_SCHEMA = (
    "instant STRING, completed STRING, query LONG, change STRING, _hoodie_record_key STRING, "
    "_hoodie_partition_path STRING, from_rank INT, to_rank INT, from_distance DOUBLE, to_distance DOUBLE, "
    "computed STRING"
)
_ARROW = pa.schema(
    [
        ("instant", pa.string()),
        ("completed", pa.string()),
        ("query", pa.int64()),
        ("change", pa.string()),
        ("_hoodie_record_key", pa.string()),
        ("_hoodie_partition_path", pa.string()),
        ("from_rank", pa.int32()),
        ("to_rank", pa.int32()),
        ("from_distance", pa.float64()),
        ("to_distance", pa.float64()),
        ("computed", pa.string()),
    ]
)
_FILES = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
_COMPLETED = "*_*.{commit,deltacommit,replacecommit,restore}"
_EARLIEST = "earliest"
_FOLDER = "hudi_vector_watch"
# Spark ignores files older than maxFileAge; commits may be rare, so the limit is set to 100 years.
_FOREVER = "36500d"


@dataclass(frozen=True)
class _Start:
    """The content of a side file: the completion time after which commits are reported, empty for all."""

    completed: str


_START = Record("watch-start", 1, _Start)


@known_arguments()
def watch_search(
    spark: SparkSession,
    table: str | os.PathLike[str],
    column: str,
    queries: Any,
    k: int = 10,
    *,
    start: Any = None,
    checkpoint: str | None = None,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    max_distance: float | None = None,
    on_gap: str = "fail",
    unchanged: bool = False,
    commits_per_batch: int | None = None,
) -> DataFrame:
    """Return a stream of the changes that each commit of a table makes to the k nearest rows of fixed queries.

    Args:
        spark: A registered session.
        table: A catalog name or path of a Hudi table of version 8 or newer.
        column: A VECTOR column, or an array of FLOAT, DOUBLE or TINYINT.
        queries: An array of shape (queries, dimension).
        k: The number of rows for each query, 1 to 100,000.
        start: Report the commits that completed after this point: an instant of the timeline, a timestamp, or
            ``"earliest"`` for all commits that are still on the timeline. Give the same value again when the stream is
            restarted from its checkpoint.
        checkpoint: The query's checkpoint location. The start, by default the table's current state, is stored there
            and read from there when the stream is restarted.
        metric: ``"cosine"``, ``"l2"`` or ``"dot_product"``, or an alias of one.
        filter: A condition over the table's columns in the dialect of `hudi_vector.read.predicate.parse`.
        max_distance: The largest distance to return, inclusive.
        on_gap: The handling of a commit whose changes can no longer be computed, because earlier files or instants are
            gone or the table was restored: ``"fail"``, or ``"snapshot"`` to return the whole rankings instead of
            changes.
        unchanged: Whether to return a row also for each query that a commit did not change.
        commits_per_batch: The largest number of commits in a micro-batch.

    Returns:
        A streaming DataFrame with a row for each change: ``instant`` and ``completed``, the commit's times; ``query``,
        the row number in ``queries``; ``change``: ``entered``, ``left``, ``moved`` (to another rank or distance),
        ``unchanged`` or ``snapshot``; the record key and partition path; ``from_rank``, ``to_rank`` (from 1),
        ``from_distance``, ``to_distance``; ``computed``: ``changed files``, or ``search`` if a row of an unchanged file
        might have entered, so that the query was searched again.

    Raises:
        InvalidArgumentError: Neither start nor checkpoint is given, or another argument is not allowed.
        UnsupportedTableError: The table has an older version, stores no record keys, or can only be read by Spark.

    Example:
        >>> changes = hv.watch_search(spark, "products", "embedding", Q, 10, checkpoint="/tmp/watched")
        >>> query = changes.writeStream.option("checkpointLocation", "/tmp/watched").toTable("ranking")
    """
    name = as_text(path_text(table), "table") or ""
    source = resolve_name(spark, name).table()
    opened = NativeTable(source)
    if not opened.config.layout.keeps_completion_times:
        raise UnsupportedTableError(
            f"'{table}' is of table version {opened.config.version}, whose timeline keeps no completion times; a watch "
            "needs version 8 or newer: upgrade the table"
        )
    if not opened.config.populates_meta_fields:
        raise UnsupportedTableError(f"'{table}' keeps no record keys in its rows, so that they cannot be told apart")
    conf = {options.LOCAL_THREADS.key: "1"}
    asked = Asked.of(
        name, column, as_queries(queries), k, metric, filter, max_distance, None, conf, "UTC", Tuning(mode="exact")
    )
    if not len(asked.vectors):
        raise InvalidArgumentError("queries holds no query; give an array of shape (queries, dimension)")
    if on_gap not in ON_GAP:
        raise InvalidArgumentError(f"unknown on_gap {on_gap!r}; give {' or '.join(ON_GAP)}")
    if not isinstance(unchanged, bool):
        raise InvalidTypeError(f"unchanged must be true or false, not {unchanged!r}")
    require_readable(asked.plan(opened.snapshot(), ()))
    begin = _begin(spark, opened, start, checkpoint)
    task = WatchTask(source, asked, begin, on_gap, unchanged, uuid.uuid4().hex)
    files = spark.readStream.format("binaryFile").schema(_FILES).option("pathGlobFilter", _COMPLETED)
    files = files.option("maxFileAge", _FOREVER).option("ignoreMissingFiles", "true")
    most = as_count(commits_per_batch, "commits_per_batch")
    if most is not None:
        files = files.option("maxFilesPerTrigger", most)
    folder = opened.config.layout.folder(source.hadoop_path.rstrip("/"))
    return files.load(folder).select("path").mapInArrow(_stage(task), _SCHEMA)


def _begin(spark: SparkSession, table: NativeTable, start: Any, checkpoint: str | None) -> str:
    """Return the completion time after which commits are reported, "" for all.

    With a checkpoint, the time is read from there, or computed and stored there. Raises InvalidArgumentError if neither
    a start nor a checkpoint is given.
    """
    if checkpoint is None:
        if start is None:
            raise InvalidArgumentError(
                "start is missing: give an instant, a timestamp or 'earliest', or the query's checkpoint, in which the "
                "start is noted"
            )
        return _completed(spark, table, start)
    uri = normalise(as_text(path_text(checkpoint), "checkpoint") or "")
    storage, folder = open_storage(uri, storage_options(spark, uri)), join(uri, _FOLDER)
    noted = _START.newest(storage, folder)
    if noted is not None:
        return noted.value().completed
    begin = table.timeline().watermark or "" if start is None else _completed(spark, table, start)
    _START.publish(storage, folder, _Start(begin), 0)
    return begin


def _completed(spark: SparkSession, table: NativeTable, start: Any) -> str:
    if isinstance(start, str) and start.strip().lower() == _EARLIEST:
        return ""
    point = parse_as_of(start, str(spark.conf.get("spark.sql.session.timeZone")))
    if point.epoch_micros is not None:
        return as_timeline_time(point.epoch_micros, table.timeline_zone(writers_zone(spark)))
    found = [entry.completed for entry in table.timeline().commits if entry.requested.startswith(point.instant or "")]
    if not found:
        raise InvalidArgumentError(
            f"start = '{start}' is no completed commit of '{table.source.name}'; give one that the timeline still has, "
            "a timestamp or 'earliest'"
        )
    return max(found)


def _stage(task: WatchTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = [str(path).rpartition("/")[2] for path in batch.column(0).to_pylist()]
            for instant in sorted(parse_layout_2(names).completed, key=lambda entry: entry.completed):
                with in_few_words():
                    yield _rows(list(task.changes(instant)))

    return run


def _rows(noted: list[Noted]) -> pa.RecordBatch:
    columns = [
        [n.instant.requested for n in noted],
        [n.instant.completed for n in noted],
        [n.query for n in noted],
        [n.change for n in noted],
        [n.key for n in noted],
        [n.partition for n in noted],
        [n.from_rank for n in noted],
        [n.to_rank for n in noted],
        [n.from_distance for n in noted],
        [n.to_distance for n in noted],
        [n.computed for n in noted],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
