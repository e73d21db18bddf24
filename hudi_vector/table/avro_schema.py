"""A table's Avro schema as an Arrow schema, VECTOR and BLOB kept in the field metadata ``hudi_type``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.schema import HUDI_TYPE, VectorType

__all__ = ["META_FIELDS", "arrow_schema"]

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Mapping[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}


def arrow_schema(text: str, with_meta_fields: bool = True) -> pa.Schema:
    """Translate the Avro schema of a commit.

    Args:
        text: The Avro schema as JSON.
        with_meta_fields: Whether Hudi's five ``_hoodie_*`` columns stand in front if the text lacks them.

    Returns:
        An Arrow schema with the types Spark reads: timestamps of microseconds, vectors as lists.

    Raises:
        UnsupportedTableError: The schema holds a type that Spark cannot read either.

    Example:
        >>> arrow_schema('{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}', False)
        id: int64 not null
    """
    named: dict[str, Any] = {}
    fields = [_field(field, named) for field in json.loads(text)["fields"]]
    present = {field.name for field in fields}
    meta = [pa.field(name, pa.string()) for name in META_FIELDS if name not in present] if with_meta_fields else []
    return pa.schema([*meta, *fields])


def _field(field: Mapping[str, Any], named: dict[str, Any]) -> pa.Field:
    avro, nullable = _strip_null(field["type"])
    avro = _resolve(avro, named)
    metadata = None
    if isinstance(avro, dict) and avro.get("logicalType") in ("vector", "blob"):
        metadata = {HUDI_TYPE: _descriptor(avro)}
    return pa.field(field["name"], _type(avro, named), nullable, metadata)


def _descriptor(avro: Mapping[str, Any]) -> str:
    if avro["logicalType"] == "blob":
        return "BLOB"
    return VectorType(int(avro["dimension"]), str(avro.get("elementType", "FLOAT")).lower()).descriptor


def _strip_null(avro: Any) -> tuple[Any, bool]:
    if not isinstance(avro, list):
        return avro, False
    rest = [branch for branch in avro if branch != "null"]
    if len(rest) != 1:
        raise UnsupportedTableError(f"the table's schema holds a union of several types, which is not readable: {avro}")
    return rest[0], len(rest) < len(avro)


def _resolve(avro: Any, named: dict[str, Any]) -> Any:
    if isinstance(avro, str):
        return named.get(avro, named.get(avro.rpartition(".")[2], avro))
    if isinstance(avro, dict) and "name" in avro:
        named[avro["name"]] = avro
        if avro.get("namespace"):
            named[f"{avro['namespace']}.{avro['name']}"] = avro
    return avro


def _type(avro: Any, named: dict[str, Any]) -> pa.DataType:
    avro = _resolve(avro, named)
    if isinstance(avro, str):
        if avro not in _PRIMITIVES:
            raise UnsupportedTableError(f"the table's schema holds an unknown type '{avro}'")
        return _PRIMITIVES[avro]
    kind, logical = avro["type"], avro.get("logicalType")
    if isinstance(kind, (dict, list)):
        return _type(_strip_null(kind)[0], named)
    if logical == "vector":
        vector = VectorType(int(avro["dimension"]), str(avro.get("elementType", "FLOAT")).lower())
        return pa.list_(pa.field("element", vector.arrow_element, nullable=False))
    if logical == "decimal":
        return pa.decimal128(int(avro["precision"]), int(avro.get("scale", 0)))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind in ("record", "error"):
        return pa.struct([_field(field, named) for field in avro["fields"]])
    if kind == "array":
        items, nullable = _strip_null(avro["items"])
        return pa.list_(pa.field("element", _type(items, named), nullable))
    if kind == "map":
        values, nullable = _strip_null(avro["values"])
        return pa.map_(pa.string(), pa.field("value", _type(values, named), nullable))
    if kind == "fixed":
        return pa.binary()
    return _type(kind, named)
