"""The valid versions of rows of given record keys in a file slice with log files, merged as Hudi merges them.

hudi-rs cannot merge rows with BLOB columns. So it merges a copy of the slice that has only the rows of the keys, and of
these rows only Hudi's meta columns, the key fields and the ordering fields. The copy shows which versions are valid;
their other columns are taken from the base file or from the rows of the log files.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_vector.errors import DataFileError, UnmergeableError
from hudi_vector.read.logs.blocks import (
    AVRO_DATA,
    COMMAND,
    DELETE,
    MAGIC,
    PARQUET_DATA,
    SCHEMA,
    TORN,
    LogBlock,
    name_of,
    read_blocks,
    rows_of_block,
)
from hudi_vector.read.logs.keys import keys_of_block
from hudi_vector.read.logs.merged import unmergeable
from hudi_vector.read.logs.partial_rows import PARTIAL
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table.avro_names import with_full_names
from hudi_vector.table.avro_schema import require_finite
from hudi_vector.table.config import PROPERTIES, read_properties
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["LogVersions", "Version", "log_versions", "merged_columns", "valid_versions"]

Version = tuple[str, str]
"""A version of a row: its record key and its commit sequence number."""

_KEY, _SEQNO = "_hoodie_record_key", "_hoodie_commit_seqno"
_MARKS = ("_hoodie_is_deleted", "_hoodie_operation")
# Header entries with positions of rows in the base file, whose copy has other positions.
_POSITIONS = (5, 8)


@dataclass(frozen=True)
class LogVersions:
    """The rows of given keys in the log files of a slice.

    `rows` are the decoded rows; `files` are the contents of log files with nothing but these rows and deletions.
    """

    rows: Mapping[Version, Mapping[str, Any]]
    files: tuple[bytes, ...]


def merged_columns(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the columns that decide a merge."""
    config = snapshot.config
    meta = (name for name in snapshot.schema.names if name.startswith("_hoodie_"))
    return frozenset((*meta, *_MARKS, *config.record_key_fields, *config.ordering_fields))


def log_versions(
    file_slice: FileSlice, keys: Collection[str] | None, names: Collection[str], options: StorageOptions
) -> LogVersions | None:
    """Read the rows of the keys in the log files of a slice; None if no log file changes or deletes one of them.

    `keys` is None for all rows.

    `names` are the columns that decide a merge. Raises DataFileError if a log file is missing or cannot be read, and
    UnmergeableError if it holds rows with only some of their columns.
    """
    rows: dict[Version, Mapping[str, Any]] = {}
    files, is_touched = [], False
    for log in file_slice.log_files:
        parts = []
        with reading(log.uri), open_storage(log.uri, options).open(log.uri, mapped=False) as source:
            for block in read_blocks(source):
                reduced = _reduced(block, None if keys is None else frozenset(keys), names, rows)
                if reduced is not None:
                    is_touched |= block.kind != COMMAND
                    parts.append(_framed(*reduced))
        files.append(b"".join(parts))
    return LogVersions(rows, tuple(files)) if is_touched else None


def valid_versions(
    snapshot: Snapshot, file_slice: FileSlice, base: pa.Table, logs: LogVersions, options: StorageOptions
) -> set[Version]:
    """Return the versions of rows that are valid after the merge; of deleted rows there is none.

    `base` are the rows of the keys in the base file, with the columns that decide a merge. Raises UnmergeableError if
    hudi-rs cannot merge the rows.
    """
    assert file_slice.base_file is not None
    storage, root = open_storage(snapshot.source.uri, options), snapshot.source.uri
    folder = tempfile.mkdtemp(prefix="hudi-vector-")
    try:
        settings = read_properties(storage.read, root) or b""
        paths = [file.uri.removeprefix(f"{root}/") for file in file_slice.files]
        for path, content in zip([PROPERTIES, *paths[1:]], [settings, *logs.files], strict=True):
            _write(f"{folder}/{path}", content)
        _write(f"{folder}/{paths[0]}", b"")
        pq.write_table(base, f"{folder}/{paths[0]}", compression="none", store_schema=False)
        return set(_merged(folder, paths, file_slice.file_id))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _merged(folder: str, paths: list[str], file_id: str) -> Iterator[Version]:
    from hudi import HudiFileGroupReader, HudiReadOptions

    try:
        reader = HudiFileGroupReader(f"file://{folder}", {})
        wanted = HudiReadOptions(projection=[_KEY, _SEQNO])
        for batch in reader.read_file_slice_from_paths_stream(paths[0], paths[1:], wanted):
            rows = pa.record_batch(batch)
            yield from zip(rows.column(_KEY).to_pylist(), rows.column(_SEQNO).to_pylist(), strict=True)
    except Exception as problem:
        raise unmergeable(file_id, problem) from problem


