"""The record keys of a base file, and their hashes."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa

from hudi_vector.read.logs.key_hashes import KeyHashes, hashed
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.storage import FileInfo, StorageOptions

__all__ = ["hashes_of_file", "keys_of_file"]

_KEY = "_hoodie_record_key"
_BATCH_ROWS = 1 << 16


def keys_of_file(file: FileInfo, options: StorageOptions) -> pa.ChunkedArray:
    """Return the record key of each row as text, from a base file with meta columns.

    Raises DataFileError if the file is missing or damaged.
    """
    data = DataFile(file, options, mapped=True, checked=True)
    with reading(file.uri), contextlib.closing(data):
        groups = range(data.metadata.num_row_groups)
        with data.ahead([one for group in groups for one in data.ranges(group, [_KEY])]):
            parts = [data.columns(group, [_KEY]).column(_KEY).cast(pa.string()) for group in groups]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())


def hashes_of_file(file: FileInfo, options: StorageOptions) -> KeyHashes | None:
    """Return the hashes of the record keys of a base file, read in batches; None if a row has no key.

    Raises DataFileError if the file is missing or damaged.
    """
    data = DataFile(file, options, mapped=False, checked=True)
    parts = [np.empty(0, np.uint64)]
    with reading(file.uri), contextlib.closing(data):
        if _KEY not in data.names:
            return None
        for group in range(data.metadata.num_row_groups):
            for batch in data.batches(group, [_KEY], _BATCH_ROWS):
                keys = batch.column(0)
                if keys.null_count:
                    return None
                parts.append(hashed(keys))
    return KeyHashes.of(np.concatenate(parts))
