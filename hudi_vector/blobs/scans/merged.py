"""The merge of a base file with the log files of its slice: which of its rows stay, and which rows logs add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.reading.by_key import why_unmergeable
from hudi_vector.blobs.struct import Flags
from hudi_vector.errors import UnmergeableError
from hudi_vector.read.logs.base_rows import base_rows
from hudi_vector.read.logs.keys import log_keys
from hudi_vector.read.logs.versions import LogVersions, log_versions, merged_columns, valid_versions
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.table.model import FileSlice, Snapshot

__all__ = ["KEY", "SEQNO", "MergedRows", "logs_of", "merge"]

KEY, SEQNO = "_hoodie_record_key", "_hoodie_commit_seqno"


@dataclass(frozen=True)
class MergedRows:
    """The valid rows of a slice: which rows of the base file stay, shape (n,), and the decoded rows of log files."""

    stays: Flags
    logged: tuple[Mapping[str, Any], ...]


def logs_of(snapshot: Snapshot, file_slice: FileSlice) -> LogVersions | None:
    """Return the rows of a slice's log files; None if they change nothing.

    Raises DataFileError if a log file is gone or damaged, UnmergeableError if only Spark can merge them.
    """
    logs = log_versions(file_slice, None, merged_columns(snapshot), snapshot.source.options)
    reason = None if logs is None else why_unmergeable(snapshot, file_slice)
    if reason is not None:
        raise UnmergeableError(f"'{snapshot.source.name}' cannot be read without Spark: {reason}; compact it first")
    return logs


def merge(snapshot: Snapshot, file_slice: FileSlice, base: pa.Table, logs: LogVersions) -> MergedRows:
    """Return the rows that are valid after Hudi's merge; `base` has KEY and SEQNO of all rows of the base file."""
    file, options = file_slice.base_file, snapshot.source.options
    assert file is not None
    touched = np.asarray(pc.is_in(base[KEY], value_set=_touched(file_slice, options)))
    stored = _stored(file, np.flatnonzero(touched), merged_columns(snapshot), options)
    valid = valid_versions(snapshot, file_slice, stored, logs, options)
    versions = zip(base[KEY].to_pylist(), base[SEQNO].to_pylist(), strict=True)
    stays = [
        not is_touched or (each in valid and each not in logs.rows)
        for each, is_touched in zip(versions, touched.tolist(), strict=True)
    ]
    logged = tuple(logs.rows[each] for each in sorted(valid) if each in logs.rows)
    return MergedRows(np.array(stays, np.bool_), logged)


def _touched(file_slice: FileSlice, options: StorageOptions) -> pa.Array:
    """Return the record keys that log files write, change or delete."""
    parts = [pa.array([], pa.string())]
    for log in file_slice.log_files:
        with reading(log.uri), open_storage(log.uri, options).open(log.uri, mapped=False) as source:
            parts.append(log_keys(source))
    return pa.concat_arrays(parts)


def _stored(file: FileInfo, rows: Any, names: Iterable[str], options: StorageOptions) -> pa.Table:
    """Return the columns that decide a merge of rows of a base file, as it stores them."""
    data = DataFile(file, options, mapped=False)
    try:
        held = data.metadata.schema.to_arrow_schema()
        schema = pa.schema([field for field in held if field.name in names])
        return pa.concat_tables([schema.empty_table(), *base_rows(file, options, rows, schema, data)])
    finally:
        data.close()
