"""The counters of a process, and the collector that adds the state of tables when metrics are asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from hudi_vector.events import RunningSearch, ServiceRun
from hudi_vector.metrics.definitions import DEFINITIONS, OTHER, Definition
from hudi_vector.metrics.library import library
from hudi_vector.metrics.results import figures_of, outcome_of
from hudi_vector.metrics.tables import Sample, WatchedTables
from hudi_vector.query.report import SearchReport
from hudi_vector.read.cache import process_cache
from hudi_vector.storage import normalise, path_text
from hudi_vector.table.model import Snapshot, Source
from hudi_vector.table_services.located import locate_anyhow

__all__ = ["Recorder"]

_LOG = logging.getLogger("hudi_vector.metrics")
_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LONG = (0.1, 1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600)


class Recorder:
    """The listener that counts, with a registry of prometheus-client that has what it counted.

    Example:
        >>> recorder = Recorder()
        >>> recorder.registry.get_sample_value("hudi_vector_cache_bytes") is None
        False
    """

    def __init__(self) -> None:
        """Make the metrics; raise MissingDependencyError if prometheus-client is not installed."""
        client = library()
        self.registry = client.CollectorRegistry()
        self.tables = WatchedTables()
        makers = {"counter": client.Counter, "histogram": client.Histogram, "gauge": client.Gauge}
        counted = [each for each in DEFINITIONS.values() if each.source in ("search", "service")]
        self._metrics = {each.name: _made(makers, each, self.registry) for each in counted}
        self.registry.register(self)

    def searched(self, report: SearchReport, snapshot: Snapshot | None) -> None:
        """Count a search, and watch its table if it is a Hudi table."""
        # Files, Delta tables and Lance datasets have no instant; they may be temporary, and would be labels for ever.
        table = OTHER if snapshot is None or snapshot.instant is None else self._watched(snapshot.source)
        labels = (table, report.execution, _access(report.slices))
        for name, count in _of_report(report).items():
            self._add(f"hudi_vector_{name}_total", labels, count)
        self._metrics["hudi_vector_search_seconds"].labels(*labels).observe(sum(report.seconds.values()))
        self._add("hudi_vector_search_received_bytes_total", (table,), report.bytes_received)
        self._add("hudi_vector_search_requests_total", (table,), report.requests)
        self._add("hudi_vector_search_cached_slices_total", (table,), report.cached_slices)
        for phase, seconds in report.seconds.items():
            self._add("hudi_vector_search_phase_seconds_total", (table, phase), seconds)
        for access, count in report.slices.items():
            self._add("hudi_vector_search_slices_total", (table, access), count)
        found = {"memory": report.from_memory, "disk": report.from_disk, "storage": report.from_storage}
        for where, counts in found.items():
            for kind, count in counts.items():
                self._add("hudi_vector_search_lookups_total", (table, kind, where), count)

    def failed(self, search: RunningSearch, error: BaseException) -> None:
        """Count a search that raised an error, and watch its table if it is a Hudi table."""
        table = OTHER if search.source is None else self._watched(search.source)
        slices = {} if search.plan is None else search.plan.access_counts
        access = _access(slices) if search.is_planned else "unknown"
        labels = (table, search.execution, access, type(error).__name__)
        self._add("hudi_vector_search_failures_total", labels, 1)

    def served(self, run: ServiceRun) -> None:
        """Count a run of a service, and watch its table."""
        table, outcome = self._served_table(run), outcome_of(run)
        labels = (table, run.service)
        self._add("hudi_vector_service_runs_total", (*labels, outcome), 1)
        self._metrics["hudi_vector_service_run_seconds"].labels(*labels).observe(run.seconds)
        ended = self._metrics["hudi_vector_service_last_run_timestamp_seconds"]
        ended.labels(*labels, outcome).set(time.time())
        for name, number in vars(figures_of(run.result)).items():
            if number is not None:
                self._metrics[f"hudi_vector_service_last_{name}"].labels(*labels).set(number)
                if name.startswith("taken_"):
                    self._add(f"hudi_vector_service_{name}_total", labels, number)

    def collect(self) -> Iterator[Any]:
        """Yield what is read when metrics are asked for: the state of tables, and of the process's cache."""
        cache = process_cache()
        samples = [
            Sample("hudi_vector_cache_bytes", (), cache.nbytes),
            Sample("hudi_vector_cache_limit_bytes", (), cache.budget),
            *self.tables.samples(),
        ]
        family = library().metrics_core.GaugeMetricFamily
        for each in DEFINITIONS.values():
            values = [sample for sample in samples if sample.metric == each.name]
            if values:
                gauge = family(each.name, each.meaning, labels=each.labels, unit=each.unit)
                for sample in values:
                    gauge.add_metric(sample.labels, sample.value)
                yield gauge

    def describe(self) -> list[Any]:
        """Return nothing, so that registering this reads no table."""
        return []

    def _add(self, name: str, labels: tuple[str, ...], count: float) -> None:
        self._metrics[name].labels(*labels).inc(count)

    def _watched(self, source: Source) -> str:
        return source.uri if self.tables.watch(source) else OTHER

    def _served_table(self, run: ServiceRun) -> str:
        """Return the label of the table of a run; a service of files, or of a table that is not there, has none."""
        if run.table is None:
            return OTHER
        try:
            root, _, options = locate_anyhow(run.where, path_text(run.table), look=False)
        except Exception as problem:  # noqa: BLE001 - Spark has errors of many kinds, and the run has ended anyhow
            _LOG.debug("a run of %s has no table to watch: %s", run.service, problem)
            return OTHER
        return self._watched(Source(normalise(root), root, options))


def _access(slices: Mapping[str, int]) -> str:
    """Return the label for the accesses of slices."""
    return "+".join(sorted(slices)) or "none"


def _of_report(report: SearchReport) -> dict[str, int]:
    """Return the counts of a search that have all its labels, by the middle of their metric's name."""
    return {
        "searches": 1,
        "search_queries": report.queries,
        "search_rows": report.rows_seen,
        "search_returned_rows": report.returned,
        "search_proved_rows": report.proved,
        "search_incomplete": int(not report.reached_k),
        "search_read_bytes": report.bytes_read,
    }


def _made(makers: dict[str, Any], each: Definition, registry: Any) -> Any:
    more = {}
    if each.type == "histogram":
        more["buckets"] = _QUICK if each.source == "search" else _LONG
    return makers[each.type](each.name, each.meaning, each.labels, registry=registry, unit=each.unit, **more)
