"""Translation of a table's Avro schema to Arrow; VECTOR and BLOB are kept in the field metadata ``hudi_type``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hudi_vector.errors import HudiVectorError, UnsupportedTableError
from hudi_vector.schema import HUDI_TYPE, VectorType

__all__ = ["META_FIELDS", "WRITTEN_BY_HUDI", "arrow_schema", "require_finite"]

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
WRITTEN_BY_HUDI = (*META_FIELDS, "_hoodie_operation")
"""The columns that Hudi writes itself; others of such a name, for example ``_hoodie_is_deleted``, are data."""

_DEEPEST = 100
_SHAPES = ("record", "error", "enum", "fixed", "array", "map")
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
    """Return the Avro schema of a commit, given as JSON, as an Arrow schema with the types that Spark reads.

    Timestamps have microseconds, and vectors are lists. With `with_meta_fields`, Hudi's five ``_hoodie_*`` columns come
    first if the text lacks them. Raises UnsupportedTableError if the text is not an Avro schema, or holds a type that
    cannot be read.

    Example:
        >>> arrow_schema('{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}', False)
        id: int64 not null
    """
    try:
        fields = _fields(text)
    except HudiVectorError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, pa.ArrowException) as problem:
        raise UnsupportedTableError(f"the table's schema is not a valid Avro schema: {problem}") from problem
    present = {field.name for field in fields}
    meta = [pa.field(name, pa.string()) for name in META_FIELDS if name not in present] if with_meta_fields else []
    return pa.schema([*meta, *fields])


def require_finite(schema: Any) -> None:
    """Raise ValueError if a type of an Avro schema (parsed JSON) contains itself, or types are nested too deeply.

    fastavro decodes nested types without a depth limit, so rows of such a schema would crash the process.

    Example:
        >>> require_finite({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    """
    _Heights().of(schema, (), "", 0)


class _Heights:
    """The nesting depths of types; those of named types are stored, since a name may be used in place of its type."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}

    def of(self, node: Any, within: tuple[str, ...], namespace: str, depth: int) -> int:
        """Return the height of a type; `within` holds the full names of the types around it."""
        if isinstance(node, list):
            inner = [self.of(branch, within, namespace, depth + 1) for branch in node]
        elif isinstance(node, str):
            is_open = any(name == node or ("." not in node and name.endswith(f".{node}")) for name in within)
            if is_open:
                raise ValueError(f"the type '{node}' contains itself")
            inner = [self._named.get(node.rpartition(".")[2], 0)]
        elif isinstance(node, dict):
            inner = self._inner(node, within, namespace, depth)
        else:
            raise ValueError(f"a type is {type(node).__name__}")
        height = 1 + max(inner, default=0)
        if depth + height > _DEEPEST:
            raise ValueError("types are nested deeper than any table needs")
        if isinstance(node, dict) and isinstance(node.get("name"), str):
            short = node["name"].rpartition(".")[2]
            self._named[short] = max(height, self._named.get(short, 0))
        return height

    def _inner(self, node: dict[str, Any], within: tuple[str, ...], namespace: str, depth: int) -> list[int]:
        if depth > _DEEPEST:
            raise ValueError("types are nested deeper than any table needs")
        name = node.get("name")
        if isinstance(name, str) and node.get("type") in ("record", "error"):
            full = name if "." in name else ".".join(filter(None, (str(node.get("namespace") or namespace), name)))
            within, namespace = (*within, full), full.rpartition(".")[0]
        kinds = [node[key] for key in ("type", "items", "values") if isinstance(node.get(key), (dict, list, str))]
        kinds += [field["type"] for field in node.get("fields") or ()]
        return [self.of(kind, within, namespace, depth + 1) for kind in kinds if kind not in _SHAPES]


def _fields(text: str) -> list[pa.Field]:
    named: dict[str, Any] = {}
    schema = json.loads(text)
    require_finite(schema)
    return [_field(field, named) for field in schema["fields"]]


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
