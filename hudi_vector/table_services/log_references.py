"""The references of a log file: those of every row in every block, superseded ones included."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa

from hudi_vector.errors import DataFileError
from hudi_vector.table_services.avro_references import avro_references
from hudi_vector.table_services.base_references import parquet_references
from hudi_vector.table_services.log_blocks import (
    AVRO_DATA,
    CDC_DATA,
    COMMAND,
    DELETE,
    PARQUET_DATA,
    SCHEMA,
    LogBlock,
    name_of,
    read_blocks,
)
from hudi_vector.table_services.references import add_references, distinct

__all__ = ["log_references", "rows_of_block", "schema_of_block"]

_AVRO_VERSION = 3
# What a change says of itself; the row before it and the row after it are records.
_PRIMITIVE = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_OF_A_CHANGE = frozenset({"op", "ts_ms", "record_key"})


def log_references(source: Any) -> pa.Table:
    """The distinct references of all blobs in a log file.

    Args:
        source: The file, open for reading at random.

    Returns:
        A table of `hudi_vector.table_services.references.REFERENCES`. Blocks of deleted keys and commands have none.

    Raises:
        DataFileError: A block is damaged, or of a type that cannot be read.
        InvalidBlobError: A blob is OUT_OF_LINE and names no path.

    Example:
        >>> log_references(pa.BufferReader(b"")).num_rows
        0
    """
    found: list[pa.Table] = []
    for block in read_blocks(source):
        if block.kind not in (COMMAND, DELETE):
            add_references(found, _of(block))
    return distinct(found)


def _of(block: LogBlock) -> pa.Table:
    if block.kind == PARQUET_DATA:
        return parquet_references(pa.BufferReader(pa.py_buffer(block.content)))
    schema = schema_of_block(block)
    if block.kind == CDC_DATA:
        _require_typed(json.loads(schema), block.offset)
    return avro_references(schema, lambda: rows_of_block(block))


def schema_of_block(block: LogBlock) -> str:
    """The schema of the rows, or of the changes, in a block of Avro.

    Raises:
        DataFileError: The block is of another type, or has no schema.
    """
    if block.kind not in (AVRO_DATA, CDC_DATA):
        raise DataFileError(f"the block at byte {block.offset} is of type {name_of(block.kind)}, which is not read")
    schema = block.header.get(SCHEMA)
    if schema is None:
        raise DataFileError(f"the block at byte {block.offset} has no schema")
    return schema.decode()


def _require_typed(schema: Any, offset: int) -> None:
    """Make sure that a block of changes holds rows as records, and not as text, which nobody here would look into."""
    for field in schema["fields"]:
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        if field["name"] not in _OF_A_CHANGE and not all(map(_is_record, kinds)):
            raise DataFileError(f"the block of changes at byte {offset} holds '{field['name']}' as no record")


def _is_record(kind: Any) -> bool:
    """Whether a branch of a row's type is null, a record or the name of one."""
    return kind["type"] == "record" if isinstance(kind, dict) else kind not in _PRIMITIVE


def rows_of_block(block: LogBlock) -> list[memoryview]:
    """The bytes of each row in a block of Avro.

    Raises:
        DataFileError: The block is damaged.
    """
    content, offset = block.content, block.offset
    version, count = struct.unpack_from(">ii", content)
    if version != _AVRO_VERSION:
        raise DataFileError(f"the rows of the block at byte {offset} have version {version}, not {_AVRO_VERSION}")
    records, place = [], 8
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, place)
        record = content[place + 4 : place + 4 + length]
        if length < 0 or len(record) != length:
            raise DataFileError(f"the block at byte {offset} is damaged: a row of {length} bytes does not fit in it")
        records.append(record)
        place += 4 + length
    if place != len(content):
        raise DataFileError(f"the block at byte {offset} is damaged: bytes are left after its last row")
    return records
