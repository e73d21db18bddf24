"""What completed actions recorded about themselves: replaced file groups, the schema, the clean horizon.

From table version 8 on an action's file is an Avro container, before it is JSON (cleans: Avro in both).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import fastavro

from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage

__all__ = ["earliest_retained", "evolved_schema", "read_action", "replaced_file_ids", "written_schema"]

_AVRO_MAGIC = b"Obj\x01"


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
    return _parse(storage.read(uri), uri)


@lru_cache(maxsize=512)
def _parse(content: bytes, uri: str) -> Mapping[str, Any]:
    if not content:
        return {}
    try:
        if content.startswith(_AVRO_MAGIC):
            record: Any = next(iter(fastavro.reader(io.BytesIO(content))), {})
        else:
            record = json.loads(content)
    except (ValueError, EOFError, KeyError) as problem:
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
