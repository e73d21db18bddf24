"""Columns of Parquet files that hold dates and timestamps of the calendar that Spark 2 used.

Spark writes so if ``spark.sql.parquet.datetimeRebaseModeInWrite`` is LEGACY, and notes it in the footer. Dates before
1582-10-15 and timestamps before 1900 are other numbers in it, which Spark converts when it reads them.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["has_times", "old_leaves"]

_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_VERSION = b"org.apache.spark.version"
_FIRST_DAY = -141_427  # 1582-10-15, in days since 1970
_FIRST_SECOND = -2_208_988_800  # 1900-01-01, in seconds since 1970
_IN_A_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def old_leaves(metadata: pq.FileMetaData) -> frozenset[int]:
    """Return the leaf columns, by number, that may hold values which that calendar counts otherwise."""
    noted = metadata.metadata or {}
    is_old = any(key in noted for key in _LEGACY) or noted.get(_VERSION, b"3").startswith((b"1.", b"2."))
    if not is_old:
        return frozenset()
    return frozenset(leaf for leaf in range(metadata.num_columns) if _may_be_old(metadata, leaf))


def has_times(kind: pa.DataType) -> bool:
    """Return True if values of this type are, or hold, dates or timestamps.

    Example:
        >>> has_times(pa.list_(pa.struct({"day": pa.date32()}))), has_times(pa.string())
        (True, False)
    """
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    return any(has_times(kind.field(number).type) for number in range(kind.num_fields))


def _may_be_old(metadata: pq.FileMetaData, leaf: int) -> bool:
    column = metadata.schema.column(leaf)
    if column.physical_type == "INT96":
        return True  # which has no statistics
    kind = json.loads(column.logical_type.to_json())
    if kind["Type"] not in ("Date", "Timestamp"):
        return False
    first = _FIRST_DAY if kind["Type"] == "Date" else _FIRST_SECOND * _IN_A_SECOND[kind["timeUnit"]]
    chunks = (metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups))
    return any(_may_begin_before(chunk, first) for chunk in chunks)


def _may_begin_before(chunk: pq.ColumnChunkMetaData, first: int) -> bool:
    found = chunk.statistics
    if found is not None and found.has_min_max:
        return bool(found.min_raw < first)
    return found is None or not found.has_null_count or found.null_count < chunk.num_values
