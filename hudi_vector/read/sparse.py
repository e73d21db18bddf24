"""Sparse vectors in tables: MAP columns from index to value, and STRUCT columns of indices and values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.kernels.sparse import Indices, SparseBlock, make_sparse_block
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.cache import process_cache
from hudi_vector.read.parquet.data_file import DataFile, reading
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo

__all__ = ["BLOCK_ROWS", "SparseColumn", "sparse_block_of", "sparse_blocks", "sparse_column_of"]

BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class SparseColumn:
    """A searched column of sparse vectors.

    Attributes:
        name: The column.
        indices: The field of the indices if the column is a STRUCT; empty if it is a MAP.
        values: The field of the values if the column is a STRUCT; empty if it is a MAP.
        texts: Whether the indices are texts instead of integers.
    """

    name: str
    indices: str = ""
    values: str = ""
    texts: bool = False

    @property
    def is_map(self) -> bool:
        """Return True if the column is a MAP."""
        return not self.indices


def sparse_column_of(field: pa.Field) -> SparseColumn | None:
    """Return the sparse column that a field of a schema describes, or None if it does not hold sparse vectors."""
    kind = field.type
    if pa.types.is_map(kind):
        texts = _is_text(kind.key_type)
        return SparseColumn(field.name, texts=texts) if _are_entries(kind.key_type, kind.item_type) else None
    if not pa.types.is_struct(kind):
        return None
    found = {kind.field(i).name.lower(): kind.field(i) for i in range(kind.num_fields)}
    indices, values = found.get("indices"), found.get("values")
    if indices is None or values is None or not (pa.types.is_list(indices.type) and pa.types.is_list(values.type)):
        return None
    if not _are_entries(indices.type.value_type, values.type.value_type):
        return None
    return SparseColumn(field.name, indices.name, values.name, _is_text(indices.type.value_type))


def _are_entries(index: pa.DataType, value: pa.DataType) -> bool:
    counted = pa.types.is_integer(index) or _is_text(index)
    return bool(counted and (pa.types.is_float32(value) or pa.types.is_float64(value)))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def sparse_block_of(array: pa.Array, column: SparseColumn, positions: Ints, counts: ScanCounts) -> SparseBlock:
    """Return maps or structs of two lists as a block, without NULL and invalid rows, which are added to `counts`.

    `positions` holds the positions of the rows in the file slice, shape (n,).
    """
    if array.null_count:
        counts.nulls += array.null_count
        positions = positions[np.asarray(array.is_valid())]
        array = array.drop_null()
    if column.is_map:
        lengths, index, value = _of_map(array)
    else:
        array, positions = _of_two_lists(array, column, positions, counts)
        indices, values = array.field(column.indices), array.field(column.values)
        lengths = np.asarray(pc.list_value_length(indices), dtype=np.int64)
        index, value = indices.flatten(), values.flatten()
    row = np.repeat(np.arange(len(positions), dtype=np.int64), lengths)
    numbers = np.asarray(value.cast(pa.float64()).fill_null(np.nan))
    if index.null_count:
        numbers = np.where(np.asarray(index.is_null()), np.nan, numbers)
        index = index.fill_null("" if column.texts else 0)
    if column.texts:
        places, texts = _sorted_texts(index)
        block, invalid = make_sparse_block(row, places, numbers, positions, texts)
    else:
        block, invalid = make_sparse_block(row, np.asarray(index.cast(pa.int64())), numbers, positions)
    counts.invalid += invalid
    return block


def _sorted_texts(index: pa.Array) -> tuple[Ints, Indices]:
    """Return the index of each text in the array of distinct texts, and that array: UTF-8 bytes, ascending."""
    encoded = index.cast(pa.binary()).dictionary_encode()
    distinct = encoded.dictionary
    order = np.asarray(pc.sort_indices(distinct), dtype=np.int64)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    texts = np.empty(len(order), object)
    texts[:] = distinct.take(pa.array(order)).to_pylist()
    return places[np.asarray(encoded.indices, dtype=np.int64)], texts


def _of_map(array: pa.MapArray) -> tuple[npt.NDArray[np.int64], pa.Array, pa.Array]:
    offsets = np.asarray(array.offsets, dtype=np.int64)
    first, count = (int(offsets[0]), int(offsets[-1] - offsets[0])) if len(offsets) else (0, 0)
    return np.diff(offsets), array.keys.slice(first, count), array.items.slice(first, count)


def _of_two_lists(array: Any, column: SparseColumn, positions: Ints, counts: ScanCounts) -> tuple[Any, Ints]:
    """Return the structs whose two lists are not NULL and equally long, and their positions; others are invalid."""
    indices, values = array.field(column.indices), array.field(column.values)
    equal = pc.equal(pc.list_value_length(indices), pc.list_value_length(values)).fill_null(False)
    right = np.asarray(equal)
    if right.all():
        return array, positions
    counts.invalid += int((~right).sum())
    return array.filter(equal), positions[right]


def sparse_blocks(
    reader: ParquetSlice, file: FileInfo, spec: ScanSpec, column: SparseColumn, keep: bool, counts: ScanCounts
) -> Iterator[SparseBlock]:
    """Yield the rows of a Parquet base file that pass the predicate and have a sparse vector, ascending by position.

    `reader` is the opened file, which says which rows are live and pass; it is closed before the vectors are read.
    `column` replaces the column of `spec`. With `keep`, decoded blocks are cached in the process.
    """
    allowed = reader.allowed(counts)
    reader.close()
    for block in _decoded(file, spec, column, keep, counts):
        yield block.select(allowed[block.positions])


def _decoded(
    file: FileInfo, spec: ScanSpec, column: SparseColumn, keep: bool, counts: ScanCounts
) -> Iterator[SparseBlock]:
    """Yield all vectors of a file, regardless of the predicate, from the process cache if they are there."""
    cache = process_cache() if keep and process_cache().budget else None
    key = (file, "sparse", column)
    kept = cache.get(key) if cache is not None else None
    if kept is not None:
        blocks, own = kept
        counts.add(own)
        counts.cached_slices += 1
        yield from blocks
        return
    own, blocks = ScanCounts(), []
    for block in _read(file, spec, column, own):
        if cache is not None:
            blocks.append(block)
        yield block
    counts.add(own)
    if cache is not None:
        own.bytes_read = 0
        cache.put(key, (blocks, own), sum(block.nbytes for block in blocks) + 1024)


def _read(file: FileInfo, spec: ScanSpec, column: SparseColumn, counts: ScanCounts) -> Iterator[SparseBlock]:
    with closing(DataFile(file, spec.options, mapped=False)) as data:
        metadata, done = data.metadata, 0
        if column.name not in data.names:
            counts.nulls += metadata.num_rows
            return
        for group in range(metadata.num_row_groups):
            counts.bytes_read += data.column_bytes(group, column.name)
            with reading(file.uri):
                for batch in data.batches(group, [column.name], BLOCK_ROWS):
                    positions = np.arange(done, done + batch.num_rows, dtype=np.int64)
                    done += batch.num_rows
                    yield sparse_block_of(batch.column(0), column, positions, counts)
