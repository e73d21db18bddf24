"""Several vector columns of the same rows, side by side: rows that lack a vector in one of them are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.kernels.sparse import SparseBlock
from hudi_vector.kernels.topk import Ints, VectorBlock
from hudi_vector.read.sparse import BLOCK_ROWS, SparseColumn, sparse_block_of
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of

__all__ = ["Block", "SearchColumn", "Together", "blocks_of", "in_step", "together"]

Block = VectorBlock | SparseBlock
SearchColumn = VectorColumn | SparseColumn
Together = tuple[Block, ...]
"""A block of each column, over the same rows in the same order."""


def blocks_of(
    batch: pa.RecordBatch,
    columns: Sequence[SearchColumn],
    positions: Ints,
    mask: npt.NDArray[np.bool_] | None,
    counts: ScanCounts,
) -> Together | None:
    """Vectors of several columns as they were read.

    Args:
        batch: Rows with these columns; a column that is not there is NULL in all of them.
        columns: The columns.
        positions: The rows' positions in what is read, shape (n,).
        mask: The rows that are wanted; all without it.
        counts: Where rows are counted that lack a vector; of several columns, why is not told apart.

    Returns:
        A block of each column over the rows that have all of them, or None where no row is left.
    """
    wanted = positions if mask is None else positions[mask]
    places = [batch.schema.get_field_index(column.name) for column in columns]
    if min(places) < 0:
        counts.nulls += len(wanted)
        return None
    if not len(wanted):
        return None
    own = ScanCounts()
    found: list[Block] = []
    for column, place in zip(columns, places, strict=True):
        array = batch.column(place)
        chosen = array if mask is None else array.filter(pa.array(mask))
        if isinstance(column, SparseColumn):
            found.append(sparse_block_of(chosen, column, wanted, own))
        else:
            found.append(block_of(chosen, column, wanted, own))
    common = together(found)
    if len(columns) == 1:
        counts.add(own)
    else:
        counts.nulls += len(wanted) - len(common[0])
    return common


def together(blocks: Sequence[Block]) -> Together:
    """The rows that every block has.

    Args:
        blocks: One of each column, ascending by position.

    Returns:
        The same columns over these rows.
    """
    common = blocks[0].positions
    for block in blocks[1:]:
        if not np.array_equal(common, block.positions):
            common = np.intersect1d(common, block.positions, assume_unique=True)
    return tuple(_of_positions(block, common) for block in blocks)


def _of_positions(block: Block, wanted: Ints) -> Block:
    if len(wanted) == len(block):
        return block
    mask = np.zeros(len(block), np.bool_)
    mask[np.searchsorted(block.positions, wanted)] = True
    return block.select(mask)


def in_step(streams: Sequence[Iterator[Any]]) -> Iterator[Together]:
    """Streams of blocks, each ascending by position, brought together row by row.

    Args:
        streams: One for each column.

    Yields:
        The rows that all streams have, at most `BLOCK_ROWS` at once; no more of a stream is held than the others have
        not reached.
    """
    held: list[Block | None] = [None] * len(streams)
    while True:
        for number, stream in enumerate(streams):
            while held[number] is None or not len(held[number]):  # type: ignore[arg-type]
                held[number] = next(stream, None)
                if held[number] is None:
                    return
        blocks = [block for block in held if block is not None]
        last = min(int(block.positions[-1]) for block in blocks)
        last = min(last, min(int(block.positions[0]) for block in blocks) + BLOCK_ROWS - 1)
        parts = [_split(block, last) for block in blocks]
        held = [rest for _, rest in parts]
        found = together([part for part, _ in parts])
        if len(found[0]):
            yield found


def _split(block: Block, last: int) -> tuple[Block, Block | None]:
    """The rows up to a position, and those behind it."""
    at = int(np.searchsorted(block.positions, last, "right"))
    if at == len(block):
        return block, None
    if isinstance(block, VectorBlock):
        return block.part(0, at), block.part(at, len(block))
    before = np.arange(len(block)) < at
    return block.select(before), block.select(~before)
