"""The record keys of a base file: all of them, those of some rows, or the hashes of all."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa

from hudi_vector.kernels.topk import Ints
from hudi_vector.read.data_file import DataFile, reading
from hudi_vector.read.key_hashes import KeyHashes, hashed
from hudi_vector.read.page_file import column_pages
from hudi_vector.read.vector_pages import RangeReads
from hudi_vector.storage import FileInfo, StorageOptions

__all__ = ["hashes_of_file", "keys_at", "keys_of_file"]

_KEY = "_hoodie_record_key"
_BATCH_ROWS = 1 << 16
_SUITED = RangeReads()
# So many times the pages' bytes must lie in the column: taken together, pages are read quicker.
_PAGED = 2


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
    data = DataFile(file, options, mapped=True)
    with reading(file.uri), contextlib.closing(data):
        return data.parquet().read(columns=[_KEY], use_threads=False).column(_KEY).cast(pa.string())


def keys_at(file: FileInfo, options: StorageOptions, rows: Ints) -> pa.ChunkedArray:
    """The keys of some rows, from the pages that hold them where that is sooner than to read all.

    Args:
        file: A base file of a table with meta fields.
        options: How the storage is opened.
        rows: Rows of the file, ascending.

    Returns:
        Their keys, as text.

    Raises:
        DataFileError: The file is gone or damaged.
    """
    # To map a file and to touch it here and there costs more than to read from it.
    whole, ranges = DataFile(file, options, mapped=True), DataFile(file, options, mapped=False)
    found, start = [], 0
    with contextlib.closing(whole), contextlib.closing(ranges):
        for group in range(ranges.metadata.num_row_groups):
            count = ranges.metadata.row_group(group).num_rows
            inside = rows[slice(*np.searchsorted(rows, (start, start + count)))] - start
            if len(inside):
                found.append(_keys_of_group(whole, ranges, group, inside))
            start += count
    return pa.chunked_array([chunk for keys in found for chunk in keys.chunks], pa.string())


def _keys_of_group(whole: DataFile, ranges: DataFile, group: int, rows: Ints) -> pa.ChunkedArray:
    pages = column_pages(ranges, _KEY, group)
    with reading(whole.file.uri):
        if pages is not None and _PAGED * pages.bytes_of(pages.pages_of(rows)) <= pages.chunk.end - pages.chunk.begin:
            keys = pages.rows(ranges, rows, _SUITED)
        else:
            keys = whole.parquet().read_row_group(group, columns=[_KEY], use_threads=False).take(pa.array(rows))
        return keys.column(0).cast(pa.string())


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
    data = DataFile(file, options, mapped=False)
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
