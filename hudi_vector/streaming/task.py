"""What a task does with the rows of a micro-batch: find the nearest rows of the table as its moment shows it.

No JVM and no driver: a process of an executor reads the timeline and the files itself, and keeps snapshots, plans,
decoded slices and index codes for the next micro-batch and for other queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.accumulators import Accumulator

from hudi_vector import options
from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.kernels.metrics import METRICS
from hudi_vector.query.batch_rows import Column, query_vectors
from hudi_vector.query.execute import Question
from hudi_vector.query.join.sides import PlannedSide
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.columns import DISTANCE, RANK
from hudi_vector.streaming.answer import Answer, assembled, joined
from hudi_vector.streaming.asking import SNAPSHOT, answered, columns_of, require_length, told
from hudi_vector.streaming.config import FAIL, NEAREST, StreamConfig
from hudi_vector.streaming.correlated import groups_of
from hudi_vector.streaming.output import SCORE
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT
from hudi_vector.streaming.snapshots.event_times import EventTime, History, moments_of
from hudi_vector.streaming.snapshots.plans import TablePlans
from hudi_vector.table.instants import Moment
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["StreamSearch"]

_NUMBERS = pa.schema([(SCORE, pa.float64()), (DISTANCE, pa.float64()), (RANK, pa.int32())])

# Of this process, for all streams.
_AVAILABLE: Recent[tuple[str, Moment, History], tuple[Moment | None]] = Recent(512)
_ARCHIVED: Recent[str, str] = Recent(32)  # the first action that was archived stays the first
_HISTORIES: Recent[tuple[str, str], History] = Recent(32)


@dataclass(frozen=True)
class StreamSearch:
    """A streaming search, checked: all that its tasks need."""

    plans: TablePlans
    physical: tuple[tuple[str, str], ...]
    query: VectorColumn
    columns: tuple[Column, ...]
    fields: tuple[pa.Field, ...]
    outer: bool
    config: StreamConfig
    event_time: EventTime | None = None
    lost: Accumulator[int] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The output rows of the rows of a task."""
        return answered(batches, self.plans.request.k, self.config, self._answer)

    def _shown(self, moment: Moment) -> str | None:
        return self.plans.shown(moment) if self.config.snapshot_column else None

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
                row = told(rows.slice(int(at[members[0]]), 1))
                raise InstantNotAvailableError(
                    f"the files of '{self.plans.source.name}' at the time of {row} were cleaned away; set the config "
                    "key 'unavailable-snapshot' to nearest or none, or let the table's cleaner retain more"
                )
            elif self.lost is not None:
                self.lost.add(len(members))

    def _available(self, moment: Moment, history: History) -> Moment | None:
        """A moment that can be searched: this one, or the next where that is wanted."""
        key = (self.plans.number, moment, history)
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
                    self.plans.snapshot(candidate)
                except InstantNotAvailableError:
                    continue
                return candidate
        return None

    def _history(self, newest: Moment) -> History:
        key = (self.plans.source.uri, newest.text)
        known = _HISTORIES.get(key)
        if known is None:
            table = NativeTable(self.plans.source)
            archived = _ARCHIVED.get(self.plans.source.uri)
            if archived is None:
                archived = table.archived_since()
                if archived is not None:
                    _ARCHIVED.put(self.plans.source.uri, archived)
            known = History.of(table.timeline().at_moment(newest), newest, archived)
            _HISTORIES.put(key, known)
        return known

    def _answer(self, rows: pa.Table) -> pa.Table:
        searched = self.plans.request.column
        require_length(rows, self.query.name, searched.name, searched.dimension, self.plans.source.name)
        vectors, at, _ = query_vectors(rows, self.query, "the stream", searched.dimension or None)
        newest = Moment.parse(rows.column(MOMENT)[0].as_py())
        shown = np.full(len(rows), None if self.event_time else self._shown(newest), object)
        answers = []
        for moment, here in self._moments(rows, at, newest):
            shown[at[here]] = self._shown(moment)
            for values, members in groups_of(rows, at[here], self.plans.asked):
                asking = here[members]
                plan = self.plans.plan(moment, vectors.shape[1], values, len(asking))
                answers.append(self._nearest(plan, vectors[asking], at[asking]))
        found = joined(answers, columns_of("corpus", self.columns, self.fields), _NUMBERS)
        rows = rows.append_column(SNAPSHOT, pa.array(shown, pa.string()))
        return assembled(self.columns, self.fields, rows, found, self.outer)

    def _nearest(self, plan: SearchPlan, vectors: npt.NDArray[np.float64], at: npt.NDArray[np.int64]) -> Answer:
        block = options.BATCH_BLOCK_QUERIES.read(dict(self.plans.conf))
        question = Question(vectors, plan.metric, plan.k, plan.max_distance, block)
        names = [field.name for field in columns_of("corpus", self.columns, self.fields)]
        with self.plans.merging():
            found = PlannedSide(plan, self.physical).find(question, None, names)
            rows = found.columns(names)
        numbers = [METRICS[plan.metric].scores(found.distance), found.distance, found.winners.rank.astype(np.int32)]
        return Answer(at[found.query], pa.table([pa.array(n) for n in numbers], schema=_NUMBERS), rows)
