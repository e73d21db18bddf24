"""What a task of a streaming search does, without Spark: over tables written by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hudi_vector.query.asking.output import Column
from hudi_vector.query.planner import SearchRequest
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.spec import VectorColumn
from hudi_vector.streaming.asking import SNAPSHOT
from hudi_vector.streaming.config import StreamConfig
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT
from hudi_vector.streaming.snapshots.event_times import EventTime
from hudi_vector.streaming.snapshots.plans import TablePlans
from hudi_vector.streaming.task import StreamSearch
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from support.written_table import WrittenTable

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
    **config: Any,
) -> StreamSearch:
    """A checked search over a table."""
    column = VectorColumn("emb", table.dimension, "float")
    made = StreamSearch(
        plans=TablePlans(
            number=uuid.uuid4().hex,
            source=source_of(table),
            request=SearchRequest(column, metric, k, predicate=predicate, execution="local", tuning=Tuning("exact")),
            table_fields=(),
            conf=(),
        ),
        physical=(("id", "id"), ("price", "price")),
        query=VectorColumn("v", 0, "float", is_vector=False),
        columns=tuple(Column(name, side, held) for name, (side, held, _) in _COLUMNS.items()),
        fields=tuple(pa.field(name, kind) for name, (_, _, kind) in _COLUMNS.items()),
        outer=outer,
        config=StreamConfig.of({"snapshot-column": "seen", **config}, {}),
    )
    return replace(made, event_time=EventTime("at", "UTC", "UTC")) if on_time else made


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


def answered(search: StreamSearch, events: Iterable[Mapping[str, Any]], moment: Moment) -> list[dict[str, Any]]:
    """What a task gives for some rows."""
    return [row for batch in search([asking(events, moment)]) for row in batch.to_pylist()]
