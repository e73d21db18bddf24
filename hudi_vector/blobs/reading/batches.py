"""Streams of record batches whose BLOB columns are replaced by bytes, in batches bounded by bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.resolve import MAX_VALUE_BYTES
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import InvalidArgumentError, UnknownColumnError

__all__ = ["read_batches"]

# Sizes of files are looked up for this many rows at a time, so a LIMIT that stops early has looked up few.
_LOOK_ROWS = 1024


def read_batches(
    batches: Iterable[pa.RecordBatch],
    columns: Mapping[str, str],
    fetcher: BlobFetcher,
    memory_budget_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Read the bytes of BLOB columns, with as many rows per batch as the memory budget allows.

    Small input batches are combined, so that ranges of one file are read together even if their rows came in different
    batches; large batches are cut. Memory holds no more than the current input batch, the waiting rows (within the
    budget), and the output batches being made and being used (each within the budget, or one row).

    Args:
        batches: The input; all batches have one schema.
        columns: The name of the output column by BLOB column. If the names are equal, the output replaces the column;
            otherwise it is appended.
        fetcher: Reads the bytes.
        memory_budget_bytes: The largest number of bytes of an output batch, 1 or more: the bytes read and the average
            size of the input rows. A larger row is a separate batch.

    Yields:
        Non-empty batches of the rows in order, NULLs kept, output columns of type ``binary``.

    Raises:
        InvalidArgumentError: The budget is below 1, or the name of an output column is taken.
        UnknownColumnError: There is no such column.
        InvalidBlobError: A column is not a BLOB, or the fields of a blob contradict each other.
        BlobReadError: Bytes cannot be read, and the fetcher's `on_error` is ``"raise"``.

    Example:
        >>> from hudi_vector.blobs.struct import blob_array
        >>> blobs = blob_array(["INLINE"] * 3, [b"a", b"bb", b"c"], *[[None] * 3] * 4)
        >>> batch = pa.record_batch({"id": [1, 2, 3], "img": blobs})
        >>> [read.num_rows for read in read_batches([batch], {"img": "img"}, BlobFetcher(), 1 << 20)]
        [3]
    """
    if memory_budget_bytes < 1:
        raise InvalidArgumentError(f"a memory budget of {memory_budget_bytes} bytes is not allowed: give 1 or more")
    budget = min(memory_budget_bytes, MAX_VALUE_BYTES)
    reader = _Reader(dict(columns), fetcher, fetcher.files())
    waiting = _Waiting()
    for batch in batches:
        reader.check(batch.schema)
        for start in range(0, batch.num_rows, _LOOK_ROWS):
            rows = batch.slice(start, _LOOK_ROWS)
            waiting.add(rows, reader.cost(rows))
            while waiting.cost > budget:
                yield reader.read(waiting.take(budget))
        del batch
    while waiting.rows:
        yield reader.read(waiting.take(budget))


@dataclass(frozen=True)
class _Reader:
    """The columns to read (output column by BLOB column), the fetcher, and the files looked up so far."""

    columns: dict[str, str]
    fetcher: BlobFetcher
    files: BlobFiles

    def check(self, schema: pa.Schema) -> None:
        """Check that all columns exist and that all output names are free.

        Raises UnknownColumnError for a missing column, InvalidArgumentError for a name that is taken.
        """
        for column, output in self.columns.items():
            if column not in schema.names:
                raise UnknownColumnError.of(column, schema.names, "the batches")
            if output != column and (output in schema.names or list(self.columns.values()).count(output) > 1):
                raise InvalidArgumentError(f"the bytes of '{column}' cannot be called '{output}': the name is taken")

    def cost(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the bytes that each row will take: the bytes to read, and its share of the input batch."""
        cost = np.full(rows.num_rows, -(-rows.nbytes // rows.num_rows), np.int64)
        for column in self.columns:
            cost += self.fetcher.sizes(_blobs(rows, column), files=self.files)
        return cost

    def read(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their output columns."""
        for column, output in self.columns.items():
            values = self.fetcher.fetch(_blobs(rows, column), files=self.files)
            field = pa.field(output, pa.binary())
            if output == column:
                rows = rows.set_column(rows.schema.get_field_index(column), field, values)
            else:
                rows = rows.append_column(field, values)
        return rows


class _Waiting:
    """A queue of rows whose bytes are not read yet, with their cost in bytes."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[pa.RecordBatch, npt.NDArray[np.int64]]] = deque()
        self.cost = 0
        self.rows = 0

    def add(self, rows: pa.RecordBatch, cost: npt.NDArray[np.int64]) -> None:
        """Append rows."""
        self._pieces.append((rows, cost))
        self.cost += int(cost.sum())
        self.rows += rows.num_rows

    def take(self, budget: int) -> pa.RecordBatch:
        """Remove and return as many of the first rows as the budget allows, at least one."""
        taken: list[pa.RecordBatch] = []
        left = budget
        while self._pieces:
            rows, cost = self._pieces.popleft()
            fits = int(np.searchsorted(np.cumsum(cost), left, side="right"))
            if not taken:
                fits = max(fits, 1)
            if fits:
                taken.append(rows.slice(0, fits))
                left -= int(cost[:fits].sum())
            if fits < rows.num_rows:
                self._pieces.appendleft((rows.slice(fits), cost[fits:]))
                break
        self.cost -= budget - left
        self.rows -= sum(rows.num_rows for rows in taken)
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)


def _blobs(rows: pa.RecordBatch, column: str) -> BlobColumns:
    return BlobColumns.of(rows.column(column), f"column '{column}'")
