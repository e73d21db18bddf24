"""Location of a table that a user names, and the options to open its storage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidArgumentError, TableNotFoundError
from hudi_vector.options import Settings
from hudi_vector.storage import StorageOptions, join, normalise, open_storage, path_text, scheme_of
from hudi_vector.table.config import PROPERTIES, PROPERTIES_COPY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_here", "locate", "locate_anyhow", "locate_here"]


def locate(spark: SparkSession, name: str | os.PathLike[str], look: bool = True) -> tuple[str, str, StorageOptions]:
    """Return a table's normalised base path, its path as Hadoop spells it, and the session's storage options.

    Without `look`, nothing is asked about a path on other storage: who opens the table raises TableNotFoundError. The
    options cover any storage, because references may point anywhere. Raise TableNotFoundError if there is no such
    table, and UnsupportedTableError for a view that does more than name a table, or if it is not a Hudi table.
    """
    from hudi_vector.spark.resolve import storage_options, table_named

    source = table_named(spark, name, look)
    return source.uri, source.hadoop_path, storage_options(spark)


def is_here(name: str) -> bool:
    """Return True if a table argument is a path on this machine, which needs no catalog and no credentials."""
    return "/" in name and scheme_of(normalise(name)) == "file"


def locate_here(name: Any, settings: Settings | None = None, look: bool = True) -> tuple[str, str, StorageOptions]:
    """Find a table by its path without a session, and return the same values as `locate`.

    Without `look`, nothing is asked about a path on other storage.

    Raise InvalidArgumentError for a catalog name, or if there are no settings for a path on other storage, and
    TableNotFoundError if there is no such table.
    """
    path = as_text(path_text(name), "table")
    if not is_here(path) and (settings is None or "/" not in path):
        raise InvalidArgumentError(f"'{path}' is found by a session only; give one, or a path on this machine")
    root, options = normalise(path), StorageOptions.of({} if settings is None else settings.values)
    if not look and scheme_of(root) != "file":
        return root, root, options
    storage = open_storage(root, options)
    if all(storage.info(join(root, name)) is None for name in (PROPERTIES, PROPERTIES_COPY)):
        raise TableNotFoundError(
            f"there is no Hudi table at '{path}': it has no .hoodie/hoodie.properties; give the table's base path"
        )
    return root, root, options


def locate_anyhow(
    spark: SparkSession | Settings | None, name: str | os.PathLike[str], look: bool = True
) -> tuple[str, str, StorageOptions]:
    """Find a table with `locate`, or with `locate_here` if there is no session."""
    if spark is None or isinstance(spark, Settings):
        return locate_here(name, spark, look)
    return locate(spark, name, look)
