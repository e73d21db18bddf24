"""How long the vectors of a column of lists are."""

from __future__ import annotations

import pyarrow.compute as pc

from hudi_vector.read.data_file import DataFile, reading
from hudi_vector.storage import FileInfo, StorageOptions

__all__ = ["first_length"]

_BATCH_ROWS = 256


def first_length(file: FileInfo, column: str, options: StorageOptions) -> int | None:
    """The length of the first list in a column of a Parquet file that is not NULL.

    Args:
        file: The file.
        column: The column, as the file spells it.
        options: How the storage is opened.

    Returns:
        The length, or None where the column is not there or holds nothing but NULL.

    Raises:
        DataFileError: The file cannot be read.
    """
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
