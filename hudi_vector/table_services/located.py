"""Where a table that a user names lies, and how its storage is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidArgumentError, TableNotFoundError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage, path_text, scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_here", "locate", "locate_anyhow", "locate_here"]


def locate(spark: SparkSession, name: str | os.PathLike[str]) -> tuple[str, str, StorageOptions]:
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


def is_here(name: str) -> bool:
    """Return whether a table argument is a path on this machine, which needs no catalog and no credentials."""
    return "/" in name and scheme_of(normalise(name)) == "file"


def locate_here(name: Any) -> tuple[str, str, StorageOptions]:
    """Find a table on this machine without a session.

    Args:
        name: The path of a Hudi table.

    Returns:
        As `locate`.

    Raises:
        InvalidArgumentError: It is a name of a catalog, or a path of another storage, whose settings a session has.
        TableNotFoundError: There is no such table.
    """
    path = as_text(path_text(name), "table") or ""
    if not is_here(path):
        raise InvalidArgumentError(f"'{path}' is found by a session only; give one, or a path on this machine")
    root = normalise(path)
    if open_storage(root, StorageOptions()).info(join(root, ".hoodie/hoodie.properties")) is None:
        raise TableNotFoundError(
            f"there is no Hudi table at '{path}': it has no .hoodie/hoodie.properties; give the table's base path"
        )
    return root, root, StorageOptions()


def locate_anyhow(spark: SparkSession | None, name: str) -> tuple[str, str, StorageOptions]:
    """Find a table by a session, or on this machine where there is none."""
    return locate_here(name) if spark is None else locate(spark, name)
