"""Rows of a base file that have given record keys, and a struct column of such rows, without a scan of the file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.page_file import leaf_pages

__all__ = ["key_rows", "struct_rows"]

_KEY = "_hoodie_record_key"


def key_rows(file: DataFile, keys: Collection[str]) -> tuple[Ints, list[str]]:
    """Return the rows of a base file that have one of the record keys, ascending, and the key of each.

    The key columns of row groups whose statistics exclude all keys are not read; those that are read are kept in the
    process cache. Raises DataFileError if the file is damaged or missing, and UnsupportedTableError without key column.
    """
    metadata = file.metadata
    number = next((i for i in range(len(metadata.schema)) if metadata.schema.column(i).path == _KEY), None)
    if number is None:
        raise UnsupportedTableError(f"the base file '{file.file.uri}' has no record keys")
    rows, found, start = [np.empty(0, np.int64)], [], 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        wanted = _possible(row_group.column(number).statistics, keys)
        if wanted:
            held = _keys_of(file, group)
            here = np.flatnonzero(np.asarray(pc.is_in(held, value_set=pa.array(wanted, held.type))))
            rows.append(start + here)
            found += held.take(pa.array(here)).to_pylist()
        start += row_group.num_rows
    return np.concatenate(rows), found


def struct_rows(file: DataFile, path: Sequence[str], rows: Ints) -> pa.ChunkedArray | None:
    """Return a struct column of distinct ascending rows, read by pages; None if the file does not have the column.

    `path` are the names from the top-level column to the struct. Raises DataFileError if the file is damaged, and
    UnsupportedTableError if the column is within a list or its pages cannot be found.
    """
    schema, begin = file.metadata.schema, ".".join(path) + "."
    leaves = [number for number in range(len(schema)) if schema.column(number).path.startswith(begin)]
    if not leaves:
        return None
    parts, start = [], 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        inside = rows[(rows >= start) & (rows < start + count)] - start
        start += count
        if len(inside):
            read = [_leaf(file, leaf, group, inside) for leaf in leaves]
            parts.append(_joined([pc.struct_field(each, [0] * (len(path) - 1)) for each in read]))
    return pa.chunked_array(parts)


def _possible(statistics: pq.Statistics | None, keys: Collection[str]) -> list[str]:
    """Return the keys that a row group may hold by its statistics of the key column."""
    if statistics is None or not statistics.has_min_max:
        return list(keys)
    # Texts compare by code points, which is the order of their bytes in UTF-8.
    low, high = (end.decode() if isinstance(end, bytes) else end for end in (statistics.min, statistics.max))
    return [key for key in keys if low <= key <= high]


def _keys_of(file: DataFile, group: int) -> pa.StringArray:
    """Return the record keys of a row group, NULL for a row without one, through the process cache."""
    key = (file.file, "record keys", group)
    held: pa.StringArray | None = process_cache().get(key)
    if held is None:
        with reading(file.file.uri):
            held = _whole(file.columns(group, [_KEY]).column(_KEY).cast(pa.string()))
        process_cache().put(key, held, held.nbytes)
    return held


def _leaf(file: DataFile, number: int, group: int, rows: Ints) -> pa.Array:
    pages = leaf_pages(file, number, group)
    if pages is None:
        raise UnsupportedTableError(f"single pages of '{file.metadata.schema.column(number).path}' cannot be found")
    return _whole(pages.rows(file, rows).column(0))


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Return one array with all fields of structs over the same rows, of which each has one leaf."""
    if not pa.types.is_struct(parts[0].type):
        return parts[0]
    fields: dict[str, list[Any]] = {}
    for part in parts:
        fields.setdefault(part.type[0].name, []).append(part.field(0))
    children = [_joined(each) for each in fields.values()]
    return pa.StructArray.from_arrays(children, list(fields), mask=parts[0].is_null())


def _whole(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
