"""The specification of a scan, its row counts, and the interface of slice readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import UnknownColumnError
from hudi_vector.kernels.topk import VectorBlock
from hudi_vector.read.conform import conform
from hudi_vector.read.predicate.form import Predicate, columns, evaluate
from hudi_vector.read.predicate.nodes import conjunction
from hudi_vector.storage import StorageOptions

__all__ = ["TIE_COLUMNS", "ScanCounts", "ScanSpec", "SliceReader", "VectorColumn"]

TIE_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")
"""The columns that order rows of equal distance in tables with record keys, the most significant first."""


@dataclass(frozen=True)
class VectorColumn:
    """The searched column: its dimension, its element type (float, double or int8), and whether it is a VECTOR.

    A column that is not a VECTOR is a plain array.
    """

    name: str
    dimension: int
    element: str
    is_vector: bool = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the numpy dtype of one element."""
        return np.dtype({"float": "<f4", "double": "<f8", "int8": "i1"}[self.element])


@dataclass(frozen=True)
class ScanSpec:
    """The specification of a scan, the same for every file slice of a search; picklable, since executors receive it.

    `ties` names the columns that order rows of equal distance in a table without record keys; if it is empty, their
    position in storage does. `carried` are columns that a search looks up while it scans: rows that are merged from log
    files bring them along, since they could be read later by another merge alone. `by_event_time` says that a merge
    keeps the row with the greatest value of the table's ordering fields.
    """

    table_uri: str
    schema: pa.Schema
    column: VectorColumn
    predicate: Predicate | None = None
    zone: str = "UTC"
    has_keys: bool = True
    ties: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    by_event_time: bool = False
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    def filtered(self, condition: Predicate) -> ScanSpec:
        """Return the specification with a condition in addition to its predicate."""
        return replace(self, predicate=conjunction([*([] if self.predicate is None else [self.predicate]), condition]))

    def fields(self, names: Sequence[str]) -> list[pa.Field]:
        """Return the fields with these names; raise UnknownColumnError if the table does not have one of them."""
        for name in names:
            if self.schema.get_field_index(name) < 0:
                raise UnknownColumnError.of(name, self.schema.names, self.table_uri)
        return [self.schema.field(name) for name in names]

    @property
    def tie_columns(self) -> tuple[str, ...]:
        """Return the columns that order rows of equal distance, the most significant first; empty if position does."""
        return TIE_COLUMNS if self.has_keys else self.ties

    @cached_property
    def filter_columns(self) -> tuple[str, ...]:
        """Return the names of the columns that the predicate needs, in the table's order."""
        if self.predicate is None:
            return ()
        needed = columns(self.predicate)
        return tuple(name for name in self.schema.names if name in needed)

    @cached_property
    def filter_schema(self) -> pa.Schema:
        """Return the schema of the columns that the predicate needs."""
        return pa.schema(self.fields(self.filter_columns))

    def passing(self, rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.bool_]:
        """Return a mask of rows of a file that pass the predicate, which the specification must have.

        The predicate may name no column, as ``TRUE`` does.
        """
        assert self.predicate is not None
        if not self.filter_columns:
            return evaluate(self.predicate, rows, self.zone)
        return evaluate(self.predicate, conform(rows, self.fields(self.filter_columns)), self.zone)


@dataclass
class ScanCounts:
    """Counts of the rows of a scan, by what happened to them.

    Attributes:
        rows: Rows that are not deleted.
        pruned: Rows of these that were excluded by statistics without reading them.
        filtered: Rows that did not pass the predicate.
        nulls: Rows without a vector.
        invalid: Rows with an invalid vector.
        bytes_read: Bytes read from storage.
        cached_slices: File slices whose vectors came from the cache.
        uneven: Rows of `invalid` whose list has another length than the column.
        unseen: For each query, a distance that no row is below whose distance was not computed, shape (m,); None if no
            such row can be in the answer.
    """

    rows: int = 0
    pruned: int = 0
    filtered: int = 0
    nulls: int = 0
    invalid: int = 0
    bytes_read: int = 0
    cached_slices: int = 0
    uneven: int = 0
    unseen: npt.NDArray[np.float64] | None = field(default=None, compare=False)

    def add(self, other: ScanCounts) -> None:
        """Add the counts of another scan of other rows for the same queries."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.unseen is not None:
            self.unseen = other.unseen if self.unseen is None else np.minimum(self.unseen, other.unseen)


_COUNTS = tuple(each.name for each in fields(ScanCounts) if each.name != "unseen")


class SliceReader(Protocol):
    """A reader of one file slice, opened for one search."""

    def blocks(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        """Yield the rows that pass the predicate and have a vector, and add to `counts`."""
        ...

    def rows(self, positions: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Return columns of the rows at these positions, in the table's types and in the order of `positions`."""
        ...

    def tables(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield columns of all rows that pass the predicate, in the table's types, about so many rows at a time."""
        ...