def _reduced(
    block: LogBlock, keys: frozenset[str] | None, names: Collection[str], found: dict[Version, Mapping[str, Any]]
) -> tuple[int, Mapping[int, bytes], bytes] | None:
    """Return type, header and content of a block reduced to rows of the keys, None if it has none; add to `found`."""
    if block.kind == TORN:
        return None
    if block.kind == COMMAND:
        return COMMAND, block.header, bytes(block.content)
    if block.kind == DELETE:
        is_one = keys is None or not keys.isdisjoint(keys_of_block(block))
        return (DELETE, block.header, bytes(block.content)) if is_one else None
    if PARTIAL in block.header:
        raise UnmergeableError("a log file holds rows with only some of their columns")
    if block.kind not in (AVRO_DATA, PARQUET_DATA) or SCHEMA not in block.header:
        raise DataFileError(f"the block at byte {block.offset} is of type {name_of(block.kind)}, which is not read")
    schema = json.loads(block.header[SCHEMA])
    try:
        rows = [row for row in _rows(block, schema, keys) if keys is None or row[_KEY] in keys]
        found.update({(row[_KEY], row[_SEQNO]): row for row in rows})
        narrow = {**schema, "fields": [field for field in schema["fields"] if field["name"] in names]}
        content = _encoded(rows, narrow)
    except (struct.error, TypeError, fastavro.schema.SchemaParseException) as problem:
        raise DataFileError(f"the rows of the block at byte {block.offset} cannot be read: {problem}") from problem
    return (AVRO_DATA, {**block.header, SCHEMA: json.dumps(narrow).encode()}, content) if rows else None


def _rows(block: LogBlock, schema: dict[str, Any], keys: Collection[str] | None) -> list[dict[str, Any]]:
    """Return the decoded rows of the keys, and maybe a few others, of a data block."""
    if block.kind == PARQUET_DATA:
        table = pq.ParquetFile(pa.BufferReader(pa.py_buffer(block.content)), page_checksum_verification=True).read()
        if keys is not None:
            table = table.filter(pc.is_in(table[_KEY].cast(pa.string()), value_set=pa.array(keys, pa.string())))
        held: list[dict[str, Any]] = table.to_pylist()
        return held
    named = with_full_names(schema)
    require_finite(named)
    parsed, texts = fastavro.parse_schema(named), None if keys is None else [key.encode() for key in keys]
    likely = (bytes(row) for row in rows_of_block(block))
    return [_decoded(parsed, row) for row in likely if texts is None or any(text in row for text in texts)]


def _decoded(schema: Any, row: bytes) -> dict[str, Any]:
    found: Any = fastavro.schemaless_reader(io.BytesIO(row), schema, None)
    return dict(found)


def _encoded(rows: list[dict[str, Any]], schema: dict[str, Any]) -> bytes:
    parsed, parts = fastavro.parse_schema(schema), [struct.pack(">ii", 3, len(rows))]
    for row in rows:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, {field["name"]: row.get(field["name"]) for field in schema["fields"]})
        parts += [struct.pack(">i", len(sink.getvalue())), sink.getvalue()]
    return b"".join(parts)


def _framed(kind: int, header: Mapping[int, bytes], content: bytes) -> bytes:
    """Return a block in Hudi's framing, without positions of rows."""
    kept = {key: value for key, value in header.items() if key not in _POSITIONS}
    entries = b"".join(struct.pack(">ii", key, len(value)) + value for key, value in kept.items())
    body = struct.pack(">iii", 1, kind, len(kept)) + entries + struct.pack(">q", len(content)) + content
    body += struct.pack(">i", 0)
    return MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 8 + len(MAGIC))


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
