"""Search and oracle over the same table, all columns compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession

import hudi_vector as hv
from support.oracle import assert_close, distances

_TIES = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")


class Expected:
    """Every row Spark itself reads of a table, and what a search of it should find."""

    def __init__(self, frame: DataFrame, column: str, condition: str, dimension: int) -> None:
        self._column = column
        self._columns = [name for name in frame.columns if name != column]
        found = frame.selectExpr("*", f"coalesce({condition}, false) AS `__matches`").collect()
        self._rows = [row for row in found if _is_vector(row[column], dimension)]

    def nearest(self, query: np.ndarray, k: int, metric: str, filtered: bool) -> list[tuple[float, tuple[Any, ...]]]:
        """(distance, the other columns) of the k nearest rows, in the documented order."""
        rows = [row for row in self._rows if row["__matches"] or not filtered]
        if not rows:
            return []
        found = distances(np.array([row[self._column] for row in rows], np.float64), query, metric)
        ordered = sorted(zip(found.tolist(), rows, strict=True), key=lambda pair: (pair[0], self._tie(pair[1])))
        return [(distance, tuple(row[name] for name in self._columns)) for distance, row in ordered[:k]]

    def _tie(self, row: Row) -> list[bytes]:
        return [(row[name] or "").encode() for name in _TIES if name in self._columns]

    def __len__(self) -> int:
        return len(self._rows)


def search(spark: SparkSession, path: str, column: str, query: np.ndarray, k: int, **more: Any) -> list[Row]:
    """What `hv.search` finds."""
    return hv.search(spark, path, column, query, k, **more).collect()


def assert_found(got: list[Row], expected: list[tuple[float, tuple[Any, ...]]]) -> None:
    """The rows are the expected ones: as many, as far, and equal in every column."""
    assert len(got) == len(expected), f"{len(got)} rows instead of {len(expected)}"
    for row, (wanted, _) in zip(got, expected, strict=True):
        assert_close(row["_distance"], wanted, squares=1e6)
    assert [row["_distance"] for row in got] == sorted(row["_distance"] for row in got)
    rows = [tuple(row)[:-1] for row in got]
    wanted_rows = [row for _, row in expected]
    if rows != wanted_rows:
        # Distances that differ by rounding only may change places.
        assert _has_near_ties([distance for distance, _ in expected]), _first_difference(rows, wanted_rows)
        assert set(map(repr, rows[:-1])) <= set(map(repr, wanted_rows)), _first_difference(rows, wanted_rows)


def _is_vector(value: Any, dimension: int) -> bool:
    return (
        value is not None
        and len(value) == dimension
        and all(element is not None and math.isfinite(element) for element in value)
    )


def _has_near_ties(ordered: list[float]) -> bool:
    gaps = np.diff(ordered)
    return bool(((gaps > 0) & (gaps < 1e-9)).any())


def _first_difference(rows: list[Any], wanted: list[Any]) -> str:
    at = next(i for i, (a, b) in enumerate(zip(rows, wanted, strict=True)) if a != b)
    return f"row {at} is {rows[at]}\ninstead of {wanted[at]}"
