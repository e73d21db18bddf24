"""Integer codes for the values of a column, equal for equal values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.kernels.topk import Ints

__all__ = ["codes"]


def codes(column: pa.ChunkedArray) -> Ints:
    """Return a code from 0 for each value of a column, shape (rows,); equal values have equal codes, and so have NULLs.

    Example:
        >>> codes(pa.chunked_array([["b", "a", None, "b"]])).tolist()
        [0, 1, 2, 0]
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    if pa.types.is_nested(array.type):
        array = pa.array([repr(value) for value in array.to_pylist()], pa.string())
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array, null_encoding="encode")
    return np.asarray(array.indices.fill_null(-1)).astype(np.int64)
