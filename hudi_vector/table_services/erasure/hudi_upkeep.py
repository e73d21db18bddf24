"""Hudi's own services that an erasure runs: compaction of log files, and removal of the metadata table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.writing.client import hudi_client
from hudi_vector.writing.failures import in_one_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["compact_logs", "remove_metadata_table"]

_HUDI = "org.apache.hudi"
_EVERY_GROUP = {
    "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.compaction.strategy": f"{_HUDI}.table.action.compact.strategy.UnBoundedCompactionStrategy",
}


def compact_logs(spark: SparkSession, path: str, options: Mapping[str, str], pending: Iterable[str]) -> int:
    """Run Hudi's compaction of every file group with log files, and return how many compactions ran.

    `path` is the table's base path as Hadoop spells it, `options` are Hudi's settings, and `pending` are the
    compactions that are scheduled already, which are executed first. Raise WriteError if Hudi fails.
    """
    with (
        in_one_sentence(f"the compaction of the log files of '{path}' failed"),
        hudi_client(spark, path, {**options, **_EVERY_GROUP}) as client,
    ):
        instants = list(pending)
        for instant in instants:
            client.compact(instant, True)
        scheduled = client.scheduleCompaction(handles_of(spark).named(f"{_HUDI}.common.util.Option").empty())
        if scheduled.isPresent():
            instants.append(scheduled.get())
            client.compact(instants[-1], True)
    spark.catalog.refreshByPath(path)
    return len(instants)


def remove_metadata_table(spark: SparkSession, path: str, options: Mapping[str, str]) -> None:
    """Remove Hudi's metadata table, which the next writer with that setting makes again of the files that are there.

    `path` is the table's base path as Hadoop spells it, and `options` are Hudi's settings. Raise WriteError if Hudi
    fails.
    """
    named = handles_of(spark).named
    with (
        in_one_sentence(f"the removal of the metadata table of '{path}' failed"),
        hudi_client(spark, path, options) as client,
    ):
        context = client.getEngineContext()
        client_of_table = named(f"{_HUDI}.table.HoodieSparkTable").create(client.getConfig(), context).getMetaClient()
        named(f"{_HUDI}.metadata.HoodieTableMetadataUtil").deleteMetadataTable(client_of_table, context, False)
    spark.catalog.refreshByPath(path)
