"""The rows of a snapshot that pass a filter, with or without a vector, read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from hudi_vector.query.execute import open_slice
from hudi_vector.query.opened.request import require_readable, vector_column
from hudi_vector.query.plan import SearchPlan, SliceAccess
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.query.tuning import Tuning
from hudi_vector.read.conform import conform
from hudi_vector.read.lance import LanceSlice
from hudi_vector.read.logs.merged import MergedSlice
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.predicate.nodes import Predicate
from hudi_vector.read.spec import ScanCounts
from hudi_vector.storage import open_storage
from hudi_vector.table.model import Snapshot

__all__ = ["count_rows", "plan_of_rows", "read_rows"]

T = TypeVar("T")

_AT_ONCE = 1 << 16


def plan_of_rows(
    snapshot: Snapshot, column: str, predicate: Predicate | None, zone: str, conf: Mapping[str, str]
) -> SearchPlan:
    """Return a plan that reads the rows that pass a predicate, without an index; `column` is a vector column.

    Raises UnsupportedTableError if only Spark can read the snapshot.
    """
    searched = vector_column(snapshot, column, snapshot.source.name, 1)
    request = SearchRequest(
        searched, "l2", 1, predicate=predicate, zone=zone, execution="local", tuning=Tuning("exact")
    )
    plan = make_plan(snapshot, request, conf)
    require_readable(plan)
    return plan


def read_rows(plan: SearchPlan, names: Sequence[str]) -> pa.Table:
    """Read columns of the rows of a plan; decoded columns are kept in the process's cache."""
    none = conform(pa.table({}), plan.spec.fields(names))

    def read(access: SliceAccess) -> pa.Table:
        reader = open_slice(access, plan.spec, keep=True)
        if isinstance(reader, MergedSlice):
            return pa.concat_tables([none, *reader.tables(names, _AT_ONCE)])
        assert isinstance(reader, (ParquetSlice, LanceSlice))
        return reader.rows(np.flatnonzero(reader.allowed(ScanCounts())), names)

    return pa.concat_tables([none, *_each(plan, read)])


def count_rows(plan: SearchPlan) -> int:
    """Count the rows of a plan; without a predicate, footers are enough for files without log files."""

    def count(access: SliceAccess) -> int:
        reader = open_slice(access, plan.spec, keep=True)
        if isinstance(reader, MergedSlice):
            return sum(part.num_rows for part in reader.tables([plan.spec.column.name], _AT_ONCE))
        assert isinstance(reader, (ParquetSlice, LanceSlice))
        return int(reader.allowed(ScanCounts()).sum())

    return sum(_each(plan, count))


def _each(plan: SearchPlan, work: Callable[[SliceAccess], T]) -> list[T]:
    """Return the results of `work` for all slices of a plan, which are read at once where their store answers late."""
    return open_storage(plan.spec.table_uri, plan.spec.options).each(work, plan.slices, decodes=True)
