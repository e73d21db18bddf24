"""The rules for a write's blob columns and their settings, from the call, the session and the existing table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import ALL, BLOB_INLINE_THRESHOLD
from hudi_vector.spark.catalyst import settings as session
from hudi_vector.writing.blobs.columns import blob_columns, refuse_collections
from hudi_vector.writing.hudi_options import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hudi_vector.blobs.storing.writer import BlobColumn
    from hudi_vector.writing.request import BlobSpecs
    from hudi_vector.writing.target import ExistingTable

__all__ = ["plan_blobs", "planned_columns", "session_settings"]

_BASE_FORMATS = ("hoodie.table.base.file.format", "hoodie.base.file.format")
"""The settings that name the format of a new table's base files."""


def plan_blobs(
    df: DataFrame, table: str, existing: ExistingTable | None, specs: BlobSpecs, options: Mapping[str, str]
) -> tuple[BlobColumn, ...]:
    """Return the blob columns of a DataFrame and how each is stored.

    Args:
        df: The rows.
        table: The table's name for messages.
        existing: The existing table, if any.
        specs: The caller's settings per column.
        options: The options of the call; they override the session's settings.

    Raises:
        InvalidArgumentError: A blob is in an array or map, would be stored inline in a table with Lance base files, or
            a setting is not allowed.
        InvalidTypeError: A column's type cannot hold blobs.
        UnknownColumnError: A named column is not in the DataFrame.
    """
    refuse_collections(df.schema)
    spark = df.sparkSession
    given = {**_session_options(spark), **options}
    if existing is not None:
        base = existing.config.base_file_format
    else:
        base = next(filter(None, (options.get(key) or spark.conf.get(key, None) for key in _BASE_FORMATS)), "")
    in_table = existing.schema if existing else None
    return planned_columns(df.schema, in_table, specs, given, table=table, base_format=base)


def planned_columns(
    schema: StructType,
    in_table: StructType | None,
    specs: BlobSpecs,
    given: Mapping[str, str],
    *,
    table: str,
    base_format: str,
) -> tuple[BlobColumn, ...]:
    """Return how each blob column is stored.

    Hudi 1.2 loses inline blobs when it rewrites Lance files (clustering, compaction). So in a table with Lance base
    files no column is stored inline, and a request for that raises an error.

    Args:
        schema: The DataFrame's columns.
        in_table: The columns of the existing table, None if there is none.
        specs: The caller's settings per column.
        given: The settings of the call and the session.
        table: The table's name for messages.
        base_format: The format of the table's base files.

    Raises:
        InvalidArgumentError: A blob of a table with Lance base files would be stored inline.
        InvalidTypeError: A column's type cannot hold blobs.
        UnknownColumnError: A named column is not in the DataFrame.
    """
    settings, is_lance = BlobSettings.of(given), base_format.strip().lower() == "lance"
    if is_lance and not any(key.strip().lower() == BLOB_INLINE_THRESHOLD.key for key in given):
        settings = replace(settings, inline_threshold=0)
    columns = blob_columns(schema, in_table, specs, settings)
    for column in columns if is_lance else ():
        if column.settings.inline_threshold:
            raise InvalidArgumentError(
                f"blobs of column '{column.path}' below {column.settings.inline_threshold} bytes would be stored "
                f"inline, and '{table}' has Lance base files, in which Hudi 1.2 loses inline blobs when it rewrites "
                f"them; leave {BLOB_INLINE_THRESHOLD.key} out, for the table and for the column, or set it to 0"
            )
    return columns


def session_settings(spark: SparkSession) -> BlobSettings:
    """Return the session's settings for blobs, with defaults for those not set.

    Raises InvalidOptionError if a setting has an invalid value.
    """
    return BlobSettings.of(_session_options(spark))


def _session_options(spark: SparkSession) -> dict[str, str]:
    settings = session.session_settings(spark)
    keys = (option.key for option in ALL if option.key.startswith(OURS))
    return {key: value for key in keys if (value := settings.get(key))}
