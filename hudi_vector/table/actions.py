"""What completed actions recorded about themselves: replaced file groups, the schema, the clean horizon.

From table version 8 on an action's file is an Avro container, before it is JSON (cleans: Avro in both).
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import fastavro

from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage
from hudi_vector.table.avro_schema import require_finite

__all__ = ["earliest_retained", "evolved_schema", "parse_action", "read_action", "replaced_file_ids", "written_schema"]

_AVRO_MAGIC = b"Obj\x01"
# What decoders raise over bytes that they do not expect.
_UNREADABLE = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    struct.error,
    zlib.error,
    fastavro.read.SchemaResolutionError,
    fastavro.schema.SchemaParseException,
)


def read_action(storage: Storage, uri: str) -> Mapping[str, Any]:
    """The record a completed action left in its timeline file.

    Args:
        storage: Where the table lies.
        uri: The timeline file.

    Returns:
        Its fields; empty for an empty file.

    Raises:
        DataFileError: The file is neither Avro nor JSON.
    """
    return parse_action(storage.read(uri), uri)


@lru_cache(maxsize=512)
def parse_action(content: bytes, uri: str) -> Mapping[str, Any]:
    """The record in the content of a timeline file.

    Args:
        content: All of it.
        uri: Where it lies, for the message.

    Raises:
        DataFileError: It is neither Avro nor JSON.
    """
    if not content:
        return {}
    try:
        if content.startswith(_AVRO_MAGIC):
            rows = fastavro.reader(io.BytesIO(content))
            require_finite(rows.writer_schema)
            if rows.codec != "null":  # Hudi compresses none, and what a block becomes has no bound
                raise ValueError(f"it is compressed by {rows.codec!r}, which no timeline file is")
            record: Any = next(iter(rows), {})
        else:
            record = json.loads(content)
    except _UNREADABLE as problem:
        raise DataFileError(f"the timeline file '{uri}' cannot be read: {problem}") from problem
    return record if isinstance(record, dict) else {}


def replaced_file_ids(action: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """The file groups a replacecommit replaced, as (partition path, file id)."""
    replaced = action.get("partitionToReplaceFileIds") or {}
    return frozenset((partition, file_id) for partition, ids in replaced.items() for file_id in ids or ())


def written_schema(action: Mapping[str, Any]) -> str | None:
    """The Avro schema, as JSON, of the rows a commit wrote, or None where it says none."""
    return (action.get("extraMetadata") or {}).get("schema") or None


def evolved_schema(action: Mapping[str, Any]) -> str | None:
    """The internal schema of a table whose columns are renamed or retyped on read, or None."""
    return (action.get("extraMetadata") or {}).get("latest_schema") or None


def earliest_retained(action: Mapping[str, Any]) -> str | None:
    """The first instant whose files a clean (or its plan) keeps, or None where its policy counts versions."""
    planned = action.get("earliestInstantToRetain") or {}
    return action.get("earliestCommitToRetain") or planned.get("timestamp") or None
