"""The state of tables, read from storage without Spark when metrics are collected, no more often than is allowed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from hudi_vector.errors import HudiVectorError, first_line
from hudi_vector.index.build import indexable_files
from hudi_vector.index.catalog import Index, indexes_at
from hudi_vector.index.locations import columns_at, in_table
from hudi_vector.index.recall_history import measurements_of
from hudi_vector.storage.parallel import each
from hudi_vector.table.instants import epoch_seconds
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.maintenance.history import NOT_DUE, History, read_history

__all__ = ["MOST_TABLES", "Sample", "TableState", "WatchedTables", "state_of"]

MOST_TABLES = 200
"""So many tables have labels and are read; further ones are counted together."""

_LOG = logging.getLogger("hudi_vector.metrics")


@dataclass(frozen=True)
class Sample:
    """A value of a metric, by its name and the values of its labels."""

    metric: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class TableState:
    """The state of a table: when it was read (seconds since 1970), its samples, and what each index lacks.

    `waiting` has, by the labels of an index, when the oldest commit was begun that it does not cover; None if it covers
    all. Such a time grows old between two reads. `why_not` says why the table could not be read, empty if it was.
    """

    read_at: float
    samples: tuple[Sample, ...] = ()
    waiting: tuple[tuple[tuple[str, ...], float | None], ...] = ()
    why_not: str = ""

    def all_samples(self, table: str, now: float) -> Iterator[Sample]:
        """Yield the samples at a time, in seconds since 1970."""
        yield Sample("hudi_vector_table_readable", (table,), float(not self.why_not))
        yield Sample("hudi_vector_table_read_timestamp_seconds", (table,), self.read_at)
        yield from self.samples
        for labels, since in self.waiting:
            lag = 0.0 if since is None else max(0.0, now - since)
            yield Sample("hudi_vector_index_lag_seconds", labels, lag)


@dataclass
class WatchedTables:
    """The tables to read, and their last states; `every` is the least time between two reads, in seconds."""

    every: float = 60.0
    _sources: dict[str, Source] = field(default_factory=dict)
    _states: dict[str, TableState] = field(default_factory=dict)
    _read_at: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, source: Source) -> bool:
        """Read this table from now on; return False if there are too many already."""
        if source.uri not in self._sources and len(self._sources) >= MOST_TABLES:
            return False
        self._sources[source.uri] = source
        return True

    def samples(self) -> list[Sample]:
        """Return the samples of all tables, of which those are read whose time is over."""
        with self._lock:
            over = time.monotonic() - self.every
            late = [source for uri, source in list(self._sources.items()) if self._read_at.get(uri, over) <= over]
            for source, state in zip(late, each(_state_or_none, late), strict=True):
                before = self._states.get(source.uri)
                if state.why_not and (before is None or not before.why_not):
                    _LOG.warning("'%s' cannot be read for metrics: %s", source.uri, state.why_not)
                self._states[source.uri] = state
                self._read_at[source.uri] = time.monotonic()
            now = time.time()
            return [sample for uri, state in self._states.items() for sample in state.all_samples(uri, now)]


def _state_or_none(source: Source) -> TableState:
    """Return the state of a table, or that it cannot be read: a table that is gone does not keep others from view."""
    try:
        return state_of(source)
    except (HudiVectorError, OSError) as problem:
        return TableState(time.time(), why_not=first_line(problem))


def state_of(source: Source) -> TableState:
    """Read the newest snapshot of a table, its indexes, and the history of its maintenance."""
    native, read_at = NativeTable(source), time.time()
    snapshot, zone = native.snapshot(), native.timeline_zone(None)
    home, options = in_table(source.uri, ""), source.options
    indexes = [
        index for name in columns_at(home.root, options) for index in indexes_at(in_table(source.uri, name), options)
    ]
    files = indexable_files(snapshot)
    samples = [Sample("hudi_vector_table_base_files", (source.uri,), len(files))]
    newest = None if snapshot.watermark is None else epoch_seconds(snapshot.watermark, zone)
    if newest is not None:
        samples.append(Sample("hudi_vector_table_newest_commit_timestamp_seconds", (source.uri,), newest))
    waiting = []
    for index in indexes:
        lacking = _lacking(index, snapshot)
        labels = _labels(index, source.uri)
        samples += _of_index(index, snapshot, labels, len(lacking))
        waiting.append((labels, epoch_seconds(min(lacking), zone) if lacking else None))
    samples += _of_history(read_history(source.uri, options), source.uri)
    return TableState(read_at, tuple(samples), tuple(waiting))


def _labels(index: Index, table: str) -> tuple[str, ...]:
    known = index.manifest
    return table, known.column, known.kind, known.metric


def _lacking(index: Index, snapshot: Snapshot) -> set[str]:
    """Return the instants of the base files that have no segment."""
    files = set(indexable_files(snapshot))
    bases = ((each.base_instant, each.base_file) for each in snapshot.file_slices)
    return {instant for instant, base in bases if base in files and base is not None and index.entry_of(base) is None}


def _of_index(index: Index, snapshot: Snapshot, labels: tuple[str, ...], lag: int) -> Iterator[Sample]:
    files, manifest = indexable_files(snapshot), index.manifest
    covering = [entry for _, entry in index.covered(files)]
    yield Sample("hudi_vector_index_covered_files", labels, len(covering))
    yield Sample("hudi_vector_index_coverage_ratio", labels, len(covering) / len(files) if files else 1.0)
    yield Sample("hudi_vector_index_covered_rows", labels, sum(entry.rows for entry in covering))
    yield Sample("hudi_vector_index_bytes", labels, sum(entry.bytes for entry in manifest.entries))
    yield Sample("hudi_vector_index_lag_commits", labels, lag)
    yield Sample("hudi_vector_index_published_timestamp_seconds", labels, manifest.created_ms / 1000)
    measured = measurements_of(index, snapshot.source.options)
    if measured:
        at, recall, milliseconds = measured[-1]
        yield Sample("hudi_vector_index_recall_ratio", labels, recall)
        yield Sample("hudi_vector_index_measured_search_seconds", labels, milliseconds / 1000)
        yield Sample("hudi_vector_index_recall_measured_timestamp_seconds", labels, at / 1000)


def _of_history(history: History, table: str) -> Iterator[Sample]:
    for step, begun_ms in (history.last or {}).items():
        yield Sample("hudi_vector_maintenance_step_success_timestamp_seconds", (table, step), begun_ms / 1000)
    ran = {step.step: step.is_well for run in history.runs for step in run.steps if step.state != NOT_DUE}
    for name, is_well in ran.items():
        yield Sample("hudi_vector_maintenance_step_ok", (table, name), float(is_well))
    figures = next((run.figures for run in reversed(history.runs) if run.figures is not None), None)
    if figures is not None:
        whole = figures.whole
        yield Sample("hudi_vector_blob_live_bytes", (table,), whole.live)
        yield Sample("hudi_vector_blob_reclaimable_bytes", (table,), whole.dead)
        yield Sample("hudi_vector_blob_trash_bytes", (table,), figures.trash)
        yield Sample("hudi_vector_blob_dangling_rows", (table,), whole.dangling)
