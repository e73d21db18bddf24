"""The routes that compute the right side once, into the memory of every process or into temporary Parquet files."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from hudi_vector.errors import number_of
from hudi_vector.query.files.temporary import unstorable
from hudi_vector.query.join.held import HeldSide, as_content, in_order
from hudi_vector.read.predicate.form import Predicate, columns
from hudi_vector.read.spec import TIE_COLUMNS
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.local_rows import arrow_fields, collected
from hudi_vector.spark.join.request import JoinRequest
from hudi_vector.spark.join.routes.ways import Way, snapshot_way
from hudi_vector.spark.search.temp_dataset import write_temporary

__all__ = ["fits", "held_way", "temp_barred", "temp_way"]


def held_way(request: JoinRequest) -> Way:
    """Collect the rows of the right side once and broadcast them to every process."""
    right, spark = request.right, request.spark
    frame, names, own = _with_keys(request)
    table = collected(frame)
    keyed = all(name in table.column_names for name in TIE_COLUMNS)
    content = as_content(in_order(table, TIE_COLUMNS if keyed else table.column_names))
    predicate = request.right_predicate(names, own)
    column = replace(right.column, name=names[right.column.name])
    broadcast = spark.sparkContext.broadcast(content)
    side = HeldSide(broadcast, uuid.uuid4().hex, column, request.zone, predicate)
    lines = f"Held in memory: {number_of(table.num_rows, 'row')}, {len(content)} bytes"
    return Way(side, side, names, lines, release=broadcast.unpersist)


def _with_keys(request: JoinRequest) -> tuple[DataFrame, Mapping[str, str], Predicate | None]:
    """Return the rows to hold, their name for each right column, and the right side's predicate if still to apply.

    The rows of a Hudi table include its record keys, which order rows of equal distance, even if they were not chosen.
    """
    right = request.right
    if right.table is None:
        return right.frame, {name: name for name in right.schema.names}, None
    frame = right.table.frame(request.spark)
    needed = {*right.physical.values(), *TIE_COLUMNS, *(columns(right.predicate) if right.predicate else ())}
    chosen = [name for name in frame.columns if name in needed]
    return frame.select([frame[quoted(name)] for name in chosen]), right.physical, right.predicate


def fits(request: JoinRequest, limit: int) -> int | None:
    """Return the bytes of a right side, or None if they exceed the limit.

    Spark's estimate is used if it is within the limit. It is often far too large, for example for joins and for rows
    made in Python. Otherwise the rows are computed once, and each partition stops when it exceeds the limit.
    """
    frame = request.right.frame
    estimated = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    if estimated <= limit:
        return estimated
    sizes = map_in_arrow(frame, _sizes(limit), "size LONG").collect()
    measured = sum(row["size"] for row in sizes)
    return measured if measured <= limit else None


def _sizes(limit: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in batches:
            size += batch.nbytes
            if size > limit:
                break
        yield pa.record_batch({"size": pa.array([size])})

    return measure


def temp_barred(request: JoinRequest) -> str:
    """Return why the right side cannot be written to temporary files, or an empty text."""
    if request.dimension is None:
        return "the right side holds no vector"
    reasons = ((field.name, unstorable(field.type)) for field in arrow_fields(request.right.schema))
    return next((f"Parquet cannot keep column '{name}': {reason}" for name, reason in reasons if reason), "")


def temp_way(request: JoinRequest, queries: int) -> Way:
    """Write the rows of the right side once, by the executors, to temporary Parquet files.

    Raises InvalidOptionError if the master is not local and no directory that all executors reach is set, RefusedError
    if there are more bytes than allowed. `queries` is the number of left rows that are searched at once.
    """
    assert request.dimension is not None
    column = replace(request.right.column, dimension=request.dimension)
    dataset = write_temporary(request.right.frame, column, request.conf)
    try:
        way = snapshot_way(request, dataset.snapshot, dataset.physical, queries)
    except BaseException:
        dataset.release()
        raise
    lines = f"Written once: {number_of(dataset.rows, 'row')}, {dataset.nbytes} bytes, to {dataset.place}"
    return replace(way, lines=f"{lines}\n{way.lines}", release=dataset.release)
