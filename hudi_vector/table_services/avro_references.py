"""The references of rows in Avro: only what blobs refer to is decoded, all else is passed over."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError

from hudi_vector.errors import DataFileError
from hudi_vector.table.avro_schema import arrow_schema
from hudi_vector.table_services.avro_names import with_full_names
from hudi_vector.table_services.references import REFERENCE_FIELDS, REFERENCES, add_references, distinct, references_in

__all__ = ["avro_references"]

_BATCH_ROWS = 1 << 16
_NAMED = ("record", "error", "enum", "fixed")


def avro_references(schema: str, records: Callable[[], Sequence[memoryview]]) -> pa.Table:
    """The distinct references of rows in Avro's binary form.

    Args:
        schema: The Avro schema the rows were written with, as JSON.
        records: Gives the bytes of each row; not called where the schema has no blob.

    Returns:
        A table of `hudi_vector.table_services.references.REFERENCES`.

    Raises:
        DataFileError: A row does not end where its bytes end.
        InvalidBlobError: A blob is OUT_OF_LINE and names no path.

    Example:
        >>> schema = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}'
        >>> avro_references(schema, list).num_rows
        0
    """
    written, wanted, arrow = _schemas(schema)
    if wanted is None:
        return REFERENCES.empty_table()
    found: list[pa.Table] = []
    rows: list[Any] = []
    for row in _decoded(records(), written, wanted):
        rows.append(row)
        if len(rows) == _BATCH_ROWS:
            add_references(found, references_in(pa.Table.from_pylist(rows, arrow)))
            rows = []
    add_references(found, references_in(pa.Table.from_pylist(rows, arrow)))
    return distinct(found)


def _decoded(records: Sequence[memoryview], written: Any, wanted: Any) -> Iterator[Any]:
    for number, record in enumerate(records):
        stream = io.BytesIO(record)
        try:
            row = fastavro.schemaless_reader(stream, written, wanted)
        except SchemaResolutionError as problem:
            raise DataFileError(f"row {number} of a block does not fit its schema: {problem}") from problem
        if stream.tell() != len(record):
            raise DataFileError(f"row {number} of a block has {len(record)} bytes and its schema {stream.tell()}")
        yield row


@lru_cache(maxsize=64)
def _schemas(text: str) -> tuple[Any, Any, pa.Schema | None]:
    """The schema of the rows, the part of it that holds references, and that part in Arrow."""
    named: dict[str, Any] = {}
    written = fastavro.parse_schema(with_full_names(json.loads(text)), named)
    part = _Part(named).of(written)
    if part is None:
        return written, None, None
    return written, fastavro.parse_schema(part), arrow_schema(json.dumps(part), with_meta_fields=False)


class _Part:
    """What of a schema leads to references; names are full ones, as fastavro's parsed schemas have them."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._known: dict[str, bool] = {}
        self._open: set[str] = set()

    def of(self, node: Any) -> Any | None:
        """The part of a type, None where there is no reference in it."""
        if isinstance(node, str):
            return self.of(self._named[node]) if node in self._named else None
        if isinstance(node, list):
            parts = [part for branch in node if (part := self.of(branch)) is not None]
            return ["null", *parts] if parts and "null" in node else parts or None
        kind = node["type"]
        if kind in ("record", "error"):
            return self._record(node)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            part = self.of(node[inner])
            return None if part is None else {"type": kind, inner: part}
        return self.of(kind) if isinstance(kind, (dict, list)) else None

    def _record(self, node: Any) -> Any | None:
        name = node["name"]
        if name in self._open:
            raise DataFileError(f"the type '{name}' contains itself")
        if name in self._known:
            # What a schema defines twice it names the second time.
            return name if self._known[name] else None
        self._open.add(name)
        names = [field["name"] for field in node["fields"]]
        is_reference, is_blob = set(REFERENCE_FIELDS) <= set(names), {"type", "reference"} <= set(names)
        fields = []
        for field in node["fields"]:
            if is_reference:
                part = field["type"] if field["name"] in REFERENCE_FIELDS else None
            elif is_blob and field["name"] == "type":
                part = self._defined(field["type"])
            else:
                part = self.of(field["type"])
            if part is not None:
                fields.append({"name": field["name"], "type": part})
        self._open.discard(name)
        self._known[name] = is_reference or any(field["name"] != "type" for field in fields)
        return {"type": "record", "name": name, "fields": fields} if self._known[name] else None

    def _defined(self, node: Any) -> Any:
        """A type as it is, defined where it is first used."""
        if isinstance(node, str) and node in self._named and node not in self._known:
            node = self._named[node]
        if isinstance(node, dict) and node["type"] in _NAMED:
            if node["name"] in self._known:
                return node["name"]
            self._known[node["name"]] = True
        return node
