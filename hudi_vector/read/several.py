"""Blocks of several vector columns over the same rows, without the rows that lack a vector in one of them."""

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
"""One block for each column, over the same rows in the same order."""


def blocks_of(
    batch: pa.RecordBatch,
    columns: Sequence[SearchColumn],
    positions: Ints,
    mask: npt.NDArray[np.bool_] | None,
    counts: ScanCounts,
) -> Together | None:
    """Return a block for each column over the rows that have a vector in all columns.

    Return None if a column is missing in the batch, which counts as NULL in all rows, or if no row is wanted.
    `positions` holds the row positions, shape (n,); `mask`, shape (n,), selects rows, None selects all. With several
    columns, every row that lacks a vector is counted as NULL, whatever the reason.
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
    """Return the blocks, each ascending by position, reduced to the rows that all of them have."""
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
    """Yield blocks over the rows that all streams have, from one stream of blocks for each column.

    Streams are ascending by position. The blocks yielded span at most `BLOCK_ROWS` positions; of each stream at most
    one block is held.
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
    """Split a block into the rows up to a position (inclusive) and the rows after it; None if there are none after."""
    at = int(np.searchsorted(block.positions, last, "right"))
    if at == len(block):
        return block, None
    if isinstance(block, VectorBlock):
        return block.part(0, at), block.part(at, len(block))
    before = np.arange(len(block)) < at
    return block.select(before), block.select(~before)
