"""The index of samples: where the rows' blobs are, and their other columns; batches of it are read in any process.

It holds no open file, no lock, no thread and no client of a store. A process that was forked, or got the index pickled,
opens the files that it reads by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.blobs.reading.base_files import BaseFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.lazy import LazyColumns, fetch_lazy, lazy_sizes
from hudi_vector.blobs.reading.pieces import cut
from hudi_vector.blobs.samples.scan import SampleScan, carried
from hudi_vector.errors import BlobReadError, DataFileError, InvalidArgumentError, InvalidTypeError, number_of
from hudi_vector.read.conform import vector_type
from hudi_vector.schema import VectorType
from hudi_vector.table.model import Snapshot

__all__ = ["SampleIndex", "as_samples"]

Ints = npt.NDArray[np.int64]

_PATH = "path"
_KEPT_SHARE = 4  # one part in so many of the memory budget caches pages, which may hold the next rows too


class _Opened:
    """The open base files of this process; another process begins without any."""

    def __init__(self) -> None:
        self._pid = 0
        self._bases: BaseFiles | None = None

    def bases(self, fetcher: BlobFetcher, budget: int) -> BaseFiles:
        """Return the base files that this process has opened."""
        if self._bases is None or self._pid != os.getpid():
            self._bases, self._pid = BaseFiles(fetcher.options, kept=budget // _KEPT_SHARE), os.getpid()
        return self._bases

    def __reduce__(self) -> tuple[type[_Opened], tuple[()]]:
        return _Opened, ()


@dataclass(frozen=True)
class SampleIndex:
    """The rows of a table at one instant, by position from 0; picklable.

    Attributes:
        table: The table's name, for messages.
        instant: The newest instant that the rows are of.
        plain: The plain columns.
        references: For each BLOB column the fields of `LazyColumns`, paths as a dictionary, and the bytes that are
            carried along, if there are some.
        vectors: The VECTOR columns among the plain ones.
        fetcher: Reads the bytes.
        budget: The number of bytes of blobs that are read at a time; a larger blob is read alone.
    """

    table: str
    instant: str | None
    plain: pa.Table
    references: Mapping[str, pa.Table]
    vectors: Mapping[str, VectorType]
    fetcher: BlobFetcher
    budget: int
    rows: int
    _opened: _Opened = field(default_factory=_Opened, repr=False, compare=False)

    @classmethod
    def of(
        cls, parts: Sequence[pa.Table], scan: SampleScan, snapshot: Snapshot, fetcher: BlobFetcher, budget: int
    ) -> SampleIndex:
        """Return the index of the rows that a scan found, slice by slice."""
        fields = [snapshot.schema.field(name) for name in scan.plain]
        empty = pa.schema([pa.field(each.name, each.type) for each in fields]).empty_table()
        vectors = {each.name: kind for each in fields if (kind := vector_type(each)) is not None}
        return cls(
            table=snapshot.source.name,
            instant=snapshot.instant,
            plain=pa.concat_tables([empty, *(part.select(scan.plain) for part in parts)]).combine_chunks(),
            references={name: _references([_of_part(part, name) for part in parts]) for name in scan.blobs},
            vectors=vectors,
            fetcher=fetcher,
            budget=budget,
            rows=sum(part.num_rows for part in parts),
        )

    def __len__(self) -> int:
        return self.rows

    @property
    def nbytes(self) -> int:
        """Return the bytes of the index in memory."""
        return int(self.plain.nbytes + sum(table.nbytes for table in self.references.values()))

    def pieces(self, positions: Any) -> Iterator[pa.Table]:
        """Yield the rows at these positions in order, BLOB columns as bytes, as many at a time as the budget allows.

        The ranges of a piece are planned together. Raises InvalidArgumentError for a position that there is not, and
        BlobReadError or DataFileError if bytes cannot be read and the fetcher's `on_error` is ``"raise"``.
        """
        wanted = self._checked(positions)
        bases, files = self._opened.bases(self.fetcher, self.budget), self.fetcher.files()
        taken = {name: table.take(wanted) for name, table in self.references.items()}
        lazy = {name: _lazy(table) for name, table in taken.items()}
        try:
            sizes = np.zeros(len(wanted), np.int64)
            for name, columns in lazy.items():
                sizes += lazy_sizes(self.fetcher, columns, bases, files) + _carried_sizes(taken[name])
            for start, stop in cut(sizes, self.budget):
                found = {each: self.plain[each].take(wanted[start:stop]) for each in self.plain.column_names}
                for name, columns in lazy.items():
                    values = fetch_lazy(self.fetcher, columns.slice(start, stop), bases, files)
                    found[name] = _with_carried(values, taken[name], start, stop)
                yield pa.table(found)
        except DataFileError as problem:
            raise self._explained(problem) from problem

    def read(self, positions: Any) -> dict[str, list[Any]]:
        """Return the rows at these positions, in this order, as a list of values for each column.

        A blob is bytes, a vector is an array of numpy, and NULL is None. Raises errors as `pieces` does.
        """
        found: dict[str, list[Any]] = {name: [] for name in (*self.plain.column_names, *self.references)}
        for piece in self.pieces(positions):
            for name, values in self.values(piece).items():
                found[name] += values
        return found

    def values(self, piece: pa.Table) -> dict[str, list[Any]]:
        """Return the columns of a piece as lists of Python values, vectors as arrays of numpy."""
        return {
            name: _arrays(piece[name], self.vectors[name]) if name in self.vectors else piece[name].to_pylist()
            for name in piece.column_names
        }

    def _checked(self, positions: Any) -> pa.Array:
        numbers = np.asarray(positions)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise InvalidTypeError(f"positions are a list of whole numbers, not {positions!r}"[:200])
        wrong = numbers[(numbers < 0) | (numbers >= self.rows)]
        if wrong.size:
            raise InvalidArgumentError(
                f"there is no row {int(wrong[0])}: the dataset of '{self.table}' has {number_of(self.rows, 'row')}, "
                "counted from 0"
            )
        return pa.array(numbers.astype(np.int64))

    def _explained(self, problem: DataFileError) -> BlobReadError:
        return BlobReadError(
            f"{problem}; the dataset has the rows of '{self.table}' as of {self.instant}, "
            "so make it again if the table was cleaned or compacted since"
        )


def as_samples(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return a dict for each row of columns of equal length.

    Example:
        >>> as_samples({"id": [1, 2], "image": [b"a", None]})
        [{'id': 1, 'image': b'a'}, {'id': 2, 'image': None}]
    """
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _of_part(part: pa.Table, name: str) -> pa.Table:
    """Return the references of a slice, each path once, with the bytes that are carried along."""
    columns = LazyColumns.of(part[name].combine_chunks())
    found = {
        _PATH: columns.path.dictionary_encode(),
        "offset": columns.offset,
        "length": columns.length,
        "row": columns.row,
        "inline": columns.inline,
    }
    own = carried(name)
    return pa.table({**found, "bytes": part[own]} if own in part.column_names else found)


