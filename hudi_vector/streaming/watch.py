"""A stream of the changes that each commit of a table makes to the nearest rows of fixed queries."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from hudi_vector import options
from hudi_vector.arguments import as_count, as_text, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.query.changes.task import ON_GAP, WatchTask
from hudi_vector.query.opened.request import Asked, as_queries, require_readable
from hudi_vector.query.tuning import Tuning
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.spark.resolve import resolve_name, storage_options
from hudi_vector.spark.search.changes import CHANGE_SCHEMA
from hudi_vector.spark.snapshots import writers_zone
from hudi_vector.storage import join, normalise, open_storage, path_text
from hudi_vector.storage.records import Record
from hudi_vector.table.instants import as_timeline_time, parse_as_of
from hudi_vector.table.native import NativeTable
from hudi_vector.table.timeline import parse_layout_2

__all__ = ["watch_search"]

_SCHEMA = f"instant STRING, completed STRING, query LONG, {CHANGE_SCHEMA}, computed STRING"
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
    name = as_text(path_text(table), "table")
    source = resolve_name(spark, name).table()
    opened = NativeTable(source)
    _require_watchable(opened)
    if on_gap not in ON_GAP:
        raise InvalidArgumentError(f"unknown on_gap {on_gap!r}; give {' or '.join(ON_GAP)}")
    if not isinstance(unchanged, bool):
        raise InvalidTypeError(f"unchanged must be true or false, not {unchanged!r}")
    most = as_count(commits_per_batch, "commits_per_batch")
    conf, tuning = {options.LOCAL_THREADS.key: "1"}, Tuning(mode="exact")
    asked = Asked.of(name, column, as_queries(queries), k, metric, filter, max_distance, None, conf, "UTC", tuning)
    if not len(asked.vectors):
        raise InvalidArgumentError("queries holds no query; give an array of shape (queries, dimension)")
    require_readable(asked.plan(opened.snapshot(), ()))
    begin = _begin(spark, opened, start, checkpoint)
    task = WatchTask(source, asked, begin, on_gap, unchanged, uuid.uuid4().hex)
    listed = {"pathGlobFilter": _COMPLETED, "maxFileAge": _FOREVER, "ignoreMissingFiles": "true"}
    if most is not None:
        listed["maxFilesPerTrigger"] = str(most)
    folder = opened.config.layout.folder(source.hadoop_path.rstrip("/"))
    files = spark.readStream.format("binaryFile").schema(_FILES).options(**listed).load(folder)
    schema = spark.createDataFrame([], _SCHEMA).schema
    return map_in_arrow(files.select("path"), _stage(task, to_arrow_schema(schema)), schema)


def _require_watchable(table: NativeTable) -> None:
    """Raise UnsupportedTableError if a table has no completion times or no record keys."""
    name, config = table.source.name, table.config
    if not config.layout.keeps_completion_times:
        raise UnsupportedTableError(
            f"'{name}' is of table version {config.version}, whose timeline keeps no completion times; a watch needs "
            "version 8 or newer: upgrade the table"
        )
    if not config.populates_meta_fields:
        raise UnsupportedTableError(f"'{name}' keeps no record keys in its rows, so that a watch cannot name rows")


def _begin(spark: SparkSession, table: NativeTable, start: Any, checkpoint: str | None) -> str:
    """Return the completion time after which commits are reported, "" for all.

    With a checkpoint, the time is read from there, or computed and stored there. Raises InvalidArgumentError if neither
    a start nor a checkpoint is given.
    """
    if checkpoint is None:
        if start is None:
            raise InvalidArgumentError(
                "start is missing: give an instant, a timestamp or 'earliest', or the query's checkpoint, in which the "
                "start is stored"
            )
        return _completed(spark, table, start)
    uri = normalise(as_text(path_text(checkpoint), "checkpoint"))
    storage, folder = open_storage(uri, storage_options(spark, uri)), join(uri, _FOLDER)
    stored = _START.newest(storage, folder)
    if stored is not None:
        return stored.value().completed
    begin = table.timeline().watermark or "" if start is None else _completed(spark, table, start)
    _START.publish(storage, folder, _Start(begin), 0)
    return begin


def _completed(spark: SparkSession, table: NativeTable, start: Any) -> str:
    """Return the completion time of a start, "" for the earliest."""
    if isinstance(start, str) and start.strip().lower() == _EARLIEST:
        return ""
    point = parse_as_of(start, str(spark.conf.get("spark.sql.session.timeZone")))
    if point.epoch_micros is not None:
        return as_timeline_time(point.epoch_micros, table.timeline_zone(writers_zone(spark)))
    found = [entry.completed for entry in table.timeline().commits if entry.requested.startswith(point.given)]
    if not found:
        raise InvalidArgumentError(
            f"start = '{start}' is no completed commit of '{table.source.name}'; give one that the timeline still has, "
            "a timestamp or 'earliest'"
        )
    return max(found)


def _stage(task: WatchTask, schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the stage that turns paths of completed instants into changes, with the columns of `schema`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = [path.rpartition("/")[2] for path in batch.column(0).to_pylist()]
            for instant in sorted(parse_layout_2(names).completed, key=lambda entry: entry.completed):
                with in_few_words():
                    rows = list(task.changes(instant))
                if rows:
                    arrays = map(pa.array, zip(*rows, strict=True), schema.types)
                    yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)

    return run
