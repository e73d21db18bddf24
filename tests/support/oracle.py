"""The oracle of a search: brute force in float64 numpy over the rows Spark itself reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame


def distances(rows: np.ndarray, query: np.ndarray, metric: str) -> np.ndarray:
    """Distances by the plain formulas of RFC-102, shape (n,)."""
    rows, query = np.asarray(rows, np.float64), np.asarray(query, np.float64)
    if metric == "l2":
        return np.sqrt(((rows - query) ** 2).sum(axis=1))
    dots = rows @ query
    if metric == "dot_product":
        return -dots
    norms = np.sqrt((rows**2).sum(axis=1)) * np.sqrt((query**2).sum())
    similar = np.divide(dots, norms, out=np.zeros(len(rows)), where=norms > 0)
    return np.clip(1 - similar, 0, 2)


def nearest(
    frame: DataFrame, column: str, query: Sequence[float], k: int, metric: str = "cosine"
) -> list[tuple[float, str, str]]:
    """(distance, record key, partition path) of the k nearest rows, in the documented order."""
    rows = [
        row
        for row in frame.select(
            "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno", column
        ).collect()
        if row[3] is not None
    ]
    if not rows:
        return []
    found = distances(np.array([row[3] for row in rows]), np.asarray(query), metric)
    keyed = sorted(
        (float(distance), row[0].encode(), row[1].encode(), row[2].encode())
        for distance, row in zip(found, rows, strict=True)
    )
    return [(distance, key.decode(), path.decode()) for distance, key, path, _ in keyed[:k]]


def assert_nearest(found: DataFrame, expected: list[tuple[float, str, str]], squares: float = 0.0) -> None:
    """The rows of a search are the oracle's, up to the order of distances that differ only by rounding."""
    rows = found.select("_distance", "_hoodie_record_key", "_hoodie_partition_path").collect()
    got = [(row[0], row[1], row[2]) for row in rows]
    assert len(got) == len(expected), f"{len(got)} rows, expected {len(expected)}"
    for (distance, _, _), (wanted, _, _) in zip(got, expected, strict=True):
        assert_close(distance, wanted, squares)
    assert [row[0] for row in got] == sorted(row[0] for row in got)
    if not _has_near_ties(expected):
        assert [row[1:] for row in got] == [row[1:] for row in expected]
    else:
        assert {row[1:] for row in got[:-1]} <= {row[1:] for row in got}


def assert_close(distance: float, wanted: float, squares: float = 0.0) -> None:
    """Equal to 1e-6 relative, or 1e-12 of the squared lengths absolute."""
    assert abs(distance - wanted) <= max(1e-6 * abs(wanted), 1e-12 * max(squares, 1.0)), (distance, wanted)


def _has_near_ties(expected: list[Any]) -> bool:
    gaps = np.diff([row[0] for row in expected])
    return bool(((gaps > 0) & (gaps < 1e-9)).any())