def _references(parts: Sequence[pa.Table]) -> pa.Table:
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = {_PATH: kind, "offset": pa.int64(), "length": pa.int64(), "row": pa.int64(), "inline": pa.bool_()}
    empty = pa.schema(list(schema.items())).empty_table()
    found = pa.concat_tables([empty, *parts], promote_options="default")
    return found.unify_dictionaries().combine_chunks()


def _lazy(table: pa.Table) -> LazyColumns:
    path, offset, length, row, inline = (_one(table[name]) for name in (_PATH, "offset", "length", "row", "inline"))
    return LazyColumns(path.cast(pa.string()), offset, length, row, inline)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _carried_sizes(table: pa.Table) -> Ints:
    if "bytes" not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    return np.asarray(pc.fill_null(pc.binary_length(table["bytes"]), 0)).astype(np.int64)


def _with_carried(values: pa.BinaryArray, table: pa.Table, start: int, stop: int) -> pa.Array | pa.ChunkedArray:
    """Return the values with the bytes that are carried along where there are some."""
    if "bytes" not in table.column_names:
        return values
    return pc.coalesce(table["bytes"].slice(start, stop - start), values)


def _arrays(column: pa.ChunkedArray, kind: VectorType) -> list[Any]:
    """Return vectors as arrays of numpy, None for NULL."""
    found: list[Any] = [None] * len(column)
    there = np.flatnonzero(np.asarray(column.is_valid()))
    flat = np.asarray(pc.list_flatten(column)).astype(kind.dtype).reshape(len(there), kind.dimension)
    for place, vector in zip(there.tolist(), flat, strict=True):
        found[place] = vector
    return found
