"""What a report says after a search."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.kernels.topk import Hits, Ints
from hudi_vector.query.merge import SliceHits, merge_hits
from hudi_vector.query.plan import SearchPlan, SliceAccess
from hudi_vector.query.report import Progress, SearchReport, keep_report, last_reports, report_of
from hudi_vector.read.spec import ScanCounts, ScanSpec, VectorColumn
from hudi_vector.storage import FileInfo
from hudi_vector.table.config import TableConfig
from hudi_vector.table.model import FileSlice, Snapshot, Source


def plan(**changes: Any) -> SearchPlan:
    source = Source("file:///t", "products")
    snapshot = Snapshot(source, TableConfig.parse(""), "x", "20260101000000000", None, pa.schema({}), ())
    slices = (SliceAccess(FileSlice("", "f", "1", FileInfo("file:///t/f", 10, 1)), "parquet"),)
    spec = ScanSpec("file:///t", pa.schema({}), VectorColumn("emb", 2, "float"))
    made = SearchPlan(snapshot, spec, "l2", 3, None, None, slices, 0, "local", "as asked")
    return replace(made, **changes)


def none(index: int, positions: Ints) -> None:
    """No keys."""
    del index, positions


def report(fewest: int = 3, changes: dict[str, Any] | None = None, **counts: Any) -> SearchReport:
    progress = Progress(ScanCounts(**counts), {"plan": 0.001, "scan": 0.0123})
    found = merge_hits(
        [SliceHits(0, Hits(np.zeros(fewest, np.int64), np.arange(fewest) / 2, np.arange(fewest)))], 3, none
    )
    return report_of(plan(**(changes or {})), progress, 1, found)


def test_the_text() -> None:
    text = str(report(rows=100, filtered=5, nulls=2, invalid=1, bytes_read=10, cached_slices=1))
    assert text.splitlines() == [
        "search of products at instant 20260101000000000: 3 rows for 1 query, k = 3, l2",
        "  local (as asked); slices: 1 parquet, 0 pruned, 1 from memory",
        "  rows: 100 seen, 0 pruned by statistics, 5 filtered out, 2 without a vector, 1 invalid; 10 bytes read",
        "  k reached; plan 1 ms, scan 12 ms",
        "  proved: 3 of 3 rows are certainly in the exact answer",
    ]


def test_rows_nearer_than_any_unseen_row_are_proved() -> None:
    assert [report(unseen=np.array([limit])).proved for limit in (-np.inf, 0.0, 0.5, 0.6, np.inf)] == [0, 0, 1, 2, 3]
    assert "proved: 2 of 3 rows are certainly in the exact answer" in str(report(unseen=np.array([0.6])))
    counts = ScanCounts(unseen=np.array([1.0, 2.0]))
    counts.add(ScanCounts(rows=2))
    counts.add(ScanCounts(rows=3, unseen=np.array([3.0, 0.5])))
    assert (counts.rows, counts.unseen.tolist()) == (5, [1.0, 0.5])


def test_query_rows_that_gave_nothing_are_said() -> None:
    text = str(replace(report(), queries=5, invalid_queries=2))
    assert "rows for 5 queries" in text
    assert text.endswith("2 query rows without a usable vector gave no rows")


@pytest.mark.parametrize(
    ("changes", "counts", "wanted"),
    [
        ({}, {}, "the table holds no rows at this instant"),
        ({}, {"rows": 2}, "the table holds 2 rows"),
        ({}, {"rows": 9, "filtered": 7}, "the filter left out the others"),
        ({}, {"rows": 9, "pruned": 7}, "the filter left out the others"),
        ({"pruned_slices": 2}, {}, "the filter left out the others"),
        ({}, {"rows": 9, "nulls": 7}, "7 rows have no vector"),
        ({}, {"rows": 9, "nulls": 3, "invalid": 4}, "3 rows have no vector, 4 rows have an invalid one"),
        ({"max_distance": 0.5}, {"rows": 9}, "the others lie beyond max_distance = 0.5"),
        ({"max_distance": 0.5}, {"rows": 1}, "the table holds 1 row"),
    ],
)
def test_why_there_are_fewer(changes: dict[str, Any], counts: dict[str, int], wanted: str) -> None:
    made = report(1, changes, **counts)
    assert not made.reached_k
    assert made.why_fewer == wanted
    assert f"fewer than k: {wanted}" in str(made)


def test_in_a_notebook_it_is_escaped() -> None:
    made = replace(report(), table="a<b>")
    assert "a&lt;b&gt;" in made._repr_html_()


def test_reports_are_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, second = replace(report(), table="first"), replace(report(), table="second")
    with caplog.at_level(logging.INFO, "hudi_vector.search"):
        keep_report(first)
        keep_report(second)
    assert last_reports() == [second]
    assert last_reports(2) == [first, second]
    assert "search of first" in caplog.text
    for _ in range(150):
        keep_report(first)
    assert len(last_reports(1000)) == 100
    with pytest.raises(ValueError, match="give a count of 1 or more, not 0"):
        last_reports(0)
