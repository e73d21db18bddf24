"""The references in a log file: those in every row of every block, superseded rows included."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.read.logs.blocks import (
    CDC_DATA,
    COMMAND,
    DELETE,
    INSTANT,
    PARQUET_DATA,
    TORN,
    LogBlock,
    read_blocks,
    rows_of_block,
    schema_of_block,
)
from hudi_vector.table_services.references.avro_references import avro_references
from hudi_vector.table_services.references.base_files import parquet_references
from hudi_vector.table_services.references.references import add_references, distinct

__all__ = ["TornTail", "log_references"]

_PRIMITIVE = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
# The fields of a CDC record other than the rows before and after the change.
_OF_A_CHANGE = frozenset({"op", "ts_ms", "record_key"})


@dataclass(frozen=True)
class TornTail:
    """The incomplete end of a log file: its first byte, and the instant that wrote it if that can be read."""

    offset: int
    instant: str | None


def log_references(source: Any) -> tuple[pa.Table, TornTail | None]:
    """Return the distinct references of all blobs in a log file, and its torn tail.

    The references are a table of `REFERENCES`; delete and command blocks have none. The tail, whose references are
    unknown, is None if the file is complete. `source` is open for random access. Raise DataFileError if a block is
    damaged or of a type that cannot be read, and InvalidBlobError if an OUT_OF_LINE blob has no path.

    Example:
        >>> log_references(pa.BufferReader(b""))[1]
        TornTail(offset=0, instant=None)
    """
    found: list[pa.Table] = []
    torn = None
    for block in read_blocks(source):
        if block.kind == TORN:
            instant = block.header.get(INSTANT)
            torn = TornTail(block.offset, instant.decode() if instant else None)
        elif block.kind not in (COMMAND, DELETE):
            add_references(found, _of(block))
    return distinct(found), torn


def _of(block: LogBlock) -> pa.Table:
    if block.kind == PARQUET_DATA:
        return parquet_references(pa.BufferReader(pa.py_buffer(block.content)))
    schema = schema_of_block(block)
    if block.kind == CDC_DATA:
        _require_typed(json.loads(schema), block.offset)
    return avro_references(schema, lambda: rows_of_block(block))


def _require_typed(schema: Any, offset: int) -> None:
    """Raise DataFileError if a CDC block holds rows as something other than records.

    Rows as text would not be searched for references.
    """
    for field in schema["fields"]:
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        if field["name"] not in _OF_A_CHANGE and not all(map(_is_record, kinds)):
            raise DataFileError(f"the block of changes at byte {offset} holds '{field['name']}' as no record")


def _is_record(kind: Any) -> bool:
    """Return True if a branch of a row's type is null, a record or the name of a record."""
    return kind["type"] == "record" if isinstance(kind, dict) else kind not in _PRIMITIVE
