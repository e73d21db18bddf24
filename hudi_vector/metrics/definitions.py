"""The metrics that there are, with type, labels and meaning; the table of docs/how-to/metrics.md is made of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFINITIONS", "OTHER", "Definition", "markdown"]

OTHER = "other"
"""The label `table` of what is no Hudi table, and of tables beyond the most that are counted each."""

_SEARCH = ("table", "execution", "access")
_FAILURE = (*_SEARCH, "error")
_SERVICE = ("table", "service")
_INDEX = ("table", "column", "kind", "metric")


@dataclass(frozen=True)
class Definition:
    """A metric. `source` says what it comes from: ``search``, ``service``, ``table`` or ``process``."""

    name: str
    type: str
    source: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def unit(self) -> str:
        """Return the unit, as OpenMetrics has it at the end of a name; empty for numbers of things."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in ("seconds", "bytes", "ratio") if stem.endswith(f"_{unit}")), "")


_ALL = (
    Definition("hudi_vector_searches_total", "counter", "search", _SEARCH, "Searches that gave an answer."),
    Definition(
        "hudi_vector_search_failures_total", "counter", "search", _FAILURE,
        "Searches that raised an error while they ran, by its class, such as SearchTimeoutError; `unknown` is what was "
        "not chosen by then.",
    ),
    Definition("hudi_vector_search_seconds", "histogram", "search", _SEARCH, "Time of a search, with all its phases."),
    Definition(
        "hudi_vector_search_phase_seconds_total", "counter", "search", ("table", "phase"),
        "Time of a phase of searches.",
    ),
    Definition("hudi_vector_search_queries_total", "counter", "search", _SEARCH, "Query vectors; a batch has several."),
    Definition(
        "hudi_vector_search_rows_total", "counter", "search", _SEARCH, "Rows seen, before statistics and filters."
    ),
    Definition("hudi_vector_search_returned_rows_total", "counter", "search", _SEARCH, "Rows returned."),
    Definition(
        "hudi_vector_search_proved_rows_total", "counter", "search", _SEARCH,
        "Rows returned that are certainly in the exact answer; all of them in an exact search.",
    ),
    Definition(
        "hudi_vector_search_incomplete_total", "counter", "search", _SEARCH,
        "Searches in which a query got less than k.",
    ),
    Definition("hudi_vector_search_read_bytes_total", "counter", "search", _SEARCH, "Bytes of files that were read."),
    Definition(
        "hudi_vector_search_received_bytes_total", "counter", "search", ("table",), "Bytes that an object store sent."
    ),
    Definition(
        "hudi_vector_search_requests_total", "counter", "search", ("table",),
        "Requests that were sent to an object store.",
    ),
    Definition(
        "hudi_vector_search_slices_total", "counter", "search", ("table", "access"), "File slices searched, by access."
    ),
    Definition(
        "hudi_vector_search_cached_slices_total", "counter", "search", ("table",),
        "File slices that were in memory whole.",
    ),
    Definition(
        "hudi_vector_search_lookups_total", "counter", "search", ("table", "kind", "found"),
        "Things that searches needed, by kind (segments, lists, footers, vectors, columns, ranges) and by where they "
        "were found (memory, disk or storage). Counted for tables on a store, or with a cache on disk.",
    ),
    Definition("hudi_vector_cache_bytes", "gauge", "process", (), "Bytes in the cache of decoded columns."),
    Definition("hudi_vector_cache_limit_bytes", "gauge", "process", (), "The most bytes that this cache may hold."),
    Definition(
        "hudi_vector_service_runs_total", "counter", "service", (*_SERVICE, "outcome"),
        "Runs of a service, by how they ended: done, dry_run, problems (the result is not well), refused (a dry run "
        "too whose real run would be) or failed.",
    ),
    Definition("hudi_vector_service_run_seconds", "histogram", "service", _SERVICE, "Time of a run."),
    Definition(
        "hudi_vector_service_last_run_timestamp_seconds", "gauge", "service", (*_SERVICE, "outcome"),
        "When the last run with this outcome ended, since 1970.",
    ),
    Definition(
        "hudi_vector_service_taken_files_total", "counter", "service", _SERVICE,
        "Files that were moved to the trash or deleted; by restore_blobs those that were put back.",
    ),
    Definition("hudi_vector_service_taken_bytes_total", "counter", "service", _SERVICE, "Bytes of these files."),
    Definition("hudi_vector_service_last_taken_files", "gauge", "service", _SERVICE, "Such files in the last run."),
    Definition("hudi_vector_service_last_taken_bytes", "gauge", "service", _SERVICE, "Bytes of these files."),
    Definition("hudi_vector_service_last_kept_files", "gauge", "service", _SERVICE, "Files that the last run kept."),
    Definition(
        "hudi_vector_service_last_failed_files", "gauge", "service", _SERVICE, "Files that the last run could not take."
    ),
    Definition(
        "hudi_vector_service_last_reclaimable_bytes", "gauge", "service", _SERVICE,
        "Bytes that nothing needs and that the last run, a mark or a dry run left in their place; after a compaction "
        "those of the containers that it emptied.",
    ),
    Definition(
        "hudi_vector_table_readable", "gauge", "table", ("table",),
        "1 if the table could be read for the metrics below.",
    ),
    Definition(
        "hudi_vector_table_read_timestamp_seconds", "gauge", "table", ("table",),
        "When it was last read for them, since 1970.",
    ),
    Definition(
        "hudi_vector_table_newest_commit_timestamp_seconds", "gauge", "table", ("table",),
        "When the newest commit completed, since 1970.",
    ),
    Definition(
        "hudi_vector_table_base_files", "gauge", "table", ("table",),
        "Parquet base files of the newest snapshot.",
    ),
    Definition("hudi_vector_index_covered_files", "gauge", "table", _INDEX, "Of these, the files that have a segment."),
    Definition(
        "hudi_vector_index_coverage_ratio", "gauge", "table", _INDEX,
        "Share of the base files that have one; 1 without any.",
    ),
    Definition("hudi_vector_index_covered_rows", "gauge", "table", _INDEX, "Rows of the covered files."),
    Definition("hudi_vector_index_bytes", "gauge", "table", _INDEX, "Bytes of the index's segments."),
    Definition(
        "hudi_vector_index_lag_commits", "gauge", "table", _INDEX, "Commits with base files that have no segment."
    ),
    Definition(
        "hudi_vector_index_lag_seconds", "gauge", "table", _INDEX,
        "Time since the oldest of these commits was begun; 0 without any.",
    ),
    Definition(
        "hudi_vector_index_published_timestamp_seconds", "gauge", "table", _INDEX,
        "When the newest generation was published, since 1970.",
    ),
    Definition(
        "hudi_vector_index_recall_ratio", "gauge", "table", _INDEX,
        "Recall, as hv.index.recall last measured it.",
    ),
    Definition(
        "hudi_vector_index_measured_search_seconds", "gauge", "table", _INDEX,
        "Median time of a search in that measurement.",
    ),
    Definition(
        "hudi_vector_index_recall_measured_timestamp_seconds", "gauge", "table", _INDEX,
        "When that was measured, since 1970.",
    ),
    Definition(
        "hudi_vector_maintenance_step_success_timestamp_seconds", "gauge", "table", ("table", "step"),
        "When the run of maintain began in which the step last ended well, since 1970; of any process.",
    ),
    Definition(
        "hudi_vector_maintenance_step_ok", "gauge", "table", ("table", "step"),
        "1 if the step was neither refused nor failed when it last ran.",
    ),
    Definition(
        "hudi_vector_blob_live_bytes", "gauge", "table", ("table",),
        "Bytes of blobs that rows refer to, when the step figures of maintain last counted.",
    ),
    Definition(
        "hudi_vector_blob_reclaimable_bytes", "gauge", "table", ("table",),
        "Bytes in the blob area that no row of the newest snapshot referred to then.",
    ),
    Definition("hudi_vector_blob_trash_bytes", "gauge", "table", ("table",), "Bytes in the trash then."),
    Definition("hudi_vector_blob_dangling_rows", "gauge", "table", ("table",), "Rows whose bytes were missing then."),
)  # fmt: skip

DEFINITIONS = {each.name: each for each in _ALL}


def markdown() -> str:
    """Return the table of all metrics."""
    rows = (f"| `{each.name}` | {each.type} | {', '.join(each.labels)} | {each.meaning} |" for each in _ALL)
    return "\n".join(["| metric | type | labels | |", "| --- | --- | --- | --- |", *rows])
