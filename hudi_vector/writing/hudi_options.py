"""Hudi's own settings for one write, and the few that decide what this package does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import INVALID_VECTORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudi_vector.writing.layout import Layout
    from hudi_vector.writing.request import WriteRequest

__all__ = [
    "CODEC",
    "DUPLICATES",
    "OURS",
    "SESSION_KEYS",
    "Settings",
    "hudi_options",
    "read_settings",
    "table_properties",
]

CODEC = "hoodie.parquet.compression.codec"
DUPLICATES = "hoodie.datasource.insert.dup.policy"
COMBINE = "hoodie.combine.before.insert"
NULL_FOR_MISSING = "hoodie.write.set.null.for.missing.columns"
_DROP_DUPLICATES = "hoodie.datasource.write.insert.drop.duplicates"
_INDEX = "hoodie.index.type"

SESSION_KEYS = (CODEC, DUPLICATES, COMBINE, NULL_FOR_MISSING, _DROP_DUPLICATES, _INDEX, INVALID_VECTORS.key)
"""What is looked up in the session: a DataFrame write does not take the session's settings over by itself."""

OURS = ("hoodie.vector.", "hoodie.storage.blob.", "hoodie.blob.write.")
"""How keys begin that are this package's own, and not handed to Hudi."""

DEFAULT_CODEC = "snappy"
"""Chosen with the figures of benchmarks/codecs.py."""

# Operations that keep two rows of one key if they are given two.
_KEEP_DUPLICATES = ("insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table")
# Indexes that know a key by itself, whatever its partition.
_GLOBAL_INDEXES = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")
# What CREATE TABLE must know, so that later SQL writes lay files out like this one.
_LASTING = (
    "hoodie.table.",
    "hoodie.record.merge.",
    "hoodie.parquet.",
    "hoodie.populate.meta.fields",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.datasource.write.keygenerator.",
    "hoodie.keygen.",
)


@dataclass(frozen=True)
class Settings:
    """The settings that this package acts on."""

    codec: str | None
    duplicates: str
    """``fail``, ``drop`` or ``none``."""
    combines: bool
    """Whether Hudi makes one row of those that share a key before it inserts."""
    has_global_index: bool
    nulls_for_missing: bool

    def checks_duplicates(self, operation: str) -> bool:
        """Whether a key that occurs twice in the DataFrame is to be refused.

        Args:
            operation: The operation.

        Returns:
            True for operations that would store both rows, unless the user chose another policy.
        """
        return operation in _KEEP_DUPLICATES and self.duplicates == "fail" and not self.combines


def read_settings(options: Mapping[str, str], session: Mapping[str, str], table: Mapping[str, str]) -> Settings:
    """Find each setting: in the call, else in the session, else in the table's properties.

    Args:
        options: The options of the call.
        session: The session's configuration.
        table: The properties of the table that is there.

    Returns:
        The settings.

    Raises:
        InvalidArgumentError: The policy for duplicates is none that Hudi knows.

    Example:
        >>> read_settings({}, {}, {}).duplicates
        'fail'
    """

    def find(key: str) -> str | None:
        return next((place[key].strip() for place in (options, session, table) if place.get(key)), None)

    drops = (find(_DROP_DUPLICATES) or "").lower() == "true"
    duplicates = (find(DUPLICATES) or ("drop" if drops else "fail")).lower()
    if duplicates not in ("fail", "drop", "none"):
        raise InvalidArgumentError(f"{DUPLICATES} = {duplicates!r} is not allowed: give one of fail, drop, none")
    combine = find(COMBINE)
    return Settings(
        codec=find(CODEC),
        duplicates=duplicates,
        # With `drop` Hudi leaves out keys the table has, but keeps duplicates among the new rows.
        combines=combine.lower() == "true" if combine else duplicates == "drop",
        has_global_index=(find(_INDEX) or "").upper() in _GLOBAL_INDEXES,
        nulls_for_missing=(find(NULL_FOR_MISSING) or "").lower() == "true",
    )


def hudi_options(
    request: WriteRequest, layout: Layout, settings: Settings, name: str, *, has_vectors: bool, has_blobs: bool
) -> dict[str, str]:
    """All options of the DataFrame write.

    Hudi itself chooses the key generator: none for no partition field, simple for one key and one field, else
    complex.

    Args:
        request: What was asked for.
        layout: The layout agreed with the table.
        settings: The settings this package acts on.
        name: The Hudi table name.
        has_vectors: Whether a vector column is written or lies in the table.
        has_blobs: Whether a blob column is written or lies in the table.

    Returns:
        Keys and values; what the user set stays.
    """
    made = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.operation": request.operation,
        "hoodie.datasource.write.recordkey.field": ",".join(layout.record_key),
        "hoodie.datasource.write.table.type": layout.table_type,
    }
    if layout.partition_option:
        made["hoodie.datasource.write.partitionpath.field"] = layout.partition_option
    if layout.ordering:
        made["hoodie.table.ordering.fields"] = ",".join(layout.ordering)
    codec = settings.codec or (DEFAULT_CODEC if has_vectors or has_blobs else None)
    if codec is not None:
        # A DataFrame write does not look into the session, so its codec is handed on.
        made[CODEC] = codec
    if request.operation == "insert":
        made[DUPLICATES] = settings.duplicates
    if settings.combines and request.operation in _KEEP_DUPLICATES:
        made[COMBINE] = "true"
    if request.sort_by:
        made["hoodie.bulkinsert.user.defined.partitioner.sort.columns"] = ",".join(request.sort_by)
        made["hoodie.bulkinsert.user.defined.partitioner.class"] = (
            "org.apache.hudi.execution.bulkinsert.RowCustomColumnsSortPartitioner"
        )
    if has_blobs:
        # Bytes of blobs repeat so rarely that a dictionary of them costs memory for nothing.
        made["hoodie.parquet.dictionary.enabled"] = "false"
    ours = {key: value for key, value in request.options.items() if key.startswith(OURS)}
    return {**made, **{key: value for key, value in request.options.items() if key not in ours}}


def table_properties(layout: Layout, options: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog table that a write makes.

    Args:
        layout: The layout of the table.
        options: The options of the write.

    Returns:
        The properties, in the words of Hudi's SQL.
    """
    short = {"COPY_ON_WRITE": "cow", "MERGE_ON_READ": "mor"}
    properties = {"primaryKey": ",".join(layout.record_key), "type": short[layout.table_type]}
    if layout.ordering:
        properties["orderingFields"] = ",".join(layout.ordering)
    said = {"hoodie.table.ordering.fields", "hoodie.table.name"}
    lasting = {key: value for key, value in options.items() if key.startswith(_LASTING) and key not in said}
    return {**properties, **lasting}
