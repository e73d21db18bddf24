"""The snapshot of a table for one statement, chosen at planning and shared by all its references (decision 3)."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.settings import application_of, statement_of
from hudi_vector.table.instants import AsOf
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["forget", "snapshot_for", "writers_zone"]

_Key = tuple[str, str, str, "AsOf | None"]
_CHOSEN: Recent[_Key, Snapshot] = Recent(128)


def snapshot_for(spark: SparkSession, source: Source, as_of: AsOf | None) -> Snapshot:
    """Return the snapshot of a table at a point in its history, or now if `as_of` is None.

    It is the same for every reference within one SQL execution; outside of an execution it is chosen at each call.
    """
    execution = statement_of(spark)
    if execution is None:
        return _choose(spark, source, as_of)
    key = (application_of(spark.sparkContext), execution, source.uri, as_of)
    known = _CHOSEN.get(key)
    return known if known is not None else _CHOSEN.first(key, _choose(spark, source, as_of))


def forget(spark: SparkSession, source: Source) -> None:
    """Forget the running statement's snapshots of a table, since a file of one is gone (decision 9)."""
    execution = statement_of(spark)
    _CHOSEN.forget(lambda key: key[1] == execution and key[2] == source.uri)


def writers_zone(spark: SparkSession) -> str:
    """Return the time zone of this JVM, in which it writes the instants of a LOCAL timeline."""
    return str(handles_of(spark).named("java.util.TimeZone").getDefault().getID())


def _choose(spark: SparkSession, source: Source, as_of: AsOf | None) -> Snapshot:
    zone = writers_zone(spark) if as_of is not None else None
    return NativeTable(source).snapshot(as_of, zone)
