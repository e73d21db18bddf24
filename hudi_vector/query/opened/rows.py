"""The rows of a snapshot that pass a filter, with or without a vector, read without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from hudi_vector.query.execute import open_slice
from hudi_vector.query.opened.request import require_readable, vector_column
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.conform import conform
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.predicate.nodes import Predicate
from hudi_vector.read.spec import ScanCounts
from hudi_vector.table.model import Snapshot

__all__ = ["count_rows", "read_rows"]

_AT_ONCE = 1 << 16


def read_rows(
    snapshot: Snapshot,
    column: str,
    names: Sequence[str],
    predicate: Predicate | None = None,
    zone: str = "UTC",
    conf: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read columns of the rows that pass a predicate; decoded columns are kept in the process's cache.

    `column` is a vector column of the table. Raises UnsupportedTableError if only Spark can read the snapshot.
    """
    plan = _plan(snapshot, column, predicate, zone, conf)
    parts = [conform(pa.table({}), plan.spec.fields(names))]
    for access in plan.slices:
        reader = open_slice(access, plan.spec, keep=True)
        if isinstance(reader, MergedSlice):
            parts += reader.tables(names, _AT_ONCE)
        else:
            assert isinstance(reader, (ParquetSlice, LanceSlice))
            parts.append(reader.rows(np.flatnonzero(reader.allowed(ScanCounts())), names))
    return pa.concat_tables(parts)


def count_rows(
    snapshot: Snapshot,
    column: str,
    predicate: Predicate | None = None,
    zone: str = "UTC",
    conf: Mapping[str, str] | None = None,
) -> int:
    """Count the rows that pass a predicate; without one, footers are enough for files without log files."""
    plan, found = _plan(snapshot, column, predicate, zone, conf), 0
    for access in plan.slices:
        reader = open_slice(access, plan.spec, keep=True)
        if isinstance(reader, MergedSlice):
            found += sum(part.num_rows for part in reader.tables([column], _AT_ONCE))
        else:
            assert isinstance(reader, (ParquetSlice, LanceSlice))
            found += int(reader.allowed(ScanCounts()).sum())
    return found


def _plan(
    snapshot: Snapshot, column: str, predicate: Predicate | None, zone: str, conf: Mapping[str, str] | None
) -> SearchPlan:
    searched = vector_column(snapshot, column, snapshot.source.name, 1)
    request = SearchRequest(
        searched, "l2", 1, predicate=predicate, zone=zone, execution="local", tuning=Tuning("exact")
    )
    plan = make_plan(snapshot, request, conf or {})
    require_readable(plan)
    return plan
