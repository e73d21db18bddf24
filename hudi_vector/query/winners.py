"""The other columns of the rows found, read after the merge for these rows only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial

import numpy as np
import pyarrow as pa

from hudi_vector.index.calibration.held_out import Each
from hudi_vector.kernels.topk import Ints
from hudi_vector.query.execute import open_slice
from hudi_vector.query.merge import Winners
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.conform import conform
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.rows_ahead import RowsAhead
from hudi_vector.read.spec import TIE_COLUMNS, SliceReader
from hudi_vector.storage import parallel

__all__ = ["fetch_rows", "named_rows", "stored_names"]


def fetch_rows(
    plan: SearchPlan,
    winners: Winners,
    names: Sequence[str],
    keep: bool,
    threads: Executor | None = None,
    ahead: RowsAhead | None = None,
) -> pa.Table:
    """Return columns of the winning rows, in the winners' order and the table's types.

    With `keep`, decoded columns are kept in the process's cache. With `threads`, slices are read in parallel. `ahead`
    has read these columns of some rows already.
    """
    fields = plan.spec.fields(names)
    if not len(winners) or not names:
        return conform(pa.table({}), fields) if names else pa.table({})
    places = [np.flatnonzero(winners.slice_index == index) for index in np.unique(winners.slice_index)]
    readers = [open_slice(plan.slices[int(winners.slice_index[here[0]])], plan.spec, keep) for here in places]

    def read(number: int) -> pa.Table:
        return _rows_of_slice(readers[number], winners, places[number], names)

    # Cached columns are read inline: handing over to a thread would take longer.
    found = dict(enumerate(_held(*one, winners, names, ahead) for one in zip(readers, places, strict=True)))
    left = [number for number, held in found.items() if held is None]
    if left:
        each: Each = map
        others = [readers[number] for number in left]
        if not all(isinstance(reader, ParquetSlice) and reader.holds(names) for reader in others):
            is_remote = any(isinstance(reader, ParquetSlice) and not reader.is_local for reader in others)
            each = partial(parallel.each, decodes=True) if is_remote else threads.map if threads else map
        found |= zip(left, each(read, left), strict=True)
    back = np.empty(len(winners), np.int64)
    back[np.concatenate(places)] = np.arange(len(winners))
    return pa.concat_tables(found.values()).take(pa.array(back))


def stored_names(names: Sequence[str], physical: Mapping[str, str]) -> list[str]:
    """Return the table's columns that columns of a view show, each once."""
    return list(dict.fromkeys(physical[name] for name in names))


def named_rows(
    plan: SearchPlan,
    winners: Winners,
    names: Sequence[str],
    physical: Mapping[str, str],
    threads: Executor | None = None,
    ahead: RowsAhead | None = None,
) -> pa.Table:
    """Return columns of the winning rows under a view's names.

    `physical` maps each name of the view to the table's column; several names may stand for one column. `ahead` has
    read the table's columns of some rows already.
    """
    own = stored_names(names, physical)
    rows = fetch_rows(plan, winners, own, keep=True, threads=threads, ahead=ahead)
    return pa.table([rows.column(physical[name]) for name in names], names=list(names)) if names else rows


def _held(
    reader: SliceReader, here: Ints, winners: Winners, names: Sequence[str], ahead: RowsAhead | None
) -> pa.Table | None:
    """Return the winning rows of a slice, or None unless the process's cache holds their columns, or they are read."""
    if not isinstance(reader, ParquetSlice):
        return None
    found = None if ahead is None else ahead.rows(int(winners.slice_index[here[0]]), winners.position[here])
    return reader.held_rows(winners.position[here], names) if found is None else found


def _rows_of_slice(reader: SliceReader, winners: Winners, here: Ints, names: Sequence[str]) -> pa.Table:
    if isinstance(reader, MergedSlice):
        assert winners.keys is not None
        return reader.rows_of(winners.keys.take(pa.array(winners.key_row[here])).select(TIE_COLUMNS), names)
    return reader.rows(winners.position[here], names)
