"""Search and oracle over the same table, all columns compared."""

from __future__ import annotations

import math
import re
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

    def nearest(self, query: np.ndarray, k: int, metric: str, filtered: bool) -> Ranking:
        """The distance and the other columns of the k nearest rows, in the documented order."""
        rows = [row for row in self._rows if row["__matches"] or not filtered]
        if not rows:
            return Ranking([], [], k)
        vectors = np.array([row[self._column] for row in rows], np.float64)
        far, square = distances(vectors, query, metric).tolist(), squares(vectors, query, metric)
        order = sorted(range(len(rows)), key=lambda i: (far[i], self._tie(rows[i])))
        found = [(far[i], *(rows[i][name] for name in self._columns)) for i in order]
        return Ranking(found, [square[i] for i in order], k)

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


def assert_found(got: list[Row], expected: Ranking) -> None:
    """The rows are the expected ones: as many, as far, and equal in every column."""
    assert_ranked([row["_distance"] for row in got], [tuple(row)[:-1] for row in got], expected)


def is_vector(value: Any, dimension: int) -> bool:
    """Whether a value is a vector of finite numbers of that length."""
    return (
        value is not None
        and len(value) == dimension
        and all(element is not None and math.isfinite(element) for element in value)
    )
