"""Rollback of writes whose process was killed while Hudi committed, as a compaction may be too.

A writer with Hudi's setting ``hoodie.clean.failed.writes.policy = LAZY`` keeps a heartbeat, and every commit of a
compaction without a lock is made so. Once its heartbeat has run out, Hudi lets such a writer not commit any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hudi_vector.storage.leases import clock_ms
from hudi_vector.table_services.retention.pending import PendingInstant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["roll_back_dead"]

_HUDI = "org.apache.hudi"


def roll_back_dead(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    pending: Iterable[PendingInstant],
    *,
    alone: bool = False,
) -> list[PendingInstant]:
    """Roll back those pending writes of a table whose heartbeats have run out, and return them.

    A write without a heartbeat may still be running, so it is left alone, unless the caller says with `alone` that no
    other process writes: then all pending writes are dead. `path` is the table's base path as Hadoop spells it, and
    `options` are Hudi's settings. Raise WriteError if Hudi fails.
    """
    from hudi_vector.spark.catalyst.handles import handles_of
    from hudi_vector.writing.client import LAZY, hudi_client
    from hudi_vector.writing.failures import in_one_sentence

    suspects = [each for each in pending if alone or each.beat_ms is not None]
    if not suspects:
        return []
    with (
        in_one_sentence(f"the rollback of killed writes of '{path}' failed"),
        hudi_client(spark, path, {**options, **LAZY}) as client,
    ):
        config = client.getConfig()
        lasts_ms = config.getHoodieClientHeartbeatIntervalInMs() * config.getHoodieClientHeartbeatTolerableMisses()
        # As it was listed: a write that has completed since has no heartbeat, which Hudi itself takes for an old one.
        dead = [each for each in suspects if alone or (each.beat_ms or 0) + lasts_ms < clock_ms()]
        java = handles_of(spark)
        storage = java.named(f"{_HUDI}.storage.HoodieStorageUtils").getStorage(
            path, client.getEngineContext().getStorageConf()
        )
        for each in dead:
            client.rollback(each.requested)
            # Only now: without its heartbeat a write looks as if it were still running.
            java.named(f"{_HUDI}.client.heartbeat.HeartbeatUtils").deleteHeartbeatFile(storage, path, each.requested)
        return dead
