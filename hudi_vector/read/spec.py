"""What is read of a slice, and what came out: the words all readers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.errors import UnknownColumnError
from hudi_vector.kernels.topk import VectorBlock
from hudi_vector.read.predicate.form import Predicate, columns
from hudi_vector.storage import StorageOptions

__all__ = ["TIE_COLUMNS", "ScanCounts", "ScanSpec", "SliceReader", "VectorColumn"]

TIE_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")
"""What orders rows of equal distance, the most significant first."""


@dataclass(frozen=True)
class VectorColumn:
    """The searched column: its dimension, its element type, and whether it is a VECTOR or a plain array."""

    name: str
    dimension: int
    element: str
    is_vector: bool = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of one element."""
        return np.dtype({"float": "<f4", "double": "<f8", "int8": "i1"}[self.element])


@dataclass(frozen=True)
class ScanSpec:
    """What every slice of a search is read for. Picklable: executors get it.

    `ties` are the columns that order rows of equal distance where there are no keys; without them it is their place.
    """

    table_uri: str
    schema: pa.Schema
    column: VectorColumn
    predicate: Predicate | None = None
    zone: str = "UTC"
    has_keys: bool = True
    ties: tuple[str, ...] = ()
    options: StorageOptions = field(default=StorageOptions(), repr=False)

    def fields(self, names: Sequence[str]) -> list[pa.Field]:
        """The table's fields of these names.

        Raises:
            UnknownColumnError: The table has no such column.
        """
        for name in names:
            if self.schema.get_field_index(name) < 0:
                raise UnknownColumnError.of(name, self.schema.names, self.table_uri)
        return [self.schema.field(name) for name in names]

    @property
    def tie_columns(self) -> tuple[str, ...]:
        """The columns that order rows of equal distance, the most significant first; none where their place does."""
        return TIE_COLUMNS if self.has_keys else self.ties

    @cached_property
    def filter_columns(self) -> tuple[str, ...]:
        """The columns the predicate needs, in the table's order."""
        if self.predicate is None:
            return ()
        needed = columns(self.predicate)
        return tuple(name for name in self.schema.names if name in needed)

    @cached_property
    def filter_schema(self) -> pa.Schema:
        """The same with their types."""
        return pa.schema(self.fields(self.filter_columns))


@dataclass
class ScanCounts:
    """What became of the rows of a scan. `uneven` are those of `invalid` whose list has another length."""

    rows: int = 0
    pruned: int = 0
    filtered: int = 0
    nulls: int = 0
    invalid: int = 0
    bytes_read: int = 0
    cached_slices: int = 0
    uneven: int = 0

    def add(self, other: ScanCounts) -> None:
        """Count another scan's rows too."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class SliceReader(Protocol):
    """One slice, opened for one search."""

    def blocks(self, counts: ScanCounts) -> Iterator[VectorBlock]:
        """The rows under the predicate that have a vector, counted on the way."""
        ...

    def rows(self, positions: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
        """Columns of the rows at these positions, in the table's types and in this order."""
        ...
