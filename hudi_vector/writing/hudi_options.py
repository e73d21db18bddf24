"""Hudi's settings for one write, and the ones that this package acts on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.options import ERASED_KEYS, INVALID_VECTORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudi_vector.writing.layout import Layout
    from hudi_vector.writing.request import WriteRequest

__all__ = [
    "CODEC",
    "DROP_COLUMNS",
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
DROP_COLUMNS = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
_DROP_DUPLICATES = "hoodie.datasource.write.insert.drop.duplicates"
_INDEX = "hoodie.index.type"

_OWN = (INVALID_VECTORS.key, ERASED_KEYS.key)
SESSION_KEYS = (CODEC, DUPLICATES, COMBINE, NULL_FOR_MISSING, _DROP_DUPLICATES, _INDEX, *_OWN)
"""The keys that are looked up in the session, as Hudi's DataFrame writes ignore the session's settings."""

OURS = ("hoodie.vector.", "hoodie.storage.blob.", "hoodie.blob.write.")
"""The prefixes of this package's own keys, which are not passed to Hudi."""

DEFAULT_CODEC = "snappy"
"""The default was chosen by the results of benchmarks/codecs.py."""

# Operations that store both rows if two rows have the same key.
_KEEP_DUPLICATES = ("insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table")
# Indexes that find a key in any partition.
_GLOBAL_INDEXES = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")
# Settings that CREATE TABLE must store, so that later SQL writes lay out files like this write.
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
    """True if Hudi combines rows of the same key before it inserts them."""
    has_global_index: bool
    nulls_for_missing: bool

    def checks_duplicates(self, operation: str) -> bool:
        """Return True if the write must refuse a DataFrame in which a key occurs twice.

        The check is on for operations that would store both rows, unless the user chose another policy.
        """
        return operation in _KEEP_DUPLICATES and self.duplicates == "fail" and not self.combines


def read_settings(options: Mapping[str, str], session: Mapping[str, str], table: Mapping[str, str]) -> Settings:
    """Return the settings; each is read from the call's options, else the session, else the table's properties.

    Raises InvalidArgumentError if Hudi does not know the policy for duplicates.

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
        # With `drop` Hudi leaves out keys that the table has, but keeps duplicates within the new rows.
        combines=combine.lower() == "true" if combine else duplicates == "drop",
        has_global_index=(find(_INDEX) or "").upper() in _GLOBAL_INDEXES,
        nulls_for_missing=(find(NULL_FOR_MISSING) or "").lower() == "true",
    )


def hudi_options(
    request: WriteRequest, layout: Layout, settings: Settings, name: str, *, has_vectors: bool, has_blobs: bool
) -> dict[str, str]:
    """Return all options of the DataFrame write; options that the user set are kept.

    No key generator is set, as Hudi chooses it: non-partitioned without partition fields, simple for one key and one
    partition field, else complex. `name` is the Hudi table name; `has_vectors` and `has_blobs` say whether such a
    column is written or in the table.
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
        # Hudi's DataFrame writes ignore the session's settings, so the codec is passed on.
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
        # Blobs rarely repeat, so a dictionary of their bytes would only cost memory.
        made["hoodie.parquet.dictionary.enabled"] = "false"
    ours = {key: value for key, value in request.options.items() if key.startswith(OURS)}
    return {**made, **{key: value for key, value in request.options.items() if key not in ours}}


def table_properties(layout: Layout, options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties, as Hudi's SQL names them, of a catalog table that the write makes."""
    short = {"COPY_ON_WRITE": "cow", "MERGE_ON_READ": "mor"}
    properties = {"primaryKey": ",".join(layout.record_key), "type": short[layout.table_type]}
    if layout.ordering:
        properties["orderingFields"] = ",".join(layout.ordering)
    said = {"hoodie.table.ordering.fields", "hoodie.table.name"}
    lasting = {key: value for key, value in options.items() if key.startswith(_LASTING) and key not in said}
    return {**properties, **lasting}
