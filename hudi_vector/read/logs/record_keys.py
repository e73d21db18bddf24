"""The record keys of a base file, or the hashes of all."""

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
    """The key of each row.

    Args:
        file: A base file of a table with meta fields.
        options: How the storage is opened.

    Returns:
        The keys, as text.

    Raises:
        DataFileError: The file is gone or damaged.
    """
    data = DataFile(file, options, mapped=True, checked=True)
    with reading(file.uri), contextlib.closing(data):
        return data.parquet().read(columns=[_KEY], use_threads=False).column(_KEY).cast(pa.string())


def hashes_of_file(file: FileInfo, options: StorageOptions) -> KeyHashes | None:
    """The hashes of the keys of all rows, the file read in batches.

    Args:
        file: A base file.
        options: How the storage is opened.

    Returns:
        The hashes; None where some row has no key.

    Raises:
        DataFileError: The file is gone or damaged.
    """
    data = DataFile(file, options, mapped=False, checked=True)
    parts = [np.empty(0, np.uint64)]
    with reading(file.uri), contextlib.closing(data):
        if _KEY not in data.names:
            return None
        for batch in data.parquet().iter_batches(_BATCH_ROWS, columns=[_KEY], use_threads=False):
            keys = batch.column(0)
            if keys.null_count:
                return None
            parts.append(hashed(keys))
    return KeyHashes.of(np.concatenate(parts))
