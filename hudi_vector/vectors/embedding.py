"""The work of a Spark task in a backfill: calls of the user's function, and checks of the vectors that it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.errors import DimensionMismatchError, InvalidVectorError, number_of
from hudi_vector.schema import VectorType
from hudi_vector.spark.catalyst.worker_errors import in_few_words

__all__ = ["KEYS", "VECTOR", "Embedding", "checked_vectors"]

KEYS = ("key", "partition", "version")
VECTOR = "vector"


@dataclass(frozen=True)
class Embedding:
    """A task's function that returns the keys of its rows with the vectors that `embed` makes of their sources.

    `names` are the source columns as `embed` sees them; `at_once` rows go into one call.
    """

    embed: Callable[[Any], Any]
    names: Sequence[str]
    vector: VectorType
    at_once: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the keys and the vectors of the rows, a batch for each call of the function."""
        for batch in batches:
            for begin in range(0, batch.num_rows, self.at_once):
                yield self._vectors(batch.slice(begin, self.at_once))

    def _vectors(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        sources = pa.Table.from_arrays(batch.columns[len(KEYS) :], names=list(self.names)).to_pandas()
        made = self.embed(sources)
        with in_few_words():
            vectors = checked_vectors(made, batch.num_rows, self.vector)
        kept = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), self.vector.dimension)
        lists = kept.cast(pa.list_(self.vector.arrow_element))
        return pa.RecordBatch.from_arrays([*batch.columns[: len(KEYS)], lists], names=[*KEYS, VECTOR])


def checked_vectors(made: Any, rows: int, vector: VectorType) -> Any:
    """Return the result of an embedding function as an array of shape (rows, dimension) and the column's type.

    Raises DimensionMismatchError for another shape, and InvalidVectorError for values that are no finite numbers or
    that the column's type cannot hold.

    Example:
        >>> checked_vectors([[1, 2], [3, 4]], 2, VectorType(2)).dtype
        dtype('float32')
    """
    try:
        array = np.asarray(made, np.float64)
    except (TypeError, ValueError):
        raise InvalidVectorError(
            f"embed returned {type(made).__name__}, which is no array of numbers; return an array of shape "
            f"({rows}, {vector.dimension})"
        ) from None
    if array.shape != (rows, vector.dimension):
        raise DimensionMismatchError(
            f"embed returned an array of shape {array.shape} for {number_of(rows, 'row')} of a {vector.descriptor} "
            "column; return "
            f"one of shape ({rows}, {vector.dimension})"
        )
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise InvalidVectorError(
            f"embed returned NaN or infinity, first in row {row} of {rows}; return finite numbers, or leave such rows "
            "out by NULL in a source column"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        stored = array.astype(vector.dtype)
    if vector.element == "int8" and not (stored == array).all():
        raise InvalidVectorError("embed returned numbers that are not whole or not from -128 to 127 for an INT8 column")
    if not np.isfinite(stored).all():
        raise InvalidVectorError("embed returned numbers that are too large for FLOAT; add the column as DOUBLE")
    return stored
