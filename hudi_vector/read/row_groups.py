"""Columns of a row group of a Parquet file, read by pyarrow.

pyarrow ends where a column chunk does, which may be before its row group if the footer is damaged, or if it cannot join
the pages of lists. Fewer rows would be lost or wrong in silence, so each read counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_vector.errors import number_of

__all__ = ["read_group", "read_group_batches"]


def read_group(file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.Table:
    """Return columns of a row group, given their names or the paths of leaves.

    Raises ValueError if they end before the row group, and pyarrow's errors.
    """
    found = file.read_row_group(group, columns=list(names), use_threads=False)
    _require_rows(file, group, names, found.num_rows)
    return found


def read_group_batches(file: pq.ParquetFile, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield columns of a row group, so many rows at a time, and raise as `read_group` does.

    Example:
        >>> import io
        >>> sink = io.BytesIO()
        >>> pq.write_table(pa.table({"id": [1, 2, 3]}), sink)
        >>> [batch.num_rows for batch in read_group_batches(pq.ParquetFile(sink), 0, ["id"], 2)]
        [2, 1]
    """
    done = 0
    for batch in file.iter_batches(rows, [group], list(names), use_threads=False):
        done += batch.num_rows
        yield batch
    _require_rows(file, group, names, done)


def _require_rows(file: pq.ParquetFile, group: int, names: Sequence[str], found: int) -> None:
    rows = file.metadata.row_group(group).num_rows
    if found != rows:
        of = f"column '{names[0]}'" if len(names) == 1 else "one of its columns"
        raise ValueError(
            f"row group {group} has {number_of(rows, 'row')}, and pyarrow reads {found} of {of}; write the file again"
        )
