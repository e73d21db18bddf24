"""The work of a join's task: the left rows of its partition are searched in batches and give complete output rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector import options
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Ints
from hudi_vector.query.asking.output import Column, Found, assemble, sources, unmatched
from hudi_vector.query.asking.queries import query_vectors
from hudi_vector.query.asking.values import LEFT_MARK
from hudi_vector.query.join.nearest import Ask, nearest_rows
from hudi_vector.query.join.sides import RightSide, found_rows
from hudi_vector.read.cache import process_cache
from hudi_vector.read.conform import conform
from hudi_vector.read.predicate.form import evaluate
from hudi_vector.read.spec import VectorColumn

__all__ = ["JoinTask", "gathered"]

_ROWS_AT_ONCE = 1 << 18
_BATCH_BYTES = 64 << 20
_FIRST_OF_RANGE = 64


@dataclass(frozen=True)
class JoinTask:
    """The right side, the question, the output columns, and the reading of left vectors.

    `dimension` is the length of the right vectors, None if the column does not declare it. `outer` keeps left rows
    without a match.
    """

    side: RightSide
    ask: Ask
    query_column: VectorColumn
    query_label: str
    dimension: int | None
    columns: tuple[Column, ...]
    schema: tuple[pa.Field, ...]
    conf: tuple[tuple[str, str], ...]
    outer: bool = False

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output rows of a partition of left rows."""
        most = max(1, _ROWS_AT_ONCE // (self.ask.k or 1))
        for rows in gathered(batches, most, _BATCH_BYTES):
            yield from self.run(rows)

    def table(self, rows: pa.Table) -> pa.Table:
        """Return the output rows of some left rows as one table."""
        schema = pa.schema([pa.field(field.name, field.type) for field in self.schema])
        return pa.Table.from_batches(self.run(rows), schema)

    def run(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the output rows of some left rows, by left row and rank."""
        process_cache().resize(options.CACHE_MAX_BYTES.read(dict(self.conf)))
        vectors, at, _ = query_vectors(rows, self.query_column, self.query_label, self.dimension)
        asking = self._asking(rows, at)
        vectors, at = vectors[asking], at[asking]
        left = rows.select(list(self.ask.condition.left_names)).take(pa.array(at))
        names = sources(self.columns, "corpus")
        first, begin, step = 0, 0, self._first_step()
        while True:
            last = min(first + step, len(at))
            part = slice(first, last)
            found = self._found(vectors[part], left.slice(first, last - first), names)
            end = int(at[last]) if last < len(at) else rows.num_rows
            alone = unmatched(at[part][found.query], begin, end) if self.outer else None
            yield from self._output(assemble(self.columns, found, rows, at[part], alone))
            if last == len(at):
                return
            step = self._next_step(step, len(found.query), last - first)
            first, begin = last, end

    def _found(self, vectors: Floats, left: pa.Table, names: Sequence[str]) -> Found:
        if not len(vectors):
            return Found.nothing()
        return found_rows(nearest_rows(self.side, vectors, left, self.ask, names), names)

    def _asking(self, rows: pa.Table, at: Ints) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows with a vector: True where the condition's left part holds."""
        condition = self.ask.condition.left
        if condition is None:
            return np.ones(len(at), np.bool_)
        marked = rows.rename_columns([LEFT_MARK + name for name in rows.column_names])
        return evaluate(condition, marked, self.ask.zone)[at]

    def _output(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        yield from conform(table, list(self.schema)).combine_chunks().to_batches()

    def _first_step(self) -> int:
        return max(1, _ROWS_AT_ONCE // self.ask.k) if self.ask.k else _FIRST_OF_RANGE

    def _next_step(self, step: int, found: int, asked: int) -> int:
        """Return how many left rows ask next: constant with `k`, otherwise adapted to the number of rows found."""
        if self.ask.k:
            return step
        return max(1, min(8 * step, _ROWS_AT_ONCE * asked // max(found, 1), _ROWS_AT_ONCE))


def gathered(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.Table]:
    """Yield tables of one or more batches, so that the right side is read less often.

    A table is complete once it has `rows` rows or `size` bytes.

    Example:
        >>> batch = pa.record_batch({"a": [1, 2]})
        >>> [table.num_rows for table in gathered([batch, batch, batch], 3, 1 << 20)]
        [4, 2]
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= rows or sum(part.nbytes for part in held) >= size:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)
