"""Metrics of searches, services and tables say what reports and results say, and cost nothing where they are not wanted."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus_text
from support import servers
from support.blob_states import DAY, BlobTable, blob, write_id
from support.loaded import module
from support.rights import without_root
from support.written_table import WrittenTable, rows_of

import hudi_vector as hv
from hudi_vector import events
from hudi_vector.command.main import main
from hudi_vector.errors import (
    DataFileError,
    InvalidArgumentError,
    InvalidTypeError,
    MissingDependencyError,
    RefusedError,
    TableNotFoundError,
)
from hudi_vector.metrics import api, tables
from hudi_vector.metrics.definitions import DEFINITIONS, markdown
from hudi_vector.storage import normalise
from hudi_vector.storage.parallel import counted, traffic
from hudi_vector.table.instants import as_timeline_time, epoch_seconds
from hudi_vector.table_services.maintenance.figures import ColumnFigures, Figures
from hudi_vector.table_services.maintenance.history import Run, StepOutcome, add_run

ROOT = Path(hv.__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "metrics.md"
DASHBOARD = ROOT / "docs" / "how-to" / "metrics-dashboard.json"
QUERY = [0.1, 0.2, 0.3, 0.4]
SECRET = "name 7"

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens yet, and what the test turns on ends with it."""
    monkeypatch.setattr(api, "_recorder", None)
    monkeypatch.setattr(events, "_listener", None)


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    """A table of two files with an index that covers the first one."""
    made = WrittenTable(tmp_path / "products")
    made.commit({("a", "f1"): rows_of(300)})
    hv.index.create(None, made.path, "emb", metric="l2", num_partitions=8)
    made.commit({("a", "f2"): rows_of(40, first=1000, seed=1)})
    return made


