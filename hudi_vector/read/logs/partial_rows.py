"""Log files that hold rows with only some of their columns, as Hudi's MERGE INTO writes them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from hudi_vector.errors import DataFileError
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs.blocks import AVRO_DATA, PARQUET_DATA, block_headers, read_blocks
from hudi_vector.read.logs.keys import keys_of_block
from hudi_vector.read.parquet.data_file import reading
from hudi_vector.storage import FileInfo, StorageOptions, open_storage

__all__ = ["PARTIAL", "whole_rows_follow_partial_ones"]

PARTIAL = 7
"""The number of the header that a block of such rows has."""
_ROWS = (AVRO_DATA, PARQUET_DATA)
_READ_WHOLE = 4 << 20


def whole_rows_follow_partial_ones(logs: Sequence[FileInfo], options: StorageOptions) -> bool:
    """Return True if a log file with a whole row comes after one with some columns of the same row.

    By event time Hudi fills a newer row of some columns from an older whole row that came late. hudi-rs does not. The
    keys of rows are read only if the headers of blocks leave it open.
    """
    if len(logs) < 2:
        return False
    key = (tuple(logs), "partial rows")
    known: bool | None = process_cache().get(key)
    if known is None:
        forms = open_storage(logs[0].uri, options).each(partial(_forms, options=options), logs)
        first = next((number for number, one in enumerate(forms) if True in one), len(forms))
        known = any(False in one for one in forms[first + 1 :]) and _share_keys(logs[first:], options)
        process_cache().put(key, known, 256)
    return known


def _forms(log: FileInfo, options: StorageOptions) -> set[bool]:
    """Return whether blocks of a log file hold some columns of rows, of each block; what is damaged the merge says."""
    found: set[bool] = set()
    try:
        with _opened(log, options) as source:
            found.update(PARTIAL in header for kind, header in block_headers(source) if kind in _ROWS)
    except DataFileError:
        pass
    return found


def _share_keys(logs: Sequence[FileInfo], options: StorageOptions) -> bool:
    """Return True if a whole row of a log file has the key of a row of some columns of an earlier file, or may have."""
    some: set[str] = set()
    try:
        for parts in open_storage(logs[0].uri, options).each(partial(_keys, options=options), logs):
            if not some.isdisjoint(parts[False]):
                return True
            some |= parts[True]
    except DataFileError:
        return True
    return False


def _keys(log: FileInfo, options: StorageOptions) -> dict[bool, set[str]]:
    """Return the keys of whole rows of a log file, under False, and of rows of some columns."""
    found: dict[bool, set[str]] = {False: set(), True: set()}
    with _opened(log, options) as source:
        for block in read_blocks(source):
            if block.kind in _ROWS:
                found[PARTIAL in block.header].update(keys_of_block(block))
    return found


@contextmanager
def _opened(log: FileInfo, options: StorageOptions) -> Iterator[Any]:
    """Open a log file; of one that is small, all is read at once."""
    with reading(log.uri), open_storage(log.uri, options).open(log.uri, mapped=False, size=log.size) as file:
        yield io.BytesIO(file.read()) if log.size <= _READ_WHOLE else file
