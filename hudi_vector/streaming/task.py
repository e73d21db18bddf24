"""The queries of a stream's rows with their moments, and the finder of the nearest rows at these moments.

No JVM and no driver: a process of an executor reads the timeline and the files itself, and keeps snapshots, plans,
decoded slices and index codes for the next micro-batch and for other queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.accumulators import Accumulator

from hudi_vector import options
from hudi_vector.errors import InstantNotAvailableError
from hudi_vector.kernels.metrics import METRICS, Floats
from hudi_vector.kernels.topk import Ints
from hudi_vector.query.asking.output import Found
from hudi_vector.query.asking.queries import AskedRows, QueryColumns
from hudi_vector.query.asking.values import LEFT_MARK, groups_of
from hudi_vector.query.grouped.question import question_of
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.join.sides import Nearest, PlannedSide, found_rows, joined_nearest
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.predicate.nodes import Column
from hudi_vector.read.spec import VectorColumn
from hudi_vector.streaming.asking import SNAPSHOT, require_length, row_text
from hudi_vector.streaming.config import FAIL, NEAREST, StreamConfig
from hudi_vector.streaming.output import SCORE
from hudi_vector.streaming.snapshots.batch_snapshots import MOMENT
from hudi_vector.streaming.snapshots.event_times import EventTime, History, moments_of
from hudi_vector.streaming.snapshots.plans import TablePlans
from hudi_vector.table.instants import Moment
from hudi_vector.table.native import NativeTable
from hudi_vector.table.recent import Recent

__all__ = ["StreamFinder", "StreamQueries"]

# Of this process, for all streams.
_AVAILABLE: Recent[tuple[str, Moment, History], tuple[Moment | None]] = Recent(512)
_ARCHIVED: Recent[str, str] = Recent(32)  # the first action that was archived stays the first
_HISTORIES: Recent[tuple[str, str], History] = Recent(32)


@dataclass(frozen=True)
class StreamQueries:
    """The queries of a stream's rows, and the moments at which they are searched for.

    With `event_time`, each row has the moment of its event time, otherwise all have that of their micro-batch. `lost`
    counts rows whose moments cannot be searched any more.
    """

    plans: TablePlans
    query: VectorColumn
    config: StreamConfig
    event_time: EventTime | None = None
    lost: Accumulator[int] | None = None

    def of(self, rows: pa.Table) -> AskedRows:
        """Return the queries of the rows that have a vector and a moment.

        The rows get their moments in the column `MOMENT`, and in `SNAPSHOT` the text that the configured column shows.
        """
        searched = self.plans.request.column
        require_length(rows, self.query.name, searched.name, searched.dimension, self.plans.source.name)
        asked = QueryColumns.dense(self.query, "the stream", searched.dimension or None).of(rows)
        newest = Moment.parse(rows.column(MOMENT)[0].as_py())
        shown = np.full(len(rows), None if self.event_time else self._shown(newest), object)
        moments = np.full(len(rows), None, object)
        has_moment = np.zeros(len(asked), np.bool_)
        for moment, here in self._moments(rows, asked.at, newest):
            has_moment[here] = True
            moments[asked.at[here]] = moment.text
            shown[asked.at[here]] = self._shown(moment)
        known = rows.set_column(rows.schema.get_field_index(MOMENT), MOMENT, pa.array(moments, pa.string()))
        known = known.append_column(SNAPSHOT, pa.array(shown, pa.string()))
        return replace(asked, rows=known).take(np.flatnonzero(has_moment))

    def _shown(self, moment: Moment) -> str | None:
        return self.plans.shown(moment) if self.config.snapshot_column else None

    def _moments(
        self, rows: pa.Table, at: npt.NDArray[np.int64], newest: Moment
    ) -> Iterator[tuple[Moment, npt.NDArray[np.int64]]]:
        """Yield each moment at which rows are searched for, and their places in `at`."""
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
                row = row_text(rows.slice(int(at[members[0]]), 1))
                raise InstantNotAvailableError(
                    f"the files of '{self.plans.source.name}' at the time of {row} were cleaned away; set the config "
                    "key 'unavailable-snapshot' to nearest or none, or let the table's cleaner retain more"
                )
            elif self.lost is not None:
                self.lost.add(len(members))

    def _available(self, moment: Moment, history: History) -> Moment | None:
        """Return a moment that can be searched: this one, or a later one if the configuration allows; None if none."""
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
            timeline = table.timeline()
            known = History.of(timeline.at_moment(newest), newest, archived, table.archived_amid(timeline))
            _HISTORIES.put(key, known)
        return known


@dataclass(frozen=True)
class StreamFinder:
    """The finder of the nearest rows of a table, or of its nearest groups, at the moments of the rows that ask.

    `physical` are pairs of a column's name in the output and its name in the table; `grouping` has the former.
    """

    plans: TablePlans
    physical: tuple[tuple[str, str], ...]
    grouping: Grouping | None = None

    def find(self, asked: AskedRows, names: Sequence[str]) -> Found:
        """Return the nearest rows, searched once for each moment and each set of values in the filter."""
        by = (Column(LEFT_MARK + MOMENT, pa.string()), *self.plans.asked)
        parts: list[tuple[Nearest, Ints]] = []
        with self.plans.merging():
            for (moment, *values), members in groups_of(asked.rows, asked.at, by):
                vectors = asked.vectors[members]
                plan = self.plans.plan(Moment.parse(str(moment)), vectors.shape[1], tuple(values), len(members))
                parts.append((self._nearest(plan, vectors), members))
            found = found_rows(joined_nearest(parts), names, self.grouping)
        scores = METRICS[self.plans.request.metric].scores(found.distance)
        return replace(found, added={**found.added, SCORE: pa.array(scores)})

    def _nearest(self, plan: SearchPlan, vectors: Floats) -> Nearest:
        block = options.BATCH_BLOCK_QUERIES.read(dict(self.plans.conf))
        question = question_of(vectors, plan.metric, plan.k, plan.max_distance, self.grouping, block)
        return PlannedSide(plan, self.physical).find(question, None, ())
