"""Vector search for the rows of a DataFrame, in Structured Streaming or in a batch."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import as_k, as_text, checked_names, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, kind_of
from hudi_vector.query.asking.task import AskingTask
from hudi_vector.query.grouping.arguments import most_found
from hudi_vector.query.planner import SearchRequest
from hudi_vector.query.tuning import JoinOptions, checked_tuning
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.spark.columns import vector_column
from hudi_vector.spark.search.output import columns_of, schema_of
from hudi_vector.spark.search.search import TableSearch
from hudi_vector.spark.search.table_functions import checked_search
from hudi_vector.spark.snapshots import writers_zone
from hudi_vector.streaming.asking import OUTPUT_ROWS, shown_snapshot, stage_of
from hudi_vector.streaming.config import PREFIX, StreamConfig
from hudi_vector.streaming.output import (
    CLASHES,
    JOINS,
    chosen,
    event_column,
    outputs_of,
    rowtime,
    without_watermark,
)
from hudi_vector.streaming.sides import SearchSide, search_side, with_filter
from hudi_vector.streaming.snapshots.batch_snapshots import with_moment
from hudi_vector.streaming.snapshots.event_times import EventTime
from hudi_vector.streaming.snapshots.plans import TablePlans
from hudi_vector.streaming.task import StreamFinder, StreamQueries
from hudi_vector.table.instants import Moment
from hudi_vector.table.native import NativeTable

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["one_of", "refusing", "session_of", "settings_of", "vector_search"]

_LOG = logging.getLogger("hudi_vector.streaming")


@known_arguments(JoinOptions)
def vector_search(
    stream: DataFrame,
    table: str | os.PathLike[str] | DataFrame,
    column: str,
    query_column: str,
    k: int,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    columns: Sequence[str] | None = None,
    mode: str | None = None,
    recall_target: float | None = None,
    on_time: str | None = None,
    max_distance: float | None = None,
    join_type: str = "inner",
    include_vector: bool = False,
    clash: str = "prefix",
    config: Mapping[str, Any] | None = None,
    **options: Unpack[JoinOptions],
) -> DataFrame:
    """Find the nearest rows of a Hudi table for each row of a DataFrame, streaming or not.

    Each micro-batch is searched at one snapshot, the newest at the time it is planned; new commits are visible without
    a restart.

    Args:
        stream: The asking rows. Their watermark is kept.
        table: A Hudi table by catalog name or path, a DataFrame over one, or a view that only selects columns and rows.
        column: The table's column: VECTOR, or an array of FLOAT, DOUBLE or TINYINT.
        query_column: The stream's column of query vectors, an array of FLOAT or DOUBLE. A row whose vector is NULL, or
            holds NULL, NaN or infinity, has no match.
        k: The largest number of matches for each row, 1 to 100,000.
        metric: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"``, or an alias of one.
        filter: A SQL condition on the table's rows, applied before distances; ``l.name`` is a column of the stream.
        columns: The table's columns to return; all by default.
        mode: ``"auto"``, ``"exact"`` or ``"approximate"``, as for `search`; by default the session's setting.
        recall_target: As for `search`; by default the session's setting.
        on_time: A TIMESTAMP column of the stream, with a watermark: each row is answered from the snapshot that was
            visible at its time. A row whose time is NULL, or before the first commit, has no match.
        max_distance: The largest distance to return, inclusive, in the metric's unit.
        join_type: ``"inner"``, or ``"left_outer"`` to return a row without a match once, with NULLs.
        include_vector: Whether the searched column is returned when `columns` is not given.
        clash: The renaming of table columns whose names are taken: ``"prefix"`` for ``_hudi_search_id``, ``"suffix"``
            for ``id0``.
        config: Settings for the execution of searches: see docs/how-to/stream.md.
        options: ``nprobes``, ``refine_factor``, ``timeout``, and ``group_by``, ``per_group`` and ``group_nulls``, with
            which `k` is the number of groups: see `JoinOptions`.

    Returns:
        The stream's columns, the table's columns, ``score`` (larger is nearer: for cosine 1 minus the distance, for
        dot_product the product, for l2 1 / (1 + distance)), ``_distance`` and ``_rank`` (from 1), with ``group_by``
        also ``_group_rank``. With `on_time` also ``rowtime``, the value of that column; it carries the watermark from
        there on.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: The table can only be read by Spark, or is a view that joins or computes.

    Example:
        >>> near = hv.vector_search(events, "products", "embedding", "taste", 3)
        >>> query = near.writeStream.option("checkpointLocation", "/tmp/near").toTable("near")
    """
    spark = session_of(stream)
    checked = StreamConfig.of({} if config is None else config, settings_of(spark))
    query = vector_column(stream.schema, as_text(query_column, "query_column"), "the stream", None)
    outer = one_of(join_type, "join_type", JOINS) == "left_outer"
    side = search_side(spark, table)
    search = checked_search(
        spark,
        side.target,
        as_text(column, "column"),
        query.dimension or None,
        k=as_k(k),
        metric=metric,
        max_distance=max_distance,
        tuning=checked_tuning(mode, recall_target, **options),
    )
    side = with_filter(spark, side, filter, stream.schema)
    wanted = chosen(
        side.target.schema.fields if include_vector or columns is not None else search.columns,
        checked_names(columns),
        side.target.label,
    )
    time = event_column(stream, on_time)
    outputs = outputs_of(
        without_watermark(stream.schema.fields, time),
        wanted,
        one_of(clash, "clash", CLASHES),
        outer,
        [*rowtime(time), *shown_snapshot(checked)],
        search.group_columns,
    )
    plans = _plans(search, side)
    event_time, lost = None, None
    if time is not None:
        event_time, lost = _event_time(spark, side, time.name), spark.sparkContext.accumulator(0)
    task = AskingTask(
        queries=StreamQueries(plans, query, checked, event_time, lost),
        finder=StreamFinder(plans, side.target.physical, search.tuning.grouping),
        columns=columns_of(outputs),
        schema=tuple(arrow_fields(schema_of(outputs))),
        k=most_found(plans.request.k, search.tuning.grouping),
        cache=checked.cache_memory,
        outer=outer,
        most=OUTPUT_ROWS,
    )
    refuse = refusing(plans, query.dimension or search.column.dimension or 1, lost)
    refuse(NativeTable(side.source).timeline().moment)
    rows = with_moment(spark, stream, side.source, checked, refuse)
    return map_in_arrow(rows, stage_of(task, checked), schema_of(outputs))


def _plans(search: TableSearch, side: SearchSide) -> TablePlans:
    request: SearchRequest = search.request(search.column.dimension)
    return TablePlans(
        number=uuid.uuid4().hex,
        source=side.source,
        request=replace(request, predicate=side.predicate, filter_text=side.text, execution="local"),
        table_fields=tuple(search.sparks_fields()),
        conf=tuple(search.conf().items()),
    )


def _event_time(spark: SparkSession, side: SearchSide, column: str) -> EventTime:
    zone = NativeTable(side.source).timeline_zone(writers_zone(spark))
    return EventTime(column, zone, str(spark.conf.get("spark.sql.session.timeZone")))


def refusing(plans: TablePlans, dimension: int, lost: Accumulator[int] | None = None) -> Callable[[Moment], None]:
    """Return a check of each new moment that raises for a table that only Spark can read, before any task starts.

    `dimension` is the length of the query vectors. `lost` counts the rows whose snapshots were cleaned away; the check
    logs new ones as a warning.
    """
    passed, counted = [""], [0]
    nothing = tuple(None for _ in plans.asked)

    def check(moment: Moment) -> None:
        if lost is not None and lost.value > counted[0]:
            _LOG.warning(
                "%d rows of the stream had no match in '%s', since the snapshots of their times were cleaned away",
                lost.value - counted[0],
                plans.source.name,
            )
            counted[0] = lost.value
        if moment.completed and moment.text != passed[0]:
            plans.plan(moment, dimension, nothing)
            passed[0] = moment.text

    return check


def session_of(stream: Any) -> SparkSession:
    """Return the session of a DataFrame; raise InvalidTypeError if `stream` is not one."""
    if not isinstance(stream, DataFrame):
        raise InvalidTypeError(f"the argument 'stream' must be a DataFrame, not {kind_of(stream)}")
    return stream.sparkSession


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Return the session's settings that a streaming search reads, as text."""
    settings = session_settings(spark)
    return {key: value for key, value in settings.items() if key.lower().startswith((PREFIX, "hoodie.vector."))}


def one_of(value: Any, name: str, allowed: Sequence[str]) -> str:
    """Return an argument that must be one of some words, in lower case; raise InvalidArgumentError for other words."""
    text = (as_text(value, name)).strip().lower()
    if text not in allowed:
        raise InvalidArgumentError(f"unknown {name} {value!r}; give {' or '.join(repr(one) for one in allowed)}")
    return text
