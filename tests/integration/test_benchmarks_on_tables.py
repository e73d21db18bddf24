"""Benchmarks at a small size in the tests' own session: what they count and find holds there too; their times say nothing."""

from __future__ import annotations

import importlib
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.usefixtures("quick_sql")


@pytest.fixture
def bench(monkeypatch):
    """A benchmark's module by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_clustering_by_vectors_changes_no_answer_and_reads_no_more_pages(spark, bench, tmp_path):
    clustering, data = bench("clustering"), bench("index_data")
    found, _ = clustering.measured(spark, data.Case("clustering", 4_000, 128, 2, "snappy", 10, tmp_path))
    rows = {(row.search, row.when): row for row in found}
    assert len(rows) == len(found) == 4
    for search, _ in rows:
        before, after = (rows[search, when] for when in ("before", "after"))
        assert after.recall >= 0.95
        assert search != "exact" or before.recall == after.recall == 1
        assert 0 < after.pages["median"] <= before.pages["median"]


def test_single_values_of_both_sizes(spark, bench, tmp_path):
    """The benchmark itself compares the values with those of a scan."""
    blobs = bench("blobs")
    measured = blobs.BlobBench(spark, tmp_path, blobs.Size(200, 20 << 10, 4, 4, 1))
    for count in (200, 10_000):
        blobs.singles(measured, count)
    assert list(measured.results.seconds) == ["ten of 200 rows", "ten of 10,000 rows"]
    assert all(times for ways in measured.results.seconds.values() for times in ways.values())


def test_all_beginnings_of_sessions_are_timed(spark, bench, tmp_path, monkeypatch):
    """Threads of this process search in its session, where the benchmark starts a process and a session for each way."""
    search = bench("search")
    monkeypatch.setattr(search, "session", lambda _: spark)
    monkeypatch.setattr(search.multiprocessing, "get_context", lambda _: SimpleNamespace(Pool=ThreadPool))
    seconds = search.sessions(tmp_path, search.Size(1_000, 128, 2, ("snappy",), 2, 1, 2)).seconds
    assert {stage: sorted(ways) for stage, ways in seconds.items()} == {
        "first": ["native", "ours", "ours, from_json"],
        "2nd to 10th": ["SELECT 1", "native", "ours", "ours, from_json"],
    }
