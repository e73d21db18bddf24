"""Search and oracle over the same table, all columns compared."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession

import hudi_vector as hv
from support.oracle import Ranking, assert_ranked, distances, squares

_TIES = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")


class Expected:
    """Every row Spark itself reads of a table, and what a search of it should find."""

    def __init__(self, frame: DataFrame, column: str, condition: str, dimension: int) -> None:
        self._column = column
        self._columns = [name for name in frame.columns if name != column]
        found = frame.selectExpr("*", f"coalesce({condition}, false) AS `__matches`").collect()
        self._rows = [row for row in found if is_vector(row[column], dimension)]

    def nearest(
        self, query: np.ndarray, k: int, metric: str, filtered: bool, columns: Sequence[str] | None = None
    ) -> Ranking:
        """The distance and the other columns, or these, of the k nearest rows, in the documented order."""
        rows = [row for row in self._rows if row["__matches"] or not filtered]
        if not rows:
            return Ranking([], [], k)
        vectors = self._vectors(rows)
        far, square = distances(vectors, query, metric).tolist(), squares(vectors, query, metric)
        names, order = self._columns if columns is None else columns, self._order(rows, far)
        found = [(far[i], *(rows[i][name] for name in names)) for i in order]
        return Ranking(found, [square[i] for i in order], k)

    def ordered(self, query: np.ndarray, metric: str) -> list[Row]:
        """All rows that have a vector, in the documented order."""
        if not self._rows:
            return []
        far = distances(self._vectors(self._rows), query, metric).tolist()
        return [self._rows[i] for i in self._order(self._rows, far)]

    def _vectors(self, rows: Sequence[Row]) -> np.ndarray:
        return np.array([row[self._column] for row in rows], np.float64)

    def _order(self, rows: Sequence[Row], far: Sequence[float]) -> list[int]:
        return sorted(range(len(rows)), key=lambda i: (far[i], self._tie(rows[i])))

    def _tie(self, row: Row) -> list[bytes]:
        return [(row[name] or "").encode() for name in _TIES if name in self._columns]

    def __len__(self) -> int:
        return len(self._rows)


def search(spark: SparkSession, path: str, column: str, query: np.ndarray, k: int, **more: Any) -> list[Row]:
    """What `hv.search` finds, with Hudi's own columns, which have to be named, where the table has them."""
    found = hv.search(spark, path, column, query, k, **more)
    hidden = str(found._jdf.queryExecution().analyzed().metadataOutput().mkString(" "))
    names = re.findall(r"(_hoodie_\w+)#\d+", hidden)
    own = [name for name in names if name == "_hoodie_is_deleted"]  # the last column of the rows' own schema
    rest = [name for name in found.columns if name != "_distance"]
    return found.select(*(name for name in names if name not in own), *rest, *own, "_distance").collect()


def assert_found(got: Sequence[tuple[Any, ...]], expected: Ranking) -> None:
    """The rows, whose last column is their distance, are the expected ones: as many, as far, equal in every column."""
    assert_ranked([row[-1] for row in got], [tuple(row)[:-1] for row in got], expected)


def is_vector(value: Any, dimension: int) -> bool:
    """Whether a value is a vector of finite numbers of that length."""
    return (
        value is not None
        and len(value) == dimension
        and all(element is not None and math.isfinite(element) for element in value)
    )
