"""All rows of an opened table as a stream of Arrow batches, a few of which are in memory at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat, takewhile

import pyarrow as pa

from hudi_vector.query.execute import open_slice
from hudi_vector.query.plan import SearchPlan
from hudi_vector.storage.parallel import ahead

__all__ = ["row_reader", "with_rows"]

_SLICES_AHEAD = 2


def row_reader(plan: SearchPlan, names: Sequence[str], batch_size: int) -> pa.RecordBatchReader:
    """Return a reader of all rows that pass the filter of a plan, slice by slice, at most `batch_size` rows at a time.

    Nothing is kept in the process's cache. One batch is read ahead of the one that is taken, and one of each of the
    next slices, so that a slow store is waited for once.
    """
    slices = (open_slice(access, plan.spec, keep=False).tables(names, batch_size) for access in plan.slices)
    schema = pa.schema([pa.field(field.name, field.type) for field in plan.spec.fields(names)])
    batches = (batch for part in _ahead(slices) for batch in part.to_batches(max_chunksize=batch_size))
    return pa.RecordBatchReader.from_batches(schema, (batch for batch in batches if batch.num_rows))


def _ahead(slices: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Yield the parts of all slices in order; the first parts of the next slices are read in the meantime."""
    waiting = deque[Iterator[pa.Table]]()
    for parts in slices:
        waiting.append(_one_ahead(parts))
        if len(waiting) > _SLICES_AHEAD:
            yield from waiting.popleft()
    for left in waiting:
        yield from left


def _one_ahead(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Begin to read the first part now, and return all parts; each is read while the one before it is used."""
    return takewhile(lambda part: part is not None, ahead(repeat(partial(next, parts, None))))


def with_rows(reader: pa.RecordBatchReader, most: int) -> pa.Table:
    """Return the first rows of a reader, at most so many, and close it."""
    parts, left = [], most
    with reader:
        for batch in reader if most else ():
            parts.append(batch.slice(0, left))
            left -= parts[-1].num_rows
            if not left:
                break
    return pa.Table.from_batches(parts, reader.schema)
