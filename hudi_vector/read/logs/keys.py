"""The record keys of all rows that a log file writes, changes or deletes, even if they have no effect on the slice."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.errors import DataFileError
from hudi_vector.read.logs.blocks import (
    AVRO_DATA,
    COMMAND,
    DELETE,
    PARQUET_DATA,
    TORN,
    LogBlock,
    name_of,
    read_blocks,
    rows_of_block,
    schema_of_block,
)
from hudi_vector.read.row_groups import read_group

__all__ = ["keys_of_block", "log_keys"]

_KEY = "_hoodie_record_key"
_PLAIN = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_DELETE_VERSION = 3


def _wrapper(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": kind}]}


# The schema is Hudi's HoodieDeleteRecordList: ordering values are wrapped in records, so that the union can hold values
# of any type.
_WRAPPED = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": "string",
    "Date": "int",
    "Decimal": "bytes",
    "TimeMicros": "long",
    "TimestampMicros": "long",
}
_OF_ARRAYS = ["null", *(f"{name}Wrapper" for name in _WRAPPED), _wrapper("LocalDate", "int")]
_ARRAY = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [{"name": "wrappedValues", "type": ["null", {"type": "array", "items": _OF_ARRAYS}]}],
}
_DELETES = fastavro.parse_schema(
    {
        "type": "array",
        "items": {
            "type": "record",
            "name": "HoodieDeleteRecord",
            "fields": [
                {"name": "recordKey", "type": ["null", "string"]},
                {"name": "partitionPath", "type": ["null", "string"]},
                {"name": "orderingVal", "type": ["null", *(_wrapper(*one) for one in _WRAPPED.items()), _ARRAY]},
            ],
        },
    }
)


def log_keys(source: Any) -> pa.Array:
    """Return the distinct record keys of a seekable log file as texts, including keys of blocks that were rolled back.

    Raises DataFileError if a block is damaged, if its keys cannot be read, or if a row has no key.

    Example:
        >>> log_keys(pa.BufferReader(b"")).to_pylist()
        []
    """
    found: dict[str, None] = {}
    for block in read_blocks(source):
        # Hudi's readers ignore the rows of a torn block.
        if block.kind not in (COMMAND, TORN):
            found.update(dict.fromkeys(keys_of_block(block)))
    if None in found:
        raise DataFileError("a row of the log file has no record key")
    return pa.array(found, pa.string())


def keys_of_block(block: LogBlock) -> list[str]:
    """Return the record key of each row of a block of rows or deletions; raise DataFileError as `log_keys` does."""
    try:
        if block.kind == PARQUET_DATA:
            rows = pq.ParquetFile(pa.BufferReader(pa.py_buffer(block.content)), page_checksum_verification=True)
            parts = [read_group(rows, group, [_KEY]).column(_KEY) for group in range(rows.num_row_groups)]
            return [key for part in parts for key in part.cast(pa.string()).to_pylist()]
        if block.kind == DELETE:
            return _deleted(block)
        if block.kind == AVRO_DATA:
            schema = _until_key(json.loads(schema_of_block(block)), block)
            return [_decoded(schema, row)[_KEY] for row in rows_of_block(block)]
    except (struct.error, ValueError, LookupError, EOFError, TypeError, RecursionError, pa.ArrowException) as problem:
        raise DataFileError(f"the keys of the block at byte {block.offset} cannot be read: {problem}") from problem
    raise DataFileError(f"the block at byte {block.offset} is of type {name_of(block.kind)}, which is not read")


def _deleted(block: LogBlock) -> list[str]:
    version, length = struct.unpack_from(">ii", block.content)
    if version != _DELETE_VERSION or length != len(block.content) - 8:
        raise DataFileError(f"the deleted keys of the block at byte {block.offset} have version {version}")
    return [row["recordKey"] for row in _decoded(_DELETES, block.content[8:])]


def _until_key(schema: dict[str, Any], block: LogBlock) -> Any:
    """Return the schema of rows up to the record key, because later fields need not be decoded.

    Raises DataFileError if there is no record key or a field before it is nested.
    """
    names = [field["name"] for field in schema["fields"]]
    if _KEY not in names:
        raise DataFileError(f"the rows of the block at byte {block.offset} have no record key")
    fields = schema["fields"][: names.index(_KEY) + 1]
    for field in fields:
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        if not all((kind["type"] if isinstance(kind, dict) else kind) in _PLAIN for kind in kinds):
            raise DataFileError(
                f"the rows of the block at byte {block.offset} have their record key after nested values"
            )
    return fastavro.parse_schema({"type": "record", "name": "Keyed", "fields": fields})


def _decoded(schema: Any, content: memoryview) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(content), schema, None)
