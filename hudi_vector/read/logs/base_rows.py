"""Selected rows of a base file, by position, as stored and with Hudi's meta columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.page_file import column_pages
from hudi_vector.storage import FileInfo, StorageOptions
from hudi_vector.storage.objects import END_BYTES

__all__ = ["base_rows"]

_BATCH_ROWS = 8192


def base_rows(
    file: FileInfo, options: StorageOptions, rows: Ints, schema: pa.Schema, opened: DataFile | None = None
) -> Iterator[pa.Table]:
    """Yield distinct ascending rows of a base file, one row group at a time, with the columns of `schema`.

    `schema` has the columns in the types of the file. `opened` is the file, if it is open and not mapped. A column that
    is not nested is read by pages if that is faster than in sequence. Raises DataFileError if the file is missing or
    damaged.
    """
    start = 0
    with contextlib.ExitStack() as closing:
        # For a few ranges, mapping a file costs more than reading them.
        ranges = opened or closing.enter_context(contextlib.closing(DataFile(file, options, mapped=False)))
        whole = ranges
        if not ranges.is_remote or file.size > END_BYTES:  # else one request has brought all of it
            whole = closing.enter_context(contextlib.closing(DataFile(file, options, mapped=True)))
        closing.enter_context(reading(file.uri))
        for group in range(whole.metadata.num_row_groups):
            count = whole.metadata.row_group(group).num_rows
            inside = rows[(rows >= start) & (rows < start + count)] - start
            start += count
            if len(inside):
                columns = {name: found for name in schema.names if (found := _paged(ranges, group, inside, name))}
                left = [name for name in schema.names if name not in columns]
                if left:
                    with whole.ahead(whole.ranges(group, left) if whole is not ranges else []):
                        columns |= _gone_through(whole, group, inside, left)
                yield pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _paged(ranges: DataFile, group: int, inside: Ints, name: str) -> pa.ChunkedArray | None:
    pages = column_pages(ranges, name, group)
    return pages.rows(ranges, inside).column(0) if pages and pages.are_faster_read(inside) else None


def _gone_through(source: DataFile, group: int, inside: Ints, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    parts, done = [], 0
    for batch in source.batches(group, names, _BATCH_ROWS):
        wanted = inside[(inside >= done) & (inside < done + batch.num_rows)] - done
        done += batch.num_rows
        if len(wanted):
            parts.append(batch.take(pa.array(wanted)))
        if done > inside[-1]:
            break
    found = pa.Table.from_batches(parts)
    return {name: found.column(name) for name in names}
