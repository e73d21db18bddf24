"""Spark expressions that change the references of BLOB columns and nothing else in a row."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import StructType

from hudi_vector.schema import BLOB, HUDI_TYPE, quoted
from hudi_vector.spark.blobs.functions import whole

__all__ = ["blob_at", "moved_blob", "with_blob"]

_IS_BLOB = {HUDI_TYPE: BLOB}


def blob_at(name: str) -> Column:
    """Return a BLOB column by its dotted path, as a struct that is read whole."""
    top, *below = name.split(".")
    return whole(reduce(lambda struct, part: struct[part], below, whole(F.col(quoted(top)))))


def moved_blob(blob: Column, path: Column, offset: Column | None = None, length: Column | None = None) -> Column:
    """Return a blob that refers to another place; its `managed` stays.

    `blob` must be an OUT_OF_LINE blob, read whole. Offset and length stay the same if None.
    """
    old = blob["reference"]
    fields = {
        "external_path": path,
        "offset": old["offset"] if offset is None else offset,
        "length": old["length"] if length is None else length,
        "managed": old["managed"],
    }
    reference = F.struct(*(column.alias(name) for name, column in fields.items()))
    return F.struct(blob["type"].alias("type"), blob["data"].alias("data"), reference.alias("reference"))


def with_blob(rows: DataFrame, name: str, blob: Column) -> DataFrame:
    """Return the rows with the BLOB column at a dotted path replaced."""
    top, *below = name.split(".")
    if not below:
        return rows.withColumn(top, blob.alias(top, metadata=_IS_BLOB))
    field = rows.schema[top]
    assert isinstance(field.dataType, StructType)
    rebuilt = _rebuilt(whole(F.col(quoted(top))), field.dataType, below, blob)
    return rows.withColumn(top, rebuilt.alias(top, metadata=field.metadata))


def _rebuilt(struct: Column, kind: StructType, path: list[str], blob: Column) -> Column:
    """Return the struct with a blob in it replaced; `withField` would lose the metadata that marks fields as blobs."""
    fields = []
    for field in kind.fields:
        value = struct[field.name]
        if field.name == path[0]:
            inner = field.dataType
            assert isinstance(inner, StructType)
            value = _rebuilt(value, inner, path[1:], blob) if path[1:] else blob
        fields.append(value.alias(field.name, metadata=field.metadata))
    return F.when(struct.isNotNull(), F.struct(*fields))
