"""Where a table that a user names lies, and how its storage is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_vector.storage import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["locate"]


def locate(spark: SparkSession, name: str) -> tuple[str, str, StorageOptions]:
    """Find a table.

    Args:
        spark: A registered session.
        name: The name or path of a Hudi table.

    Returns:
        Its base path, normalised and as Hadoop knows it, and the session's settings for any storage, since references
        may lead anywhere.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is a view that does more than name one, or no Hudi table.
    """
    from hudi_vector.spark.resolve import resolve_name, storage_options

    source = resolve_name(spark, name).table()
    return source.uri, source.hadoop_path, storage_options(spark)
