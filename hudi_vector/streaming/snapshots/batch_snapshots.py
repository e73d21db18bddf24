"""The snapshot at which a micro-batch is searched: chosen on the driver, once for all tasks of the batch.

A relation of one row and one column holds the moment of the table's timeline as text; it is cross-joined with the rows
of the stream. The relation is lazy, and Spark plans it again for every micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StringType, StructField, StructType

from hudi_vector.errors import InstantNotAvailableError, InvalidOptionError
from hudi_vector.spark.catalyst.handles import frame_of, handles_of
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import normalise
from hudi_vector.streaming.calls import Call
from hudi_vector.streaming.config import StreamConfig
from hudi_vector.streaming.snapshots.noted import Pins
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["MOMENT", "Batch", "with_moment"]

MOMENT = "__hudi_vector_moment"

# Local properties that Spark sets on the thread that plans and runs a micro-batch.
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Batch:
    """The unit for which a moment is chosen: a micro-batch of a streaming query, or a statement (`query` is None).

    `number` is the batch's or the statement's number, None if Spark has not set it yet.
    """

    application: str
    query: str | None
    number: str | None

    @classmethod
    def planned(cls, spark: SparkSession, streams: bool) -> Batch:
        """Return the unit that this thread plans; inside foreachBatch that is a statement."""
        context = spark.sparkContext
        query = context.getLocalProperty(_QUERY_ID) if streams else None
        number = context.getLocalProperty(_BATCH_ID if query else "spark.sql.execution.id")
        return cls(str(context.applicationId), query, number)


@dataclass(frozen=True)
class _Chosen:
    moment: Moment
    begun: float


_OF_BATCHES: Recent[tuple[Batch, str], Moment] = Recent(128)
_OF_QUERIES: Recent[tuple[str, str, str], _Chosen] = Recent(128)


def with_moment(
    spark: SparkSession, rows: DataFrame, source: Source, config: StreamConfig, check: Callable[[Moment], None]
) -> DataFrame:
    """Return the rows with the column `MOMENT`, the moment at which they are searched.

    `check` raises if a moment cannot be searched. `config` says how long a stream reuses a moment and whether it stores
    moments in its checkpoint. Raises InvalidOptionError if moments are to be stored but `rows` is not a stream.
    """
    if config.pins and not rows.isStreaming:
        raise InvalidOptionError(
            "the config key 'pin-snapshot' is for streams, and this DataFrame is none; leave it out"
        )
    schema = StructType([StructField(MOMENT, StringType(), False)])

    def choose() -> Moment:
        batch = Batch.planned(spark, rows.isStreaming)
        chosen = partial(_chosen, batch, source, config.refresh)
        if config.pins and batch.query is not None and batch.number is not None:
            pins = _pins(spark, batch.query, source)
            chosen = partial(_pinned, pins, int(batch.number), chosen, source)

        def work() -> Moment:
            found = chosen()
            check(found)
            return found

        return Call(work, f"the newest snapshot of '{source.name}'", config).sync()

    def produce(names: Sequence[str]) -> pa.Table:
        moment = _of_batch(Batch.planned(spark, rows.isStreaming), source, choose)
        return pa.table([pa.array([moment.text])] * len(names), names=list(names)) if names else pa.table({"": [None]})

    plan = lazy_relation(spark, "hudi_vector_moment", schema, [], produce, lambda: f"snapshot of {source.name}")
    return rows.crossJoin(F.broadcast(frame_of(spark, plan)))


def _pinned(pins: Pins, number: int, choose: Callable[[], Moment], source: Source) -> Moment:
    """Return the stored moment of a micro-batch; raise InstantNotAvailableError if a commit of it was taken back."""
    moment = pins.of_batch(number, choose)
    undone = NativeTable(source).undone_since(moment)
    if undone is not None:
        raise InstantNotAvailableError(
            f"micro-batch {number} was searched in '{source.name}' with the commit {undone}, which was rolled back "
            "since, so the same rows cannot be found again; start with another checkpoint"
        )
    return moment


def _pins(spark: SparkSession, query: str, source: Source) -> Pins:
    number = handles_of(spark).named("java.util.UUID").fromString(query)
    running = spark._jsparkSession.streams().get(number)
    checkpoint = normalise(str(running.streamingQuery().resolvedCheckpointRoot()))
    return Pins(checkpoint, source.uri, storage_options(spark, checkpoint))


def _of_batch(batch: Batch, source: Source, choose: Callable[[], Moment]) -> Moment:
    """Return the moment of a batch, choosing it once.

    Spark plans a batch several times, and a statement may hold several searches: all of them need the same moment.
    """
    if batch.number is None:
        return choose()
    key = (batch, source.uri)
    known = _OF_BATCHES.get(key)
    return known if known is not None else _OF_BATCHES.first(key, choose())


def _chosen(batch: Batch, source: Source, refresh: float) -> Moment:
    key = None if batch.query is None else (batch.application, batch.query, source.uri)
    kept = None if key is None else _OF_QUERIES.get(key)
    if kept is not None and time.monotonic() - kept.begun < refresh:
        return kept.moment
    begun = time.monotonic()
    moment = NativeTable(source).timeline().moment
    if key is not None:
        _OF_QUERIES.put(key, _Chosen(moment, begun))
    return moment
