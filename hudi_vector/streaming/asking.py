"""The rows of a micro-batch that ask: divided into searches, checked, and named in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField

from hudi_vector.errors import DimensionMismatchError
from hudi_vector.query.batch_rows import Column
from hudi_vector.read.cache import process_cache
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.streaming.calls import Call, results
from hudi_vector.streaming.config import StreamConfig
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT

__all__ = ["SNAPSHOT", "answered", "columns_of", "require_length", "shown_snapshot", "stage_of", "told"]

SNAPSHOT = "__hudi_vector_snapshot"
"""The snapshot a row was answered from, beside its other columns."""

_ROWS_AT_ONCE = 1 << 20
_FEWEST_ROWS = 64
_SHOWN = 60


Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def shown_snapshot(config: StreamConfig) -> list[tuple[StructField, str]]:
    """The output's column of the snapshot, and the column of the rows that it shows; nothing unless it is wanted."""
    return [(StructField(config.snapshot_column, StringType()), SNAPSHOT)] if config.snapshot_column else []


def stage_of(task: Task) -> Task:
    """A search as a function, which is what `mapInArrow` takes."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return run


def answered(
    batches: Iterable[pa.RecordBatch], k: int, config: StreamConfig, answer: Callable[[pa.Table], pa.Table]
) -> Iterator[pa.RecordBatch]:
    """The output rows of the rows of a task.

    Args:
        batches: The rows that ask.
        k: How many rows each gets at the most.
        config: How searches are run.
        answer: The output rows of some of them.
    """
    process_cache().resize(config.cache_memory)
    for batch in batches:
        with in_few_words():
            for found in results(_calls(pa.Table.from_batches([batch]), k, config, answer), config):
                yield from found.combine_chunks().to_batches()


def _calls(
    rows: pa.Table, k: int, config: StreamConfig, answer: Callable[[pa.Table], pa.Table]
) -> Iterator[Call[pa.Table]]:
    step = max(1, _ROWS_AT_ONCE // k)
    if config.is_async:
        step = min(step, max(_FEWEST_ROWS, -(-rows.num_rows // config.concurrent)))
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        yield Call(partial(answer, part), told(part), config)


def columns_of(side: str, columns: Sequence[Column], fields: Sequence[pa.Field]) -> list[pa.Field]:
    """The output's columns of one side, under the names they have there."""
    pairs = zip(columns, fields, strict=True)
    return [field.with_name(column.source) for column, field in pairs if column.side == side]


def require_length(rows: pa.Table, asking: str, searched: str, dimension: int, table: str) -> None:
    """Every query vector has the searched column's length, or that of the first one where the column has none.

    Args:
        rows: The rows that ask.
        asking: Their column of query vectors.
        searched: The searched column.
        dimension: The length of its vectors, 0 where it does not say.
        table: How messages name the table.

    Raises:
        DimensionMismatchError: One has another.
    """
    lengths = pc.list_value_length(rows.column(asking))
    here = np.flatnonzero(np.asarray(lengths.is_valid()))
    counts = np.asarray(lengths.drop_null())
    expected = dimension or (int(counts[0]) if len(counts) else 0)
    wrong = np.flatnonzero(counts != expected)
    if len(wrong):
        row = told(rows.slice(int(here[wrong[0]]), 1))
        raise DimensionMismatchError(
            f"the query vector of {row} has {int(counts[wrong[0]])} elements, and column '{searched}' of '{table}' "
            f"has {expected}; give {expected}"
        )


def told(rows: pa.Table) -> str:
    """Some rows as messages name them: by their first plain columns, never by their vectors."""
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
