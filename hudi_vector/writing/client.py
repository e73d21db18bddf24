"""Hudi's own write client, for operations that its DataFrame writer and its procedures do not offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.table.config import stored_properties
from hudi_vector.writing.files import Files

__all__ = ["FAILED_WRITES", "LAZY", "hudi_client", "metadata_setting", "roll_back"]

FAILED_WRITES = "hoodie.clean.failed.writes.policy"
LAZY = {FAILED_WRITES: "LAZY"}
"""With another policy Hudi rolls back no write behind which others have committed."""

_METADATA = "hoodie.metadata.enable"


@contextmanager
def hudi_client(spark: SparkSession, path: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Yield a write client for a table, with the session's settings; the client is closed afterwards.

    `path` is the base path as Hadoop spells it. `options` are Hudi settings that override the session's.
    """
    java = handles_of(spark)
    settings = {"hoodie.embed.timeline.server": "false", **metadata_setting(spark, path, options), **options}
    client = java.module("org.apache.hudi.HoodieCLIUtils").createHoodieWriteClient(
        spark._jsparkSession, path, java.scala_map(settings), java.none
    )
    try:
        yield client
    finally:
        client.close()


def roll_back(spark: SparkSession, path: str, options: Mapping[str, str], instant: str) -> None:
    """Roll back a write that will not complete, also if others have committed since; the arguments are as above."""
    with hudi_client(spark, path, {**options, **LAZY}) as client:
        client.rollback(instant)


def metadata_setting(spark: SparkSession, path: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that leaves a table with or without a metadata table, as it is.

    It is empty if the session or `options` have it. `path` is the base path as Hadoop spells it.
    """
    if _METADATA in options or spark.conf.get(_METADATA, None) is not None:
        return {}
    # A client with this setting on builds a missing metadata table; with the setting off it removes an existing one.
    properties = stored_properties(Files(spark).read, path)
    return {_METADATA: str(bool(properties.get("hoodie.table.metadata.partitions"))).lower()}
