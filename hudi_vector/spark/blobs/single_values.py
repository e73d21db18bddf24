"""The function ``hv.blobs.get``, which reads the blobs of single rows by their record keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.spark.blobs.functions import bytes_of
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.worker_errors import from_worker

__all__ = ["get"]

_BETWEEN = "\x00"


@known_arguments()
def get(spark: SparkSession, table: str | os.PathLike[str], keys: Any, column: str) -> dict[Any, bytes | None]:
    """Read the blobs of some rows, found by record key.

    The rows are found by a filter on the table's key fields. If Hudi's metadata table has a record index or column
    statistics, Hudi skips the files that these exclude. In the other files, Parquet statistics exclude row groups,
    which helps if rows are sorted by key. Only the blobs of the rows that were found are read.

    Args:
        spark: A registered session.
        table: A catalog name or the path of a Hudi table.
        keys: Values of the key field, text or whole numbers; for several key fields tuples of values, in the table's
            order of key fields. All bytes are collected on the driver and must fit there.
        column: A BLOB column; ``"doc.image"`` is a field of a struct.

    Returns:
        Bytes by key, None for a NULL blob. A key that the table does not have is absent.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or has no key fields.
        UnknownColumnError: There is no such column.
        InvalidTypeError: The column is not a BLOB, or a key is neither text nor a whole number.
        InvalidArgumentError: A key has another number of parts than the table's keys, or several partitions have it.
        BlobReadError: Bytes cannot be read.

    Example:
        >>> hv.blobs.get(spark, "photos", ["cat", "dog"], "image")
        {'cat': b'catcat...', 'dog': b'dogdog...'}
    """
    found = BlobTable.of(spark, table)
    (name,) = found.chosen([column])
    wanted = _texts(keys, found)
    if not wanted:
        return {}
    fetcher = BlobFetcher(found.options, found.area.table)
    rows = _rows(found, wanted).select(
        _text(found).alias("key"),
        found.partition().alias("partition"),
        bytes_of(found.blob(name), fetcher, "get").alias("value"),
    )
    try:
        collected = rows.collect()
    except PySparkException as problem:
        raise from_worker(problem) or problem from None
    by_text: dict[str, Row] = {}
    for row in collected:
        other = by_text.setdefault(row.key, row)
        if other is not row:
            raise InvalidArgumentError(
                f"partitions '{other.partition}' and '{row.partition}' of '{table}' both have the key "
                f"'{row.key.replace(_BETWEEN, ', ')}'; filter a DataFrame by partition and use read_blobs"
            )
    values = {text: None if row.value is None else bytes(row.value) for text, row in by_text.items()}
    return {key: values[text] for key, text in wanted.items() if text in values}


def _rows(table: BlobTable, wanted: dict[Any, str]) -> DataFrame:
    """Return the rows of the keys, filtered by key fields and not by ``_hoodie_record_key``.

    By ``_hoodie_record_key``, Hudi 1.2 finds nothing in a table that has a record index and whose key generator writes
    the field's name into the key.
    """
    rows = table.frame
    by_field = zip(*map(_parts, wanted), strict=True)
    for name, values in zip(table.config.record_key_fields, by_field, strict=True):
        rows = rows.where(table.field(name).isin(list(dict.fromkeys(values))))
    return rows.where(_text(table).isin(list(wanted.values())))


def _text(table: BlobTable) -> Column:
    """Return a row's key as the text that `_texts` makes of a key."""
    return F.concat_ws(_BETWEEN, *(table.field(name).cast("string") for name in table.config.record_key_fields))


def _texts(keys: Any, table: BlobTable) -> dict[Any, str]:
    """Return each key with its values as one text, as Spark casts the fields.

    Raises UnsupportedTableError if the table has no key fields, InvalidTypeError or InvalidArgumentError for a key that
    does not fit them.
    """
    fields = table.config.record_key_fields
    if not fields:
        raise UnsupportedTableError(
            f"'{table.label}' has no key fields to look for; filter a DataFrame by its columns and use read_blobs"
        )
    texts: dict[Any, str] = {}
    if not isinstance(keys, (Iterable, Integral)):
        raise InvalidTypeError(f"keys are a list of keys, or one that is text or a whole number, not {keys!r}")
    for key in [keys] if isinstance(keys, (str, Integral)) else keys:
        parts = _parts(key)
        if len(parts) != len(fields):
            raise InvalidArgumentError(
                f"the key {key!r} has {len(parts)} parts, and '{table.label}' has the key fields {', '.join(fields)}; "
                "give a tuple with a value for each"
            )
        texts[key] = _BETWEEN.join(_value_text(part, key) for part in parts)
    return texts


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _value_text(value: Any, key: Any) -> str:
    # bool is an int in Python, but Hudi writes it as 'true'.
    if isinstance(value, bool) or not isinstance(value, (str, Integral)):
        raise InvalidTypeError(
            f"the key {key!r} holds a {type(value).__name__}; give text or a whole number, as the key field holds it"
        )
    return str(value)
