"""Blobs of single rows of a table whose layout only Hudi's own reader understands: a Spark job finds the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.spark.blobs.functions import bytes_of
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.worker_errors import from_worker

__all__ = ["rows_by_key"]

_BETWEEN = "\x00"


def rows_by_key(
    table: BlobTable, wanted: Mapping[Any, tuple[str, ...]], column: str
) -> list[tuple[tuple[str, ...], str, bytes | None]]:
    """Return the key fields as text, the partition and the blob of each row that has one of the keys.

    `wanted` has the texts of the key fields by the values that the caller gave; `column` is one of the table's BLOB
    columns.
    """
    fetcher = BlobFetcher(table.options, table.area.table)
    fields = table.config.record_key_fields
    rows = _rows(table, wanted).select(
        F.array(*(table.field(field).cast("string") for field in fields)).alias("key"),
        table.partition().alias("partition"),
        bytes_of(table.blob(column), fetcher, "get").alias("value"),
    )
    try:
        collected = rows.collect()
    except (PySparkException, Py4JJavaError) as problem:
        raise from_worker(problem) or problem from None
    return [(tuple(row.key), row.partition, None if row.value is None else bytes(row.value)) for row in collected]


def _rows(table: BlobTable, wanted: Mapping[Any, tuple[str, ...]]) -> DataFrame:
    """Return the rows of the keys, filtered by key fields and not by ``_hoodie_record_key``.

    By ``_hoodie_record_key``, Hudi 1.2 finds nothing in a table that has a record index and whose key generator writes
    the field's name into the key.
    """
    rows = table.frame
    by_field = zip(*(key if isinstance(key, tuple) else (key,) for key in wanted), strict=True)
    for name, values in zip(table.config.record_key_fields, by_field, strict=True):
        rows = rows.where(table.field(name).isin(list(dict.fromkeys(values))))
    texts = F.concat_ws(_BETWEEN, *(table.field(name).cast("string") for name in table.config.record_key_fields))
    return rows.where(texts.isin(list(map(_BETWEEN.join, wanted.values()))))
