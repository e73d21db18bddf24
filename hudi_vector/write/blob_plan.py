"""The blob columns of a write, from what was asked for, the session, and the table that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import ALL, BLOB_INLINE_THRESHOLD
from hudi_vector.write.blob_columns import blob_columns, refuse_collections
from hudi_vector.write.hudi_options import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudi_vector.blobs.writer import BlobColumn
    from hudi_vector.write.request import BlobSpecs
    from hudi_vector.write.target import ExistingTable

__all__ = ["plan_blobs", "session_settings"]


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
    given = {**_session_options(df.sparkSession), **options}
    # Hudi 1.2 loses inline bytes when it rewrites Lance files (clustering, compaction).
    lance = existing is not None and existing.config.base_file_format.lower() == "lance"
    if lance and given.setdefault(BLOB_INLINE_THRESHOLD.key, "0") != "0":
        raise InvalidArgumentError(
            f"'{table}' has Lance base files, in which Hudi 1.2 loses inline blobs when it rewrites them; "
            f"leave {BLOB_INLINE_THRESHOLD.key} out, or set it to 0"
        )
    return blob_columns(df.schema, existing.schema if existing else None, specs, BlobSettings.of(given))


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
