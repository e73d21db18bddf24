"""The snapshots, plans and indexes by which a stream searches a table, kept for the next micro-batch."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from hudi_vector import options
from hudi_vector.errors import UnmergeableError, UnsupportedTableError
from hudi_vector.index.catalog import Index
from hudi_vector.query.asking.values import Values, asked_columns, bound
from hudi_vector.query.index_choice import known_indexes
from hudi_vector.query.plan import SearchPlan
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.read.predicate.nodes import Column
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["TablePlans"]

_INDEXES_KEPT = 10.0  # seconds; a search without the newest refresh is right, only slower

# Of this process, for all streams.
_SNAPSHOTS: Recent[tuple[str, str], Snapshot] = Recent(32)
_PLANS: Recent[tuple[Hashable, ...], SearchPlan] = Recent(512)
_INDEXES: Recent[tuple[Hashable, ...], tuple[float, list[Index]]] = Recent(32)


@dataclass(frozen=True)
class TablePlans:
    """A table and a checked request, from which its plans are made; `number` is unique in the process."""

    number: str
    source: Source
    request: SearchRequest
    table_fields: tuple[pa.Field, ...]
    conf: tuple[tuple[str, str], ...]

    def plan(self, moment: Moment, dimension: int, values: Values = (), queries: int = 1) -> SearchPlan:
        """Return the plan of a search of the table at a moment, for so many queries of a length.

        `values` are those of the asking row that the filter compares with. Raises UnsupportedTableError if only Spark
        can read one of the slices.
        """
        conf = dict(self.conf)
        many = queries > options.INDEX_BATCH_MAX_QUERIES.read(conf)
        since, indexes = self._indexes(conf)
        key = (self.number, moment.text, dimension, values, many, since)
        known = _PLANS.get(key)
        if known is not None:
            return known
        predicate = self.request.predicate
        if predicate is not None:
            predicate = bound(predicate, self.asked, values)
        column = replace(self.request.column, dimension=dimension)
        request = replace(self.request, column=column, predicate=predicate, queries=queries)
        plan = make_plan(self.snapshot(moment).with_fields(self.table_fields), request, conf, indexes)
        if plan.execution == "spark":
            raise self._only_by_spark(f"must be {plan.reason}")
        _PLANS.put(key, plan)
        return plan

    @property
    def asked(self) -> tuple[Column, ...]:
        """Return the columns of the asking row that the filter compares with."""
        return asked_columns(self.request.predicate)

    def snapshot(self, moment: Moment) -> Snapshot:
        """Return the snapshot of the table at a moment."""
        key = (self.source.uri, moment.text)
        known = _SNAPSHOTS.get(key)
        if known is None:
            known = NativeTable(self.source).snapshot(moment.as_of)
            _SNAPSHOTS.put(key, known)
        return known

    def _indexes(self, conf: dict[str, str]) -> tuple[float, list[Index]]:
        key = (self.source, self.request.column.name, self.request.tuning, self.conf)
        known = _INDEXES.get(key)
        if known is None or time.monotonic() - known[0] > _INDEXES_KEPT:
            begun = time.monotonic()
            known = begun, known_indexes(self.source, self.request.column.name, conf, self.request.tuning)
            _INDEXES.put(key, known)
        return known

    def shown(self, moment: Moment) -> str | None:
        """Return the newest completion time of the commits at a moment, None if there are none."""
        return self.snapshot(moment).watermark if moment.completed else None

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Raise UnsupportedTableError in place of UnmergeableError, for log files that only Spark merges."""
        try:
            yield
        except UnmergeableError as problem:
            raise self._only_by_spark(f"has log files that only Spark merges ({problem})") from problem

    def _only_by_spark(self, reason: str) -> UnsupportedTableError:
        return UnsupportedTableError(
            f"'{self.source.name}' cannot be searched by a stream now, since it {reason}; compact the table, or "
            "search in foreachBatch with hudi_vector.search_batch"
        )
