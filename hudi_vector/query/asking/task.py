"""The work of a task with rows that ask: they are searched for in batches and give complete output rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hudi_vector.query.asking.output import Column, Found, assemble, sources, unmatched
from hudi_vector.query.asking.queries import AskedRows, Queries
from hudi_vector.read.cache import process_cache
from hudi_vector.read.conform import conform

__all__ = ["AskingTask", "Finder", "gathered"]

_OUTPUT_ROWS = 1 << 18
_BATCH_BYTES = 64 << 20
_FIRST_OF_RANGE = 64


class Finder(Protocol):
    """A picklable search for queries: in a side of a join, in a table as a stream sees it, or by several columns."""

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the rows found for at least one query, by query and rank, with the named columns."""
        ...


@dataclass(frozen=True)
class AskingTask:
    """The search for rows that ask: their queries, the finder, and the columns of the output with their Arrow fields.

    `k` is the largest number of rows found for each, None if it is not limited. `cache` is the size of the process's
    cache in bytes. `outer` keeps asking rows without a match. A search asks for about `most` output rows.
    """

    queries: Queries
    finder: Finder
    columns: tuple[Column, ...]
    schema: tuple[pa.Field, ...]
    k: int | None
    cache: int
    outer: bool = False
    most: int = _OUTPUT_ROWS

    def over(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the output rows of a partition of asking rows."""
        for rows in gathered(batches, max(1, self.most // (self.k or 1)), _BATCH_BYTES):
            yield from self.run(rows)

    def table(self, rows: pa.Table) -> pa.Table:
        """Return the output rows of some asking rows as one table."""
        schema = pa.schema([pa.field(field.name, field.type) for field in self.schema])
        return pa.Table.from_batches(self.run(rows), schema)

    def run(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the output rows of some asking rows, by asking row and rank."""
        process_cache().resize(self.cache)
        asked, names = self.queries.of(rows), sources(self.columns, "corpus")
        first, begin, step = 0, 0, self._first_step()
        while True:
            part = asked.part(first, first + step)
            last = first + len(part)
            found = self.finder.find(part, names) if len(part) else Found.nothing()
            end = int(asked.at[last]) if last < len(asked) else rows.num_rows
            alone = unmatched(part.at[found.query], begin, end) if self.outer else None
            table = assemble(self.columns, found, asked.rows, part.at, alone)
            yield from conform(table, list(self.schema)).combine_chunks().to_batches()
            if last == len(asked):
                return
            step = self._next_step(step, len(found.query), len(part))
            first, begin = last, end

    def _first_step(self) -> int:
        return max(1, self.most // self.k) if self.k else _FIRST_OF_RANGE

    def _next_step(self, step: int, found: int, asked: int) -> int:
        """Return how many rows ask next: constant with `k`, otherwise adapted to the number of rows found."""
        if self.k:
            return step
        return max(1, min(8 * step, self.most * asked // max(found, 1), self.most))


def gathered(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.Table]:
    """Yield tables of one or more batches, so that the searched side is read less often.

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
