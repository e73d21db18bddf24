"""The blob columns of a write, from what was asked for, the session, and the table that is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import ALL, BLOB_INLINE_THRESHOLD
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
"""What says of which format the base files of a new table are."""


def plan_blobs(
    df: DataFrame, table: str, existing: ExistingTable | None, specs: BlobSpecs, options: Mapping[str, str]
) -> tuple[BlobColumn, ...]:
    """Find the blob columns of a DataFrame and how each is stored.

    Args:
        df: The rows.
        table: How messages name the table.
        existing: The table that is there, if any.
        specs: What was said of single columns.
        options: The options of the call; the session's settings hold where they say nothing.

    Returns:
        The columns.

    Raises:
        InvalidArgumentError: A blob stands where none can be stored, or a setting is not allowed.
        InvalidTypeError: A column holds nothing that could be a blob.
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
    """Decide how each blob column is stored.

    Hudi 1.2 loses inline bytes when it rewrites Lance files (clustering, compaction), so that no column of a table of
    these is stored inline, however that was asked for.

    Args:
        schema: The DataFrame's columns.
        in_table: The columns of the table that is there.
        specs: What was said of single columns.
        given: The settings of the call and the session.
        table: How messages name the table.
        base_format: The format of its base files.

    Raises:
        InvalidArgumentError: A blob of a table with Lance base files would be stored inline.
        InvalidTypeError: A column holds nothing that could be a blob.
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
    """How blobs are stored where a session says so, and else by default.

    Args:
        spark: The session.

    Raises:
        InvalidOptionError: A setting has a value it cannot have.
    """
    return BlobSettings.of(_session_options(spark))


def _session_options(spark: SparkSession) -> dict[str, str]:
    keys = [option.key for option in ALL if option.key.startswith(OURS)]
    return {key: value for key in keys if (value := spark.conf.get(key, None))}
