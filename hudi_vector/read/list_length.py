"""The length of the vectors in a column of lists, read from data files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.compute as pc

from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.storage import FileInfo, StorageOptions

__all__ = ["stored_length"]

_BATCH_ROWS = 256


def stored_length(files: Iterable[FileInfo], column: str, options: StorageOptions) -> int | None:
    """Return the length of the first list in a column of Parquet files, or None if no file has one.

    In each file only the first list that is not NULL counts; files where it is empty are skipped. `column` is spelled
    as in the files. Raises DataFileError if a file cannot be read.
    """
    lengths = (_first_length(file, column, options) for file in files)
    return next((length for length in lengths if length), None)


def _first_length(file: FileInfo, column: str, options: StorageOptions) -> int | None:
    """Return the length of a file's first list that is not NULL; None if it has no such list or not the column."""
    data = DataFile(file, options, mapped=False)
    if column not in data.names:
        return None
    try:
        with reading(file.uri):
            for batch in data.parquet().iter_batches(batch_size=_BATCH_ROWS, columns=[column], use_threads=False):
                held = batch.column(0).drop_null()
                if len(held):
                    return int(pc.list_value_length(held)[0].as_py())
    finally:
        data.close()
    return None
