"""The records of completed actions: replaced file groups, the written schema, the earliest retained instant.

From table version 8 on the file of an action is an Avro container; in earlier versions it is JSON, except that cleans
are Avro.
"""

from __future__ import annotations

import io
import json
import posixpath
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import fastavro

from hudi_vector.errors import DataFileError
from hudi_vector.storage import Storage, join
from hudi_vector.table.avro_schema import require_finite
from hudi_vector.table.names import parse_base_file, parse_log_file

__all__ = [
    "changed_file_groups",
    "cleaned_paths",
    "earliest_retained",
    "evolved_schema",
    "files_named",
    "is_service",
    "log_files_of",
    "parse_action",
    "read_action",
    "replaced_file_ids",
    "saved_paths",
    "smallest_base_file",
    "undone_commits",
    "write_statistics",
    "written_files",
    "written_schema",
]

_AVRO_MAGIC = b"Obj\x01"
_READ_STATISTICS = ("path", "fileSizeInBytes", "totalWriteBytes", "numInserts", "numUpdateWrites", "numDeletes")
_SERVICES = ("CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT")
# The errors that decoders raise on unexpected bytes.
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
    """Return the record in the timeline file of a completed action, empty for an empty file.

    Raises DataFileError if the file is neither Avro nor JSON.
    """
    return parse_action(storage.read(uri), uri)


def parse_action(content: bytes, uri: str) -> Mapping[str, Any]:
    """Return the record in the content of a timeline file, empty for no content.

    Raises DataFileError, naming `uri`, if the content is neither Avro nor JSON.
    """
    if not content:
        return {}
    try:
        if content.startswith(_AVRO_MAGIC):
            rows = fastavro.reader(io.BytesIO(content))
            require_finite(rows.writer_schema)
            if rows.codec != "null":  # Hudi compresses none; a decompressed block has no size limit
                raise ValueError(f"it is compressed by {rows.codec!r}, which no timeline file is")
            record: Any = next(iter(rows), {})
        else:
            record = json.loads(content)
        return _without_unread(record) if isinstance(record, dict) else {}
    except _UNREADABLE as problem:
        raise DataFileError(f"the timeline file '{uri}' cannot be read: {problem}") from problem


