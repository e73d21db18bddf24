"""What a task of a streaming search does, without Spark: over tables written by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator

from hudi_vector.query.asking.output import Column
from hudi_vector.query.asking.task import AskingTask
from hudi_vector.query.planner import SearchRequest
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.spec import VectorColumn
from hudi_vector.streaming.asking import OUTPUT_ROWS, SNAPSHOT, stage_of
from hudi_vector.streaming.config import StreamConfig
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT
from hudi_vector.streaming.snapshots.event_times import EventTime
from hudi_vector.streaming.snapshots.plans import TablePlans
from hudi_vector.streaming.task import StreamFinder, StreamQueries
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from support.written_table import WrittenTable

Search = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_COLUMNS = {
    "number": ("query", "number", pa.int64()),
    "id": ("corpus", "id", pa.int64()),
    "price": ("corpus", "price", pa.float64()),
    "score": ("added", "score", pa.float64()),
    "_distance": ("distance", "", pa.float64()),
    "_rank": ("rank", "", pa.int32()),
    "seen": ("query", SNAPSHOT, pa.string()),
}


def source_of(table: WrittenTable) -> Source:
    """The table as searches name it."""
    return Source(f"file://{table.path}", "written")


def now(table: WrittenTable) -> Moment:
    """What the table's timeline shows now."""
    return NativeTable(source_of(table)).timeline().moment


def stream_search(
    table: WrittenTable,
    k: int = 2,
    metric: str = "l2",
    predicate: Predicate | None = None,
    outer: bool = True,
    on_time: bool = False,
    lost: Accumulator[int] | None = None,
    **config: Any,
) -> Search:
    """A checked search over a table, as Spark calls it."""
    column = VectorColumn("emb", table.dimension, "float")
    plans = TablePlans(
        number=uuid.uuid4().hex,
        source=source_of(table),
        request=SearchRequest(column, metric, k, predicate=predicate, execution="local", tuning=Tuning("exact")),
        table_fields=(),
        conf=(),
    )
    checked = StreamConfig.of({"snapshot-column": "seen", **config}, {})
    query = VectorColumn("v", 0, "float", is_vector=False)
    event_time = EventTime("at", "UTC", "UTC") if on_time else None
    task = AskingTask(
        queries=StreamQueries(plans, query, checked, event_time, lost),
        finder=StreamFinder(plans, (("id", "id"), ("price", "price"))),
        columns=tuple(Column(name, side, held) for name, (side, held, _) in _COLUMNS.items()),
        schema=tuple(pa.field(name, kind) for name, (_, _, kind) in _COLUMNS.items()),
        k=k,
        cache=checked.cache_memory,
        outer=outer,
        most=OUTPUT_ROWS,
    )
    return stage_of(task, checked)


def asking(events: Iterable[Mapping[str, Any]], moment: Moment) -> pa.RecordBatch:
    """Rows as Spark hands them to a task."""
    rows = list(events)
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array([row.get("number") for row in rows], pa.int64()),
            "v": pa.array([row.get("v") for row in rows], pa.list_(pa.float32())),
            "least": pa.array([row.get("least") for row in rows], pa.float64()),
            "at": pa.array([row.get("at") for row in rows], pa.timestamp("us", tz="UTC")),
            MOMENT: pa.array([moment.text] * len(rows)),
        }
    )


def answered(search: Search, events: Iterable[Mapping[str, Any]], moment: Moment) -> list[dict[str, Any]]:
    """What a task gives for some rows."""
    return [row for batch in search([asking(events, moment)]) for row in batch.to_pylist()]
