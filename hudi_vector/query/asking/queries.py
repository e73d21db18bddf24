"""The queries of rows that ask: their vectors, dense or sparse, from one column or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import DimensionMismatchError, number_of
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.sparse import SparseVector
from hudi_vector.kernels.topk import Ints
from hudi_vector.query.asking.values import LEFT_MARK
from hudi_vector.read.predicate.form import Predicate, evaluate
from hudi_vector.read.several import SearchColumn
from hudi_vector.read.sparse import sparse_block_of
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of

__all__ = ["AskedRows", "Queries", "QueryColumns", "query_vectors"]

Vectors = Floats | tuple[SparseVector, ...]
"""The queries of one column: an array of shape (m, d), or m sparse vectors."""


@dataclass(frozen=True)
class AskedRows:
    """Asking rows and the queries of those that can be searched for.

    `at` is the row of each query, ascending; `probes` holds the queries of each column; `unusable` is the number of
    rows that lack a vector.
    """

    rows: pa.Table
    at: Ints
    probes: tuple[Vectors, ...]
    unusable: int = 0

    def __len__(self) -> int:
        return len(self.at)

    @property
    def vectors(self) -> Floats:
        """Return the queries of the only column, which is dense, shape (m, d)."""
        [vectors] = self.probes
        assert not isinstance(vectors, tuple)
        return vectors

    def part(self, first: int, last: int) -> AskedRows:
        """Return the queries from `first` to `last` (exclusive)."""
        return replace(self, at=self.at[first:last], probes=tuple(probes[first:last] for probes in self.probes))

    def take(self, places: npt.NDArray[np.intp]) -> AskedRows:
        """Return the queries at the given places."""
        return replace(self, at=self.at[places], probes=tuple(_chosen(probes, places) for probes in self.probes))

    def values(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the row of each query."""
        return self.rows.select(list(names)).take(pa.array(self.at))


class Queries(Protocol):
    """A picklable conversion of rows to queries."""

    def of(self, rows: pa.Table) -> AskedRows:
        """Return the queries of some rows, and the rows, which may get further columns."""
        ...


@dataclass(frozen=True)
class QueryColumns:
    """The columns of the asking rows that hold their queries.

    `dimensions` are those of the searched columns, None for one that declares none or is sparse. `label` names the
    rows in messages. Rows for which `condition`, over columns with `LEFT_MARK`, does not hold have no query.
    """

    columns: tuple[SearchColumn, ...]
    dimensions: tuple[int | None, ...]
    label: str
    condition: Predicate | None = None
    zone: str = "UTC"

    @classmethod
    def dense(
        cls,
        column: VectorColumn,
        label: str,
        dimension: int | None,
        condition: Predicate | None = None,
        zone: str = "UTC",
    ) -> QueryColumns:
        """Return a single column of dense vectors as queries for a column of `dimension`."""
        return cls((column,), (dimension,), label, condition, zone)

    def of(self, rows: pa.Table) -> AskedRows:
        """Return the queries of the rows that have one in every column.

        Raises DimensionMismatchError if a dense vector has another length than the searched column.
        """
        pairs = zip(self.columns, self.dimensions, strict=True)
        found = [self._probes(rows, column, dimension) for column, dimension in pairs]
        at = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), (places for _, places in found))
        unusable = rows.num_rows - len(at)
        if self.condition is not None:
            marked = rows.rename_columns([LEFT_MARK + name for name in rows.column_names])
            at = at[evaluate(self.condition, marked, self.zone)[at]]
        return AskedRows(rows, at, tuple(_chosen(probes, np.searchsorted(own, at)) for probes, own in found), unusable)

    def _probes(self, rows: pa.Table, column: SearchColumn, dimension: int | None) -> tuple[Vectors, Ints]:
        """Return the queries of one column and their rows."""
        if isinstance(column, VectorColumn):
            vectors, at = query_vectors(rows, column, self.label, dimension)
            return vectors, at
        chunk = _chunk(rows, column.name)
        block = sparse_block_of(chunk, column, np.arange(len(chunk), dtype=np.int64), ScanCounts())
        return block.vectors(), block.positions


def _chosen(probes: Vectors, places: npt.NDArray[np.intp]) -> Vectors:
    """Return the queries of one column at the given ascending places."""
    if len(places) == len(probes):
        return probes
    return tuple(probes[place] for place in places) if isinstance(probes, tuple) else probes[places]


def _chunk(rows: pa.Table, name: str) -> pa.Array:
    array = rows.column(name)
    return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)


def query_vectors(rows: pa.Table, column: VectorColumn, label: str, dimension: int | None) -> tuple[Floats, Ints]:
    """Return the vectors of the rows that have one, shape (m, d), float64, and the row number of each.

    Rows whose vector is NULL or invalid have none. `dimension` is the searched column's dimension, or None if it
    declares none; then the first vector gives the length. `label` is the name of the rows in messages. Raises
    DimensionMismatchError if a vector has another length.
    """
    chunk = _chunk(rows, column.name)
    lengths = np.asarray(pc.list_value_length(chunk.drop_null())) if len(chunk) else np.empty(0, np.int64)
    expected = dimension or (int(lengths[0]) if len(lengths) else 0)
    wrong = lengths[lengths != expected]
    if len(wrong):
        has = f"row of '{label}' has", f"rows of '{label}' have"
        raise DimensionMismatchError(
            f"{number_of(len(wrong), *has)} query vectors of other lengths (such as {int(wrong[0])}) than {expected}; "
            "give vectors of one length, that of the searched column"
        )
    sized = replace(column, dimension=expected, is_vector=False)
    block = block_of(chunk, sized, np.arange(len(chunk), dtype=np.int64), ScanCounts())
    return block.values.astype(np.float64), block.positions
