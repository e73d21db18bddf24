"""Dates and timestamps of Spark 2's calendar are refused, where they would be other ones, and never answered."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_vector as hv
from hudi_vector.errors import UnsupportedTableError

LEGACY = {"org.apache.spark.legacyDateTime": ""}
OLD_DAY, NEW_DAY = date(1500, 3, 11), date(1582, 10, 15)
OLD_TIME, NEW_TIME = datetime(1899, 12, 31, 23, tzinfo=timezone.utc), datetime(1900, 1, 1, tzinfo=timezone.utc)


def found(folder: Path, values: pa.Array, footer: dict[str, str], *, filtered: str = "", **options: Any) -> list[Any]:
    table = pa.table({"id": [1, 2], "emb": pa.array([[1.0], [2.0]]), "v": values}).replace_schema_metadata(footer)
    pq.write_table(table, folder / "a.parquet", **options)
    asked = {"filter": filtered, "columns": ["id"]} if filtered else {"columns": ["id", "v"]}
    with hv.open(files=[folder / "a.parquet"], column="emb") as opened:
        return [row[asked["columns"][-1]] for row in opened.search([0.0], 5, metric="l2", **asked).to_pylist()]


@pytest.mark.parametrize("footer", [LEGACY, {"org.apache.spark.version": "2.4.8"}])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([NEW_DAY, OLD_DAY]),
        pa.array([NEW_TIME, OLD_TIME], pa.timestamp("us", "UTC")),
        pa.array([NEW_TIME, OLD_TIME], pa.timestamp("ms", "UTC")),
        pa.array([[NEW_DAY], [NEW_DAY, OLD_DAY]]),
        pa.array([{"day": NEW_DAY}, {"day": OLD_DAY}]),
    ],
)
def test_old_values_are_refused(tmp_path: Path, values: pa.Array, footer: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTableError, match=r"column 'v' of .* \(LEGACY\).*; leave the column out, or"):
        found(tmp_path, values, footer)
    for condition in ("v IS NULL", "v = DATE '2020-01-01'") if pa.types.is_date(values.type) else ():
        with pytest.raises(UnsupportedTableError, match="column 'v'"):
            found(tmp_path, values, footer, filtered=condition)
    assert found(tmp_path, values, footer, filtered="id = 1") == [1], "the column is left out"
    with pytest.raises(UnsupportedTableError, match="column 'v'"):
        found(tmp_path, values, footer, write_statistics=False)
    assert found(tmp_path, values, {"org.apache.spark.version": "3.5.8"}) == values.to_pylist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([NEW_DAY, None]),
        pa.array([NEW_TIME, None], pa.timestamp("us", "UTC")),
        pa.nulls(2, pa.date32()),
        pa.array([1, -9]),
    ],
)
def test_values_that_both_calendars_count_alike_are_read(tmp_path: Path, values: pa.Array) -> None:
    assert found(tmp_path, values, LEGACY) == values.to_pylist()


def test_what_has_no_statistics_may_be_old(tmp_path: Path) -> None:
    moments = pa.array([NEW_TIME, NEW_TIME], pa.timestamp("us", "UTC"))
    with pytest.raises(UnsupportedTableError, match="column 'v'"):
        found(tmp_path, moments, {"org.apache.spark.legacyINT96": ""}, use_deprecated_int96_timestamps=True)