@pytest.fixture
def photos(tmp_path: Path) -> BlobTable:
    """A table with a container that a row refers to and two that nothing refers to; all of it is 60 days old."""
    made = BlobTable(tmp_path.resolve() / "photos", time.time_ns() // 1_000_000 - 60 * DAY)
    live = made.container(write_id(made.clock_ms, 1))
    for number in (2, 3):
        made.container(write_id(made.clock_ms, number))
    instant = made.instant()
    made.base("f1", instant, {1: blob(live)})
    made.complete(instant)
    return made


def scraped(server: Any) -> Values:
    """What Prometheus gets of a server, as OpenMetrics."""
    asked = urllib.request.Request(server.url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(asked) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        return values_of(open_metrics(answer.read().decode()))


def values_of(families: Any) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(found: Values, name: str, /, **labels: str) -> float | None:
    return found.get((f"hudi_vector_{name}", frozenset(labels.items())))


def summed(found: Values, name: str, /, **labels: str) -> float:
    wanted = set(labels.items())
    return sum(each for (known, given), each in found.items() if known == f"hudi_vector_{name}" and wanted <= given)


def uri(place: Any) -> str:
    return normalise(str(place))


def test_searches_are_counted_as_their_reports_say(table: WrittenTable, off: None, tmp_path: Path) -> None:
    with hv.metrics.serve(0) as server:
        with hv.open(table.path, column="emb", options={"hoodie.vector.cache.dir": str(tmp_path / "cache")}) as t:
            t.search(QUERY, k=5, metric="l2")
            t.search(QUERY, k=5, metric="l2", mode="approximate", nprobes=1, refine_factor=1)
            t.search(QUERY, k=1000, metric="cosine", filter="price < 50")
            t.search_batch(np.eye(4), k=3, metric="l2", mode="exact")
        found = scraped(server)
    reports = hv.last_reports(4)
    here = {"table": uri(table.path)}
    assert len({"+".join(sorted(report.slices)) for report in reports}) == 2
    assert {report.proved < report.returned for report in reports} == {True, False}
    assert any(not report.reached_k for report in reports)
    assert any(report.from_memory for report in reports)
    for access in {"+".join(sorted(report.slices)) for report in reports}:
        those = [report for report in reports if "+".join(sorted(report.slices)) == access]
        labels = {**here, "execution": "local", "access": access}
        assert value(found, "searches_total", **labels) == len(those)
        for name, count in {
            "queries": [report.queries for report in those],
            "rows": [report.rows_seen for report in those],
            "returned_rows": [report.returned for report in those],
            "proved_rows": [report.proved for report in those],
            "incomplete": [not report.reached_k for report in those],
            "read_bytes": [report.bytes_read for report in those],
        }.items():
            assert value(found, f"search_{name}_total", **labels) == sum(count), name
        took = [sum(report.seconds.values()) for report in those]
        assert value(found, "search_seconds_sum", **labels) == pytest.approx(sum(took))
        assert value(found, "search_seconds_bucket", le="+Inf", **labels) == len(those)
        assert value(found, "search_seconds_bucket", le="0.1", **labels) == sum(each <= 0.1 for each in took)
    assert summed(found, "search_requests_total", **here) == sum(report.requests for report in reports)
    assert summed(found, "search_received_bytes_total", **here) == sum(report.bytes_received for report in reports)
    assert summed(found, "search_cached_slices_total", **here) == sum(report.cached_slices for report in reports)
    for name, kept in {"memory": "from_memory", "disk": "from_disk", "storage": "from_storage"}.items():
        for kind in ("footers", "vectors", "columns", "segments", "lists"):
            count = sum(getattr(report, kept).get(kind, 0) for report in reports)
            assert (value(found, "search_lookups_total", **here, kind=kind, found=name) or 0) == count
    for phase in {phase for report in reports for phase in report.seconds}:
        took = [report.seconds.get(phase, 0.0) for report in reports]
        assert value(found, "search_phase_seconds_total", **here, phase=phase) == pytest.approx(sum(took))
    for access in ("index", "parquet"):
        count = sum(report.slices.get(access, 0) for report in reports)
        assert value(found, "search_slices_total", **here, access=access) == count


def test_failed_searches_are_counted_by_the_class_of_their_error(table: WrittenTable, off: None) -> None:
    file = str(next(table.path.glob("a/*.parquet")))
    with hv.metrics.serve(0) as server:
        with hv.open(table.path, column="emb") as t, hv.open(files=[file], column="emb") as files:
            for filter_ in (f"nmae = '{SECRET}'", "price <"):
                with pytest.raises(InvalidArgumentError):
                    t.search(QUERY, k=5, filter=filter_)
            with pytest.raises(InvalidArgumentError, match="has 2 elements"):
                files.search([0.1, 0.2], k=5)
            for gone in table.path.glob("a/*.parquet"):
                gone.rename(gone.with_suffix(".gone"))
            for ask in (lambda: t.search(QUERY, k=5, mode="exact"), lambda: t.search_batch([QUERY], k=5, metric="l2")):
                with pytest.raises(DataFileError):
                    ask()
            for gone in table.path.glob("a/*.gone"):
                gone.rename(gone.with_suffix(".parquet"))
            t.search(QUERY, k=5, mode="exact")
        found = scraped(server)
        text = urllib.request.urlopen(server.url).read().decode()
    here = {"table": uri(table.path), "execution": "local"}
    counts = {
        (label["table"], label["execution"], label["access"], label["error"]): count
        for (name, labels), count in found.items()
        if name == "hudi_vector_search_failures_total" and (label := dict(labels))
    }
    assert counts == {
        (uri(table.path), "local", "unknown", "UnknownColumnError"): 1,
        (uri(table.path), "local", "unknown", "InvalidFilterError"): 1,
        ("other", "local", "unknown", "DimensionMismatchError"): 1,
        (uri(table.path), "local", "parquet", "DataFileError"): 1,
        (uri(table.path), "local", "index+parquet", "DataFileError"): 1,
    }
    assert summed(found, "searches_total", **here) == 1
    assert SECRET not in text
    assert "nmae" not in text


def test_indexes_are_described_as_by_describe(table: WrittenTable, off: None) -> None:
    measured = hv.index.recall(None, table.path, "emb", k=5, sample=20)
    (described,) = hv.index.describe(None, table.path)
    began = time.time()
    with hv.metrics.serve(0, tables=[table.path], every=0) as server:
        found = scraped(server)
        here = {"table": uri(table.path)}
        labels = {**here, "column": "emb", "kind": "ivf_sq8", "metric": "l2"}
        assert (described.covered_files, described.files) == (1, 2)
        assert value(found, "table_readable", **here) == 1
        assert value(found, "table_base_files", **here) == 2
        assert value(found, "index_covered_files", **labels) == 1
        assert value(found, "index_coverage_ratio", **labels) == 0.5
        assert value(found, "index_covered_rows", **labels) == described.covered_rows == 300
        assert value(found, "index_bytes", **labels) == described.bytes
        assert value(found, "index_published_timestamp_seconds", **labels) == described.created_ms / 1000
        assert value(found, "index_recall_ratio", **labels) == measured.recall
        assert value(found, "index_measured_search_seconds", **labels) == measured.milliseconds / 1000
        assert value(found, "index_recall_measured_timestamp_seconds", **labels) == measured.measured_ms / 1000
        assert value(found, "index_lag_commits", **labels) == 1
        # The second commit, of 1 January 2026, waits; the table has the zone of this machine.
        waits = epoch_seconds("20260101000003000", tables.NativeTable(_source(table)).timeline_zone(None))
        assert waits is not None
        assert began - waits <= value(found, "index_lag_seconds", **labels) <= time.time() - waits
        assert value(found, "table_newest_commit_timestamp_seconds", **here) == waits + 1
        hv.index.refresh(None, table.path, "emb")
        found = scraped(server)
        assert value(found, "index_coverage_ratio", **labels) == 1
        assert value(found, "index_lag_commits", **labels) == value(found, "index_lag_seconds", **labels) == 0
        assert value(found, "service_runs_total", **here, service="index.refresh", outcome="done") == 1


def _source(made: WrittenTable) -> Any:
    return tables.Source(uri(made.path), "t")


def test_a_table_is_read_no_more_often_than_is_allowed(table: WrittenTable, off: None) -> None:
    labels = {"table": uri(table.path)}
    with hv.metrics.serve(0, tables=[table.path], every=3600) as server:
        first = scraped(server)
        table.commit({("a", "f3"): rows_of(5, first=2000)})
        second = scraped(server)
        names = ("table_base_files", "table_read_timestamp_seconds")
        assert [value(second, name, **labels) for name in names] == [value(first, name, **labels) for name in names]
        lag = {**labels, "column": "emb", "kind": "ivf_sq8", "metric": "l2"}
        assert value(second, "index_lag_seconds", **lag) > value(first, "index_lag_seconds", **lag)
        hv.metrics.registry(every=0)
        third = scraped(server)
        assert value(third, "table_base_files", **labels) == 3
        assert value(third, "index_lag_commits", **lag) == 2
        assert value(third, "index_lag_seconds", **lag) > value(second, "index_lag_seconds", **lag)  # of the older one


def test_a_table_on_an_object_store_is_asked_for_no_more_than_it_has_to_be(table: WrittenTable, off: None) -> None:
    with servers.lake() as (options, client):
        for file in filter(Path.is_file, table.path.rglob("*")):
            client.put_object(Bucket="lake", Key=f"products/{file.relative_to(table.path)}", Body=file.read_bytes())
        settings, place = dict(options.values), "s3a://lake/products"
        metrics = hv.metrics.registry(tables=[place], storage_options=settings, every=3600)
        with counted(is_wanted=True):
            found = values_of(metrics.collect())
            assert traffic().requests
        with counted(is_wanted=True):
            again = values_of(metrics.collect())
            assert not traffic().requests
        here = {"table": uri(place)}
        assert value(found, "table_base_files", **here) == value(again, "table_base_files", **here) == 2
        assert summed(found, "index_covered_files", **here) == 1
        with hv.open(place, column="emb", storage_options=settings) as t:
            report = t.search(QUERY, k=5, metric="l2").report
        found = values_of(metrics.collect())
    assert value(found, "search_requests_total", **here) == report.requests > 0
    assert value(found, "search_received_bytes_total", **here) == report.bytes_received > 0
    assert summed(found, "search_lookups_total", **here, found="storage") == sum(report.from_storage.values()) > 0
    assert "secret" not in str(found)


def test_a_table_that_is_gone_keeps_no_other_from_view(
    table: WrittenTable, photos: BlobTable, off: None, caplog: pytest.LogCaptureFixture
) -> None:
    with hv.metrics.serve(0, tables=[table.path, photos.path], every=0) as server:
        shutil.rmtree(photos.path)
        scraped(server)
        found = scraped(server)
    assert [f"'{uri(photos.path)}' cannot be read for metrics: " in text for text in caplog.messages] == [True]
    assert value(found, "table_readable", table=uri(photos.path)) == 0
    assert value(found, "table_base_files", table=uri(photos.path)) is None
    assert value(found, "table_readable", table=uri(table.path)) == 1


def test_services_are_counted_as_their_results_say(photos: BlobTable, off: None) -> None:
    services, here = hv.table_services, {"table": uri(photos.path)}
    with hv.metrics.serve(0) as server:
        marked = services.mark_blobs(None, photos.path)
        planned = services.clean_blobs(None, photos.path, dry_run=True, max_share=100)
        found = scraped(server)
        for service, result in {"mark_blobs": marked, "clean_blobs": planned}.items():
            labels = {**here, "service": service}
            assert value(found, "service_last_taken_files", **labels) == 0
            assert value(found, "service_last_reclaimable_bytes", **labels) == result.bytes == 200
            assert value(found, "service_last_kept_files", **labels) == len(result.kept) == 1
        with pytest.raises(RefusedError):
            services.clean_blobs(None, photos.path, max_share=1)
        cleaned = services.clean_blobs(None, photos.path, max_files=1, max_share=100)
        services.clean_blobs(None, photos.path, max_share=100)
        restored = services.restore_blobs(None, photos.path)
        with pytest.raises(InvalidArgumentError):
            services.restore_blobs(None, photos.path, sweep="no such sweep/")
        found = scraped(server)
    clean = {**here, "service": "clean_blobs"}
    assert {outcome: value(found, "service_runs_total", **clean, outcome=outcome) for outcome in _OUTCOMES} == {
        "done": 2, "dry_run": 1, "refused": 1, "problems": None, "failed": None,
    }  # fmt: skip
    assert value(found, "service_run_seconds_count", **clean) == 4
    assert (len(cleaned.deleted), cleaned.bytes) == (1, 100)
    assert value(found, "service_taken_files_total", **clean) == 2
    assert value(found, "service_taken_bytes_total", **clean) == 200
    assert value(found, "service_last_taken_bytes", **clean) == 100
    assert value(found, "service_last_reclaimable_bytes", **clean) == 0
    assert time.time() - value(found, "service_last_run_timestamp_seconds", **clean, outcome="done") < 60
    restore = {**here, "service": "restore_blobs"}
    assert value(found, "service_last_taken_files", **restore) == len(restored.restored) == 2
    assert value(found, "service_runs_total", **restore, outcome="failed") == 1


_OUTCOMES = ("done", "dry_run", "problems", "refused", "failed")


def test_the_history_of_maintenance_is_read_from_the_table(photos: BlobTable, off: None) -> None:
    figures = Figures((ColumnFigures("img", 3, managed=500, dead=70, dangling=1),), 2, 90)
    steps = (StepOutcome("clean_blobs", "done"), StepOutcome("index", "failed"), StepOutcome("figures", "done"))
    add_run(str(photos.path), Run(5000, steps, figures))
    add_run(str(photos.path), Run(9000, (StepOutcome("clean_blobs", "not due"), StepOutcome("index", "refused"))))
    here = {"table": uri(photos.path)}
    with hv.metrics.serve(0, tables=[photos.path]) as server:
        found = scraped(server)
    ended = "maintenance_step_success_timestamp_seconds"
    assert [value(found, ended, **here, step=step) for step in ("clean_blobs", "figures", "index")] == [5, 5, None]
    oks = [value(found, "maintenance_step_ok", **here, step=step) for step in ("clean_blobs", "figures", "index")]
    assert oks == [1, 1, 0]
    names = ("blob_live_bytes", "blob_reclaimable_bytes", "blob_trash_bytes", "blob_dangling_rows")
    assert [value(found, name, **here) for name in names] == [500, 70, 90, 1]


def test_no_metric_has_data_of_rows_and_all_are_documented(
    table: WrittenTable, photos: BlobTable, off: None, tmp_path: Path
) -> None:
    file = tmp_path / "hudi.prom"
    hv.metrics.registry(tables=[table.path])
    with hv.open(table.path, column="emb") as t:
        t.search([0.123456, 1, 2, 3], k=4, metric="l2", filter=f"name = '{SECRET}'", columns=["name"])
    with hv.open(files=[str(next(table.path.glob("a/*.parquet")))], column="emb") as t:
        t.search(QUERY, k=4)
    hv.index.recall(None, table.path, "emb", k=5, sample=5)
    hv.table_services.clean_blobs(None, photos.path, max_share=100)
    add_run(str(photos.path), Run(5000, (StepOutcome("figures", "done"),), Figures(())))
    hv.metrics.write_text(file)
    text = file.read_text("utf-8")
    assert SECRET not in text
    assert "0.123456" not in text
    families = list(prometheus_text(text))
    labels = {each.name: {name for sample in each.samples for name in sample.labels} for each in families}
    defined = {each.name.removesuffix("_total"): each for each in DEFINITIONS.values()}
    shown = {name.removesuffix("_total"): found for name, found in labels.items() if not name.endswith("_created")}
    assert shown.keys() == defined.keys()
    for name, found in shown.items():
        if found:
            assert found - {"le"} == set(defined[name].labels), name
    assert value(values_of(families), "searches_total", table="other", execution="local", access="parquet") == 1
    assert markdown() in PAGE.read_text("utf-8")


def test_further_tables_are_counted_together(
    table: WrittenTable, photos: BlobTable, off: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_TABLES", 1)
    hv.metrics.registry(tables=[table.path])
    hv.table_services.mark_blobs(None, photos.path)
    hv.table_services.mark_blobs(None, photos.path)
    labels = {"table": "other", "service": "mark_blobs", "outcome": "done"}
    assert hv.metrics.registry().get_sample_value("hudi_vector_service_runs_total", labels) == 2
    with pytest.raises(InvalidArgumentError, match="metrics are of 1 tables at most"):
        hv.metrics.registry(tables=[photos.path])


def test_a_process_without_metrics_loads_and_counts_nothing(table: WrittenTable) -> None:
    code = f"""
import sys
import hudi_vector as hv
from hudi_vector import events
with hv.open({str(table.path)!r}, column="emb") as t:
    t.search({QUERY}, k=3)
hv.index.describe(None, {str(table.path)!r})
assert hv.metrics.__all__ == ["registry", "serve", "write_text"]
assert events.listener() is None
print(sorted(name for name in sys.modules if name.startswith(("prometheus_client", "hudi_vector.metrics"))))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "['hudi_vector.metrics']\n"


def test_browsers_and_older_prometheus_get_text(table: WrittenTable, off: None) -> None:
    with hv.metrics.serve(0, tables=[table.path]) as server, urllib.request.urlopen(server.url) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found = values_of(prometheus_text(answer.read().decode()))
    assert value(found, "table_base_files", table=uri(table.path)) == 2
    with pytest.raises(OSError, match="refused"), urllib.request.urlopen(server.url):
        pass


def test_a_file_is_replaced_whole(table: WrittenTable, off: None, tmp_path: Path) -> None:
    file = tmp_path / "out" / "hudi.prom"
    file.parent.mkdir()
    hv.metrics.write_text(file)
    inode = file.stat().st_ino
    with open(file, encoding="utf-8") as reader:  # who reads while it is written has the earlier file, whole
        hv.metrics.registry(tables=[table.path])
        hv.metrics.write_text(str(file))
        assert "hudi_vector_table_base_files{" not in reader.read()
    assert "hudi_vector_table_base_files{" in file.read_text("utf-8")
    assert file.stat().st_ino != inode
    assert os.listdir(file.parent) == ["hudi.prom"]


def test_a_command_writes_the_metrics_of_its_run(
    table: WrittenTable, photos: BlobTable, off: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def metrics_of(*words: str, code: int = 0) -> Values:
        assert main([*words, "--metrics", str(tmp_path / "hudi.prom")]) == code
        return values_of(prometheus_text((tmp_path / "hudi.prom").read_text("utf-8")))

    query = ["search", str(table.path), "--query", json.dumps(QUERY), "--metric", "l2", "-k", "7"]
    assert summed(metrics_of(*query), "search_returned_rows_total", table=uri(table.path)) == 7
    found = metrics_of("index", "describe", str(table.path), "-q")
    assert summed(found, "index_coverage_ratio", table=uri(table.path)) == 0.5
    clean = ["services", "clean", str(photos.path), "--max-share", "1"]
    labels = {"table": uri(photos.path), "service": "clean_blobs"}
    assert value(metrics_of(*clean, code=3), "service_runs_total", **labels, outcome="refused") == 1
    capsys.readouterr()
    nowhere = str(tmp_path / "none" / "hudi.prom")
    clean = ["services", "clean", str(photos.path), "--max-share", "100", "--metrics", nowhere]
    assert main(clean) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert f"metrics cannot be written to '{nowhere}': there is no directory '{tmp_path / 'none'}'" in said.err
    assert hv.table_services.clean_blobs(None, photos.path, dry_run=True).bytes == 200  # the run had not begun


def test_wrong_arguments_are_answered_with_one_sentence(table: WrittenTable, off: None, tmp_path: Path) -> None:
    for port in ("9464", 9464.0, True, None):
        with pytest.raises(
            InvalidTypeError, match=re.escape(f"port must be a whole number from 0 to 65535, not {port!r}")
        ):
            hv.metrics.serve(port)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="port must be a whole number from 0 to 65535, not 65536"):
        hv.metrics.serve(65536)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            InvalidArgumentError, match=rf"served at port {port} of '127.0.0.1': Address already in use; g"
        ):
            hv.metrics.serve(port)
    with pytest.raises(InvalidArgumentError, match=r"at port 0 of 'no.such.host.invalid': .+; give another port"):
        hv.metrics.serve(0, address="no.such.host.invalid")
    with pytest.raises(InvalidTypeError, match="tables must be a list of paths, not '/t'"):
        hv.metrics.registry(tables="/t")
    with pytest.raises(InvalidTypeError, match="the argument 'tables' must be text, not 3"):
        hv.metrics.registry(tables=[3])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="by their path, without Spark, and 'products' is not one"):
        hv.metrics.registry(tables=["products"])
    with pytest.raises(TableNotFoundError, match="there is no Hudi table at"):
        hv.metrics.registry(tables=[tmp_path])
    with pytest.raises(InvalidTypeError, match="storage_options must be a dictionary of texts, not str"):
        hv.metrics.registry(storage_options="secret")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="every must be a number of seconds, not '1m'"):
        hv.metrics.registry(every="1m")  # type: ignore[arg-type]
    for every in (-1, float("nan")):
        with pytest.raises(InvalidArgumentError, match="every must be 0 seconds or more, and finite, not"):
            hv.metrics.registry(every=every)
    with pytest.raises(InvalidTypeError, match=r"serve has no argument 'adress'; did you mean 'address'"):
        hv.metrics.serve(0, adress="::1")  # type: ignore[call-arg]


def test_a_file_that_cannot_be_written_is_said_so(photos: BlobTable, off: None, tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir()
    for path, why in {
        tmp_path / "none" / "x.prom": "there is no directory",
        shut: "it is a directory",
    }.items():
        with pytest.raises(
            InvalidArgumentError, match=f"metrics cannot be written to '{path}': {why}.*; name a file in"
        ):
            hv.metrics.write_text(path)
    with pytest.raises(
        InvalidArgumentError, match=f"the file of metrics '.*' would lie among .* of the table '{photos.path}'"
    ):
        hv.metrics.write_text(photos.path / "x.prom")
    for path in (None, 3, ""):
        with pytest.raises(InvalidTypeError, match="the file of metrics must be a path, not"):
            hv.metrics.write_text(path)  # type: ignore[arg-type]
    with without_root(tmp_path):
        shut.chmod(0o500)
        with pytest.raises(InvalidArgumentError, match=f"may not write to the directory '{shut}'"):
            hv.metrics.write_text(shut / "x.prom")
        shut.chmod(0o700)
    assert os.listdir(shut) == []


def test_without_the_library_one_sentence_names_the_extra(
    off: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    sentence = "hv.metrics needs 'prometheus-client': install it with pip install 'hudi-vector[metrics]'"
    for ask in (lambda: hv.metrics.serve(0), hv.metrics.registry, lambda: hv.metrics.write_text(tmp_path / "x.prom")):
        with pytest.raises(MissingDependencyError) as raised:
            ask()
        assert str(raised.value) == sentence
    assert events.listener() is None
    assert main(["index", "describe", str(tmp_path), "--metrics", str(tmp_path / "x.prom")]) == 1
    assert capsys.readouterr().err == f"hudi-vector: {sentence}\n"


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    shown = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    asked = [target["expr"] for panel in shown for target in panel["targets"]]
    asked += [each["query"] for each in dashboard["templating"]["list"]]
    named = {name for text in asked for name in re.findall(r"hudi_vector_\w+", text)}
    assert len(named) > 20
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} <= DEFINITIONS.keys()
    for panel in shown:
        for target in panel["targets"]:
            names = re.findall(r"hudi_vector_\w+", target["expr"])
            labels = {label for name in names for label in DEFINITIONS[re.sub(r"_bucket$", "", name)].labels} | {"le"}
            grouped = [each.split(", ") for each in re.findall(r"\bby \(([^)]*)\)", target["expr"])]
            chosen = set(re.findall(r"[{,](\w+)[!=]=?", target["expr"]))
            assert {label for each in grouped for label in each} | chosen <= labels, panel["title"]
            kept = set.union(*map(set, grouped)) if grouped else labels
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]
    places = [
        (x, y)
        for grid in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(set(places)) == len(places), "panels overlap"
    assert max(x for x, _ in places) == 23
    for name in re.findall(r"hudi_vector_\w+[a-z]\b", PAGE.read_text("utf-8")):
        assert name in DEFINITIONS, name


def test_the_picture_of_the_dashboard_is_of_the_present_one_and_knows_its_units() -> None:
    picture = module("docs/dashboard_picture.py", "dashboard_picture")
    assert picture.is_present(), "run `make dashboard`"
    assert {panel.unit for panel in picture.panels() if panel.targets} <= set(picture._SCALES)
    shown = {"s": "1.5 ms", "percentunit": "0.15%", "bytes": "0.0015 B", "short": "0.0015"}
    assert {unit: picture.as_text(0.0015, unit) for unit in shown} == shown
    assert [picture.as_text(value, "bytes") for value in (0, 999, 3 << 19)] == ["0", "999 B", "1.5 MiB"]
    assert picture.filled('rate(x{table=~"$table"}[$__rate_interval])') == 'rate(x{table=~".*"}[10s])'


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "+05:30"])
def test_an_instant_is_a_time_in_the_zone_of_the_timeline(zone: str) -> None:
    for micros in (0, 1_767_225_603_250_000, 1_782_907_200_001_000):
        digits = as_timeline_time(micros, zone)
        assert epoch_seconds(digits, zone) == micros / 1_000_000
        assert epoch_seconds(digits[:14], zone) == micros // 1_000_000
    assert epoch_seconds("00000000000001", zone) is None
