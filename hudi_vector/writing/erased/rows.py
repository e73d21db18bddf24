"""Rows of a write whose record keys were erased from the table: they are counted, and left out or refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType, StructType

from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.options import ERASED_KEYS
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.local_rows import arrow_frame
from hudi_vector.spark.catalyst.nested_fields import field_at, field_path
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import normalise
from hudi_vector.writing.erased.deny_list import ErasedKeys, read_erased

__all__ = ["OFF", "without_erased"]

OFF, _DROP = "off", "drop"
_DIGEST = "__hudi_vector_erased"
_AS_TEXT = (StringType, ByteType, ShortType, IntegerType, LongType)

_LOG = logging.getLogger(__name__)


def without_erased(df: DataFrame, table: str, keys: Sequence[str], policy: str) -> tuple[DataFrame, int]:
    """Return the rows whose keys were not erased from a table, and how many were; the key columns are read for that.

    Args:
        df: The rows of a write.
        table: The table's base path.
        keys: The record key's columns.
        policy: ``drop`` to leave erased keys out, ``fail`` to refuse the write.

    Raises:
        InvalidArgumentError: The policy is ``fail`` and there are erased keys, or a key column cannot be compared.
        DataFileError: The list of erased keys is damaged.
    """
    spark = df.sparkSession
    root = normalise(table)
    erased = read_erased(root, storage_options(spark, root))
    if erased is None:
        return df, 0
    digests = pa.table({_DIGEST: pa.array(erased.digests, pa.string())})
    listed = F.broadcast(arrow_frame(spark, digests, StructType().add(_DIGEST, StringType())))
    found = 0
    for key in _keys_of(df, keys):
        same = _digest(erased, key) == F.col(_DIGEST)
        found += df.join(listed, same, "left_semi").count()
        df = df.join(listed, same, "left_anti")
    if found and policy != _DROP:
        raise InvalidArgumentError(
            f"nothing was written: {number_of(found, 'row has', 'rows have')} record keys that were erased from "
            f"'{table}'; leave them out, or "
            f"set {ERASED_KEYS.key} to drop"
        )
    if found:
        _LOG.warning("%d rows were left out, since their record keys were erased from '%s'", found, table)
    return df, found


def _digest(erased: ErasedKeys, key: Column) -> Column:
    return F.sha2(F.concat(F.lit(erased.salt), key), 256)


def _keys_of(df: DataFrame, keys: Sequence[str]) -> list[Column]:
    """Return the record key of each row in each form in which Hudi's key generators may write it."""
    texts = {name: _text(df, name) for name in keys}
    parts = []
    for name, text in texts.items():
        # Hudi has these words for values without a text.
        word = F.when(text.isNull(), F.lit("__null__")).when(text == "", F.lit("__empty__")).otherwise(text)
        parts.append(F.concat(F.lit(f"{name}:"), word))
    named = F.concat_ws(",", *parts)
    # Hudi's generator of complex keys, which any table may use, names the column of a single key too, or not.
    return [named] if len(keys) > 1 else [*texts.values(), named]


def _text(df: DataFrame, name: str) -> Column:
    found = field_at(df.schema, name)
    if found is None or not isinstance(found.dataType, _AS_TEXT):
        kind = "missing" if found is None else found.dataType.simpleString()
        raise InvalidArgumentError(
            f"{ERASED_KEYS.key} compares record keys as texts, and column '{name}' is {kind}; make it a string or a "
            "whole number, or set it to off"
        )
    return F.col(quoted(*field_path(df.schema, name))).cast("string")
