"""Conversion of Arrow columns of vectors to blocks for the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import DataFileError, number_of
from hudi_vector.kernels.topk import Ints, VectorBlock, make_block
from hudi_vector.read.conform import by_digits
from hudi_vector.read.spec import ScanCounts, VectorColumn

__all__ = ["block_of", "chosen_of", "joined", "rows_within"]


def block_of(array: pa.Array, column: VectorColumn, positions: Ints, counts: ScanCounts, uri: str = "") -> VectorBlock:
    """Return vectors as a block, without NULL and invalid rows, which are added to `counts`.

    `array` is fixed-size binary, as RFC-99 stores VECTOR, or lists; `positions` in the file slice has shape (n,). The
    values are a view of the Arrow buffer if possible. `uri` is the file that the column is of, for messages. Raises
    DataFileError if the column is stored with another width than the table declares, or as what is no vector of its
    elements, since each plain file may have other types.
    """
    if array.null_count:
        counts.nulls += array.null_count
        valid = np.asarray(array.is_valid())
        positions = positions[valid]
        array = array.filter(pa.array(valid))
    if pa.types.is_fixed_size_binary(array.type):
        values = _from_binary(array, column)
    elif not len(array):  # a file without any vector may have a column of the type null
        values = np.empty((0, column.dimension), column.dtype)
    else:
        _require_numbers(array.type, column, uri)
        values, right, uneven = _from_lists(array, column, uri)
        counts.uneven += uneven
        if not right.all():
            counts.invalid += int((~right).sum())
            positions = positions[right]
    block, invalid = make_block(values, positions)
    counts.invalid += invalid
    return block


def rows_within(positions: Ints, rows: int, uri: str) -> Ints:
    """Return the distinct positions, ascending.

    Raises DataFileError if one is outside a file of `rows` rows: the positions then belong to another file.
    """
    ascends = bool((positions[1:] > positions[:-1]).all())
    wanted = (positions if ascends else np.unique(positions)).astype(np.int64, copy=False)
    if len(wanted) and not 0 <= wanted[0] <= wanted[-1] < rows:
        wrong = wanted[0] if wanted[0] < 0 else wanted[-1]
        raise DataFileError(f"the data file '{uri}' has {number_of(rows, 'row')}, and none at position {wrong}")
    return wanted


def chosen_of(blocks: Iterable[VectorBlock], positions: Ints, counts: ScanCounts) -> VectorBlock:
    """Return the vectors at distinct ascending positions, ascending, from blocks with all vectors of a file or a part.

    There must be at least one block; blocks are ascending by position, also from one to the next. Only the selected
    rows are held. Positions without a vector are counted as NULL: the reason is no longer known.
    """
    found = []
    for block in blocks:
        at = np.searchsorted(block.positions, positions)
        inside = at < len(block)
        at, asked = at[inside], positions[inside]
        found.append(block.take(at[block.positions[at] == asked]))
    made = joined(found)
    counts.nulls += len(positions) - len(made)
    return made


def joined(blocks: Sequence[VectorBlock]) -> VectorBlock:
    """Concatenate one or more blocks of the same dimension and element type."""
    filled = [block for block in blocks if len(block)] or list(blocks[:1])
    if len(filled) == 1:
        return filled[0]
    begins = np.cumsum([0, *(len(block) for block in filled[:-1])])
    return VectorBlock(
        np.concatenate([block.values for block in filled]),
        np.concatenate([block.positions for block in filled]),
        np.concatenate([block.squares for block in filled]),
        np.concatenate([block.odd + begin for block, begin in zip(filled, begins, strict=True)]),
    )


def _from_binary(array: pa.FixedSizeBinaryArray, column: VectorColumn) -> npt.NDArray[Any]:
    width = column.dimension * column.dtype.itemsize
    if array.type.byte_width != width:
        raise DataFileError(
            f"column '{column.name}' is stored with {array.type.byte_width} bytes a vector; "
            f"VECTOR({column.dimension}, {column.element.upper()}) has {width}"
        )
    raw = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else np.empty(0, np.uint8)
    part = raw[array.offset * width : (array.offset + len(array)) * width]
    return part.view(column.dtype).reshape(len(array), column.dimension)


def _require_numbers(kind: pa.DataType, column: VectorColumn, uri: str) -> None:
    """Raise DataFileError unless a type is a list of numbers."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(is_it(kind) for is_it in lists) and (
        pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
    ):
        return
    raise DataFileError(f"{_named(column, uri)} is {kind}, which is no array of numbers")


def _named(column: VectorColumn, uri: str) -> str:
    return f"column '{column.name}' of '{uri}'" if uri else f"column '{column.name}'"


def _from_lists(array: Any, column: VectorColumn, uri: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_], int]:
    """Return the values of the valid lists, a mask of which lists are valid, and how many have another length.

    A list is valid if it has the column's dimension and no NULL element.
    """
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        flat = array.flatten()
        if not len(array) or size != column.dimension:
            return np.empty((0, column.dimension), column.dtype), np.zeros(len(array), np.bool_), len(array)
        lengths = np.full(len(array), size)
        begins = np.arange(len(array), dtype=np.int64) * size
    else:
        offsets = np.asarray(array.offsets, dtype=np.int64)
        flat = array.values.slice(int(offsets[0]) if len(offsets) else 0)
        begins, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    right = lengths == column.dimension
    uneven = len(array) - int(right.sum())
    if flat.null_count:
        missing = np.concatenate(([0], np.cumsum(np.asarray(flat.is_null(), dtype=np.int64))))
        right &= missing[begins + lengths] == missing[begins]
        flat = flat.fill_null(0)
    numbers = flat.to_numpy(zero_copy_only=False)
    if right.all() and len(array):
        values = numbers[: len(array) * column.dimension].reshape(len(array), column.dimension)
    else:
        values = numbers[begins[right][:, None] + np.arange(column.dimension)[None, :]]
    if values.dtype == np.float32 and column.dtype == np.float64:
        # Files from before the column's type was widened.
        values = np.asarray(by_digits(pa.array(values.ravel()))).reshape(values.shape)
    return _cast(values, column, uri), right, uneven


def _cast(values: npt.NDArray[Any], column: VectorColumn, uri: str) -> npt.NDArray[Any]:
    """Return values as elements of a column; raise DataFileError if one is no INT8, or above all numbers of FLOAT."""
    if values.dtype == column.dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(column.dtype)
    fits = cast == values if column.dtype.kind == "i" else np.isfinite(cast) | ~np.isfinite(values)
    if not fits.all():
        raise DataFileError(
            f"{_named(column, uri)} holds {values[~fits][0]} as {values.dtype}, and others of the column are "
            f"{column.element.upper()}, which has no such value; write the vectors of all files with one type"
        )
    return cast
