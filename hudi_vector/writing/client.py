"""Hudi's own write client, for what its DataFrame writer and its procedures do not offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.table.config import properties_of
from hudi_vector.writing.files import Files

__all__ = ["hudi_client"]

_METADATA = "hoodie.metadata.enable"


@contextmanager
def hudi_client(spark: SparkSession, path: str, options: Mapping[str, str]) -> Iterator[Any]:
    """A client for a table, with the session's settings.

    Args:
        spark: A registered session.
        path: The table's base path, as Hadoop knows it.
        options: Hudi's settings, which stand over those of the session.
    """
    jvm = spark._jvm
    assert jvm is not None
    settings = {"hoodie.embed.timeline.server": "false", **_metadata(spark, path), **options}
    utils = getattr(getattr(jvm.org.apache.hudi, "HoodieCLIUtils$"), "MODULE$")
    client = utils.createHoodieWriteClient(
        spark._jsparkSession, path, jvm.PythonUtils.toScalaMap(settings), jvm.scala.Option.empty()
    )
    try:
        yield client
    finally:
        client.close()


def _metadata(spark: SparkSession, path: str) -> dict[str, str]:
    if spark.conf.get(_METADATA, None) is not None:
        return {}
    # A client that has it on builds the metadata table of a table without one, and one that has it off removes it.
    uri = f"{path}/.hoodie/hoodie.properties"
    properties = properties_of(Files(spark).read(uri) or b"", uri)
    return {_METADATA: str(bool(properties.get("hoodie.table.metadata.partitions"))).lower()}
