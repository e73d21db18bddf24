"""The queries of rows that ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import DimensionMismatchError
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of

__all__ = ["query_vectors"]


def query_vectors(rows: pa.Table, column: VectorColumn, label: str, dimension: int | None) -> tuple[Floats, Ints, int]:
    """Return the vectors of the asking rows, shape (m, d), float64; the row number of each; and how many rows had none.

    Rows whose vector is NULL or invalid have none. `dimension` is the searched column's dimension, or None if it
    declares none; then the first vector gives the length. `label` is the name of the asking rows in messages. Raises
    DimensionMismatchError if a vector has another length.
    """
    array = rows.column(column.name)
    chunk = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    lengths = np.asarray(pc.list_value_length(chunk.drop_null())) if len(chunk) else np.empty(0, np.int64)
    expected = dimension or (int(lengths[0]) if len(lengths) else 0)
    wrong = lengths[lengths != expected]
    if len(wrong):
        raise DimensionMismatchError(
            f"{len(wrong)} rows of '{label}' have query vectors of other lengths (such as "
            f"{int(wrong[0])}) than {expected}; give vectors of one length, that of the searched column"
        )
    counts = ScanCounts()
    sized = replace(column, dimension=expected, is_vector=False)
    block = block_of(chunk, sized, np.arange(len(chunk), dtype=np.int64), counts)
    return block.values.astype(np.float64), block.positions, counts.nulls + counts.invalid
