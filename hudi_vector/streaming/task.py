"""What a task does with the rows of a micro-batch: find the nearest rows of the table as its moment shows it.

No JVM and no driver: a process of an executor reads the timeline and the files itself, and keeps snapshots, plans,
decoded slices and index codes for the next micro-batch and for other queries.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator

from hudi_vector import options
from hudi_vector.errors import DimensionMismatchError, InstantNotAvailableError, UnmergeableError, UnsupportedTableError
from hudi_vector.index.catalog import Index
from hudi_vector.read.cache import process_cache
from hudi_vector.read.spec import VectorColumn
from hudi_vector.search.batch_rows import Column, query_vectors
from hudi_vector.search.execute import Question
from hudi_vector.search.index_choice import known_indexes
from hudi_vector.search.join.sides import PlannedSide
from hudi_vector.search.plan import SearchPlan
from hudi_vector.search.planner import SearchRequest, make_plan
from hudi_vector.spark.worker_errors import in_few_words
from hudi_vector.streaming.answer import Answer, assembled, joined
from hudi_vector.streaming.calls import Call, results
from hudi_vector.streaming.config import FAIL, NEAREST, StreamConfig
from hudi_vector.streaming.correlated import Values, asked_columns, bound, groups_of
from hudi_vector.streaming.event_times import EventTime, History, moments_of
from hudi_vector.streaming.moments import MOMENT
from hudi_vector.streaming.sides import LEFT_ROW
from hudi_vector.table.instants import Moment
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["SNAPSHOT", "StreamSearch"]

SNAPSHOT = "__hudi_vector_snapshot"
"""The snapshot a row was answered from, beside its other columns."""

_ROWS_AT_ONCE = 1 << 20
_FEWEST_ROWS = 64
_INDEXES_KEPT = 10.0  # seconds: an index that was refreshed meanwhile only makes a search quicker
_SHOWN = 60

# Of this process, for all streams.
_SNAPSHOTS: Recent[tuple[str, str], Snapshot] = Recent(32)
_AVAILABLE: Recent[tuple[str, Moment, History], tuple[Moment | None]] = Recent(512)
_ARCHIVED: Recent[str, str] = Recent(32)  # the first action that was archived stays the first
_HISTORIES: Recent[tuple[str, str], History] = Recent(32)
_PLANS: Recent[tuple[Hashable, ...], SearchPlan] = Recent(512)
_INDEXES: Recent[tuple[Hashable, ...], tuple[float, list[Index]]] = Recent(32)


@dataclass(frozen=True)
class StreamSearch:
    """A streaming search, checked: all that its tasks need. `number` tells it from others of the process."""

    number: str
    source: Source
    request: SearchRequest
    table_fields: tuple[pa.Field, ...]
    physical: tuple[tuple[str, str], ...]
    query: VectorColumn
    columns: tuple[Column, ...]
    fields: tuple[pa.Field, ...]
    outer: bool
    config: StreamConfig
    conf: tuple[tuple[str, str], ...]
    event_time: EventTime | None = None
    lost: Accumulator[int] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output rows of the rows of a task."""
        process_cache().resize(self.config.cache_memory)
        for batch in batches:
            with in_few_words():
                for found in results(self._calls(pa.Table.from_batches([batch])), self.config):
                    yield from found.combine_chunks().to_batches()

    def plan(self, moment: Moment, dimension: int, values: Values = (), queries: int = 1) -> SearchPlan:
        """How the table is searched at a moment.

        Args:
            moment: What of its timeline is visible.
            dimension: The query vectors' length.
            values: What the filter compares with.
            queries: How many vectors ask.

        Returns:
            The plan.

        Raises:
            UnsupportedTableError: A slice can be read by Spark only.
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
            predicate = bound(predicate, self._asked, values)
        column = replace(self.request.column, dimension=dimension)
        request = replace(self.request, column=column, predicate=predicate, queries=queries)
        plan = make_plan(self._snapshot(moment).with_fields(self.table_fields), request, conf, indexes)
        if plan.execution == "spark":
            raise UnsupportedTableError(
                f"'{self.source.name}' cannot be searched by a stream now, since it must be {plan.reason}; compact the "
                "table, or search in foreachBatch with hudi_vector.search_batch"
            )
        _PLANS.put(key, plan)
        return plan

    @property
    def _asked(self) -> tuple[Any, ...]:
        return asked_columns(self.request.predicate, LEFT_ROW)

    def _snapshot(self, moment: Moment) -> Snapshot:
        key = (self.source.uri, moment.text)
        known = _SNAPSHOTS.get(key)
        if known is None:
            known = NativeTable(self.source).snapshot(moment.as_of)
            _SNAPSHOTS.put(key, known)
        return known

    def _shown(self, moment: Moment) -> str | None:
        """What the column of the snapshot says, where it is wanted."""
        return self._snapshot(moment).watermark if self.config.snapshot_column and moment.completed else None

    def _moments(
        self, rows: pa.Table, at: npt.NDArray[np.int64], newest: Moment
    ) -> Iterator[tuple[Moment, npt.NDArray[np.int64]]]:
        """The moments at which rows are searched, and which of the rows with vectors those are."""
        if not newest.completed or not len(at):
            return
        if self.event_time is None:
            yield newest, np.arange(len(at))
            return
        history = self._history(newest)
        for moment, members in moments_of(rows, at, self.event_time, history).items():
            if moment is None:
                continue
            found = self._available(moment, history)
            if found is not None:
                yield found, members
            elif self.config.unavailable == FAIL:
                told = _told(rows.slice(int(at[members[0]]), 1))
                raise InstantNotAvailableError(
                    f"the files of '{self.source.name}' at the time of {told} were cleaned away; set the config key "
                    "'unavailable-snapshot' to nearest or none, or let the table's cleaner retain more"
                )
            elif self.lost is not None:
                self.lost.add(len(members))

    def _available(self, moment: Moment, history: History) -> Moment | None:
        """A moment that can be searched: this one, or the next where that is wanted."""
        key = (self.number, moment, history)
        known = _AVAILABLE.get(key)
        if known is None:
            known = (self._searchable(moment, history),)
            _AVAILABLE.put(key, known)
        return known[0]

    def _searchable(self, moment: Moment, history: History) -> Moment | None:
        later = history.after(moment) if self.config.unavailable == NEAREST else ()
        for candidate in (moment, *later):
            if history.has(candidate):
                try:
                    self._snapshot(candidate)
                except InstantNotAvailableError:
                    continue
                return candidate
        return None

    def _history(self, newest: Moment) -> History:
        key = (self.source.uri, newest.text)
        known = _HISTORIES.get(key)
        if known is None:
            table = NativeTable(self.source)
            archived = _ARCHIVED.get(self.source.uri)
            if archived is None:
                archived = table.archived_since()
                if archived is not None:
                    _ARCHIVED.put(self.source.uri, archived)
            known = History.of(table.timeline().at_moment(newest), newest, archived)
            _HISTORIES.put(key, known)
        return known

    def _indexes(self, conf: dict[str, str]) -> tuple[float, list[Index]]:
        key = (self.source, self.request.column.name, self.request.tuning, self.conf)
        known = _INDEXES.get(key)
        if known is None or time.monotonic() - known[0] > _INDEXES_KEPT:
            begun = time.monotonic()
            known = begun, known_indexes(self.source, self.request.column.name, conf, self.request.tuning)
            _INDEXES.put(key, known)
        return known

    def _calls(self, rows: pa.Table) -> Iterator[Call[pa.Table]]:
        step = max(1, _ROWS_AT_ONCE // self.request.k)
        if self.config.is_async:
            step = min(step, max(_FEWEST_ROWS, -(-rows.num_rows // self.config.concurrent)))
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            yield Call(partial(self._answer, part), _told(part), self.config)

    def _answer(self, rows: pa.Table) -> pa.Table:
        self._require_lengths(rows)
        vectors, at, _ = query_vectors(rows, self.query, "the stream", self.request.column.dimension or None)
        newest = Moment.parse(rows.column(MOMENT)[0].as_py())
        shown = np.full(len(rows), None if self.event_time else self._shown(newest), object)
        answers = []
        for moment, here in self._moments(rows, at, newest):
            shown[at[here]] = self._shown(moment)
            for values, members in groups_of(rows, at[here], self._asked):
                asking = here[members]
                plan = self.plan(moment, vectors.shape[1], values, len(asking))
                answers.append(self._nearest(plan, vectors[asking], at[asking]))
        found = joined(answers, self._table_columns)
        rows = rows.append_column(SNAPSHOT, pa.array(shown, pa.string()))
        return assembled(self.columns, self.fields, rows, found, self.request.metric, self.outer)

    @property
    def _table_columns(self) -> list[pa.Field]:
        """The columns of the table that the output holds, under the names the searched view gives them."""
        pairs = zip(self.columns, self.fields, strict=True)
        return [field.with_name(column.source) for column, field in pairs if column.side == "corpus"]

    def _nearest(self, plan: SearchPlan, vectors: npt.NDArray[np.float64], at: npt.NDArray[np.int64]) -> Answer:
        block = options.BATCH_BLOCK_QUERIES.read(dict(self.conf))
        question = Question(vectors, plan.metric, plan.k, plan.max_distance, block)
        names = [field.name for field in self._table_columns]
        try:
            found = PlannedSide(plan, self.physical).find(question, None, names)
            rows = found.columns(names)
        except UnmergeableError as problem:
            raise UnsupportedTableError(
                f"'{self.source.name}' cannot be searched by a stream now, since it has log files that only Spark "
                f"merges ({problem}); compact the table, or search in foreachBatch with hudi_vector.search_batch"
            ) from problem
        return Answer(at[found.query], found.distance, found.winners.rank, rows)

    def _require_lengths(self, rows: pa.Table) -> None:
        """Every query vector has the column's length, or that of the first one where the column has none of its own."""
        lengths = pc.list_value_length(rows.column(self.query.name))
        here = np.flatnonzero(np.asarray(lengths.is_valid()))
        counts = np.asarray(lengths.drop_null())
        expected = self.request.column.dimension or (int(counts[0]) if len(counts) else 0)
        wrong = np.flatnonzero(counts != expected)
        if len(wrong):
            told = _told(rows.slice(int(here[wrong[0]]), 1))
            raise DimensionMismatchError(
                f"the query vector of {told} has {int(counts[wrong[0]])} elements, and column "
                f"'{self.request.column.name}' of '{self.source.name}' has {expected}; give {expected}"
            )


def _told(rows: pa.Table) -> str:
    """Some rows as messages name them: by their first plain columns, never by their vectors."""
    plain = [
        field.name
        for field in rows.schema
        if field.name != MOMENT and not pa.types.is_nested(field.type) and not pa.types.is_binary(field.type)
    ]
    values = [f"{name} = {_shown(rows.column(name)[0].as_py())}" for name in plain[:3]] if rows.num_rows else []
    first = "the row with " + ", ".join(values) if values else "a row without plain columns"
    return first if rows.num_rows == 1 else f"{rows.num_rows} rows, the first of them {first}"


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
