"""The asking rows of a micro-batch: division into searches, checks, and descriptions for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField

from hudi_vector.errors import DimensionMismatchError, number_of
from hudi_vector.query.asking.task import AskingTask
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.streaming.calls import Call, results
from hudi_vector.streaming.config import StreamConfig
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT

__all__ = ["OUTPUT_ROWS", "SNAPSHOT", "require_length", "row_text", "shown_snapshot", "stage_of"]

SNAPSHOT = "__hudi_vector_snapshot"
"""The column of the asking rows with the snapshot that answered each."""

OUTPUT_ROWS = 1 << 20
"""About how many output rows one search of a stream asks for."""

_FEWEST_ROWS = 64
_SHOWN = 60


def shown_snapshot(config: StreamConfig) -> list[tuple[StructField, str]]:
    """Return the configured output column of the snapshot with its source `SNAPSHOT`, or [] if it is not configured."""
    return [(StructField(config.snapshot_column, StringType()), SNAPSHOT)] if config.snapshot_column else []


def stage_of(task: AskingTask, config: StreamConfig) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark calls with the batches of a partition; each batch is searched for by itself."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with in_few_words():
                for found in results(_calls(pa.Table.from_batches([batch]), task, config), config):
                    yield from found.combine_chunks().to_batches()

    return run


def _calls(rows: pa.Table, task: AskingTask, config: StreamConfig) -> Iterator[Call[pa.Table]]:
    step = max(1, task.most // (task.k or 1))
    if config.is_async:
        step = min(step, max(_FEWEST_ROWS, -(-rows.num_rows // config.concurrent)))
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        yield Call(partial(task.table, part), row_text(part), config)


def require_length(rows: pa.Table, asking: str, searched: str, dimension: int, table: str) -> None:
    """Raise DimensionMismatchError if a query vector has another length than the searched column.

    `dimension` is the length of the column's vectors; if it is 0, because the column does not declare it, all vectors
    must be as long as the first. `asking` is the column of query vectors; `searched` and `table` are names for the
    message.
    """
    lengths = pc.list_value_length(rows.column(asking))
    here = np.flatnonzero(np.asarray(lengths.is_valid()))
    counts = np.asarray(lengths.drop_null())
    expected = dimension or (int(counts[0]) if len(counts) else 0)
    wrong = np.flatnonzero(counts != expected)
    if len(wrong):
        row = row_text(rows.slice(int(here[wrong[0]]), 1))
        raise DimensionMismatchError(
            f"the query vector of {row} has {number_of(int(counts[wrong[0]]), 'element')}, and column '{searched}' of "
            f"'{table}' "
            f"has {expected}; give {expected}"
        )


def row_text(rows: pa.Table) -> str:
    """Describe rows for a message by the first three plain columns of the first row, never by their vectors."""
    plain = [
        field.name
        for field in rows.schema
        if field.name != MOMENT and not pa.types.is_nested(field.type) and not pa.types.is_binary(field.type)
    ]
    values = [f"{name} = {_shown(rows.column(name)[0].as_py())}" for name in plain[:3]] if rows.num_rows else []
    first = "the row with " + ", ".join(values) if values else "a row without plain columns"
    return first if rows.num_rows == 1 else f"{rows.num_rows} rows, the first of them {first}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