def _without_unread(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose statistics of writes are those that are read here: a commit may have written many files."""
    statistics = record.get("partitionToWriteStats")
    if isinstance(statistics, dict):
        kept = {
            partition: [{name: one[name] for name in _READ_STATISTICS if name in one} for one in several or ()]
            for partition, several in statistics.items()
        }
        record = {**record, "partitionToWriteStats": kept}
    return record


def files_named(action: Mapping[str, Any]) -> int:
    """Return how many files and partitions an action names, to which its size in memory is in proportion.

    Example:
        >>> files_named({"partitionToWriteStats": {"a": [{"path": "a/f"}, {"path": "a/g"}], "b": None}})
        3
    """
    found = 0
    for name in ("partitionToWriteStats", "partitionToReplaceFileIds", "partitionMetadata"):
        held = action.get(name)
        for part in held.values() if isinstance(held, dict) else ():
            files = part.get("successDeleteFiles") if isinstance(part, dict) else part
            found += len(files) if isinstance(files, list) else 1
    return found


def replaced_file_ids(action: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return the file groups that a replacecommit replaced, as (partition path, file id)."""
    replaced = action.get("partitionToReplaceFileIds") or {}
    return frozenset((partition, file_id) for partition, ids in replaced.items() for file_id in ids or ())


def changed_file_groups(action: Mapping[str, Any]) -> frozenset[tuple[str, str]] | None:
    """Return the file groups that a commit wrote or replaced, or None if a file that it wrote has an unknown name.

    Each is a pair of partition path and file id.

    Example:
        >>> changed_file_groups({"partitionToWriteStats": {"a": [{"path": "a/f1-0_0-1-2_20260101000000000.parquet"}]}})
        frozenset({('a', 'f1-0')})
    """
    written = set()
    for path in written_files(action):
        partition, _, name = path.rpartition("/")
        found = parse_base_file(name) or parse_log_file(name)
        if found is None:
            return None
        written.add((partition, found.file_id))
    return replaced_file_ids(action) | written


def written_schema(action: Mapping[str, Any]) -> str | None:
    """Return the Avro schema, as JSON, of the rows that a commit wrote, or None if it recorded none."""
    return (action.get("extraMetadata") or {}).get("schema") or None


def is_service(action: Mapping[str, Any]) -> bool:
    """Return True if a table service wrote a commit, whose schema is not the table's (Hudi's `canUpdateSchema`)."""
    return str(action.get("operationType") or "").upper() in _SERVICES


def write_statistics(action: Mapping[str, Any]) -> list[Any]:
    """Return what a commit says of each file that it wrote.

    Example:
        >>> write_statistics({"partitionToWriteStats": {"a": [{"path": "a/f"}], "b": None}})
        [{'path': 'a/f'}]
    """
    return [one for several in (action.get("partitionToWriteStats") or {}).values() for one in several or ()]


def written_files(action: Mapping[str, Any]) -> dict[str, int]:
    """Return the files that a commit wrote by their paths below the table, with the bytes that it says it wrote, or 0.

    Example:
        >>> written_files({"partitionToWriteStats": {"a": [{"path": "a/f", "fileSizeInBytes": 9}, {"path": None}]}})
        {'a/f': 9}
    """
    found = ((one.get("path"), one.get("fileSizeInBytes")) for one in write_statistics(action))
    return {path: size if isinstance(size, int) else 0 for path, size in found if isinstance(path, str)}


def log_files_of(action: Mapping[str, Any]) -> set[str]:
    """Return the names of the log files that a commit wrote, or a rollback.

    Example:
        >>> log_files_of({"partitionMetadata": {"a": {"rollbackLogFiles": {"/t/a/.f_1.log.2_0-1-2": 105}}}})
        {'.f_1.log.2_0-1-2'}
    """
    rolled = (action.get("partitionMetadata") or {}).values()
    marks = (path for partition in rolled for path in partition.get("rollbackLogFiles") or ())
    names = (posixpath.basename(path) for path in (*written_files(action), *marks))
    return {name for name in names if ".log." in name}


def smallest_base_file(action: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the path below the table, and the bytes, of the smallest Parquet file that a commit wrote, or None."""
    files = [(one.get("path"), one.get("fileSizeInBytes")) for one in write_statistics(action)]
    kept = [(size, path) for path, size in files if _is_base_file(path) and isinstance(size, int) and size > 0]
    return (min(kept)[1], min(kept)[0]) if kept else None


def _is_base_file(path: Any) -> bool:
    return isinstance(path, str) and path.endswith(".parquet") and not {"", ".", ".."} & set(path.split("/"))


def evolved_schema(action: Mapping[str, Any]) -> str | None:
    """Return the internal schema of a table whose columns are renamed or retyped on read, or None."""
    return (action.get("extraMetadata") or {}).get("latest_schema") or None


def cleaned_paths(action: Mapping[str, Any]) -> list[str]:
    """Return the paths below the table of the data files that a clean removed, or plans to remove.

    Example:
        >>> cleaned_paths({"partitionMetadata": {"a": {"successDeleteFiles": ["/t/a/f1", "f2"]}}})
        ['a/f1', 'a/f2']
        >>> cleaned_paths({"filePathsToBeDeletedPerPartition": {"": [{"filePath": "/t/f3"}]}})
        ['f3']
    """
    ended, planned = action.get("partitionMetadata"), action.get("filePathsToBeDeletedPerPartition")
    removed = {partition: clean.get("successDeleteFiles") for partition, clean in (ended or {}).items()}
    removed |= {partition: [file["filePath"] for file in files] for partition, files in (planned or {}).items()}
    return [
        posixpath.join(partition, str(path).rpartition("/")[2])
        for partition, paths in removed.items()
        for path in paths or ()
    ]


def saved_paths(action: Mapping[str, Any]) -> list[str]:
    """Return the paths below the table of the data files that a savepoint keeps.

    Example:
        >>> saved_paths({"partitionMetadata": {"a": {"savepointDataFile": ["f1"]}}})
        ['a/f1']
    """
    kept = (action.get("partitionMetadata") or {}).items()
    return [join(*filter(None, [partition, name])) for partition, held in kept for name in held["savepointDataFile"]]


def undone_commits(action: Mapping[str, Any]) -> list[str]:
    """Return the instants that a rollback or a restore took back.

    Example:
        >>> undone_commits({"commitsRollback": ["20260101000000000"]})
        ['20260101000000000']
    """
    return [*(action.get("commitsRollback") or ()), *(action.get("instantsToRollback") or ())]


def earliest_retained(action: Mapping[str, Any]) -> str | None:
    """Return the earliest instant whose files a clean (or its plan) keeps, or None if its policy counts versions."""
    planned = action.get("earliestInstantToRetain") or {}
    return action.get("earliestCommitToRetain") or planned.get("timestamp") or None
