"""The oracle of a search: brute force in float64 numpy over the rows Spark itself reads."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

_ROUNDING = 1e-9
"""Distances that differ by less may come in either order."""


class Ranking(list[tuple[Any, ...]]):
    """The k nearest rows, each beginning with its distance, in the documented order.

    `behind` are the rows after them that are as far as the last one, up to rounding; `squares` are the sums of the
    squared lengths of both vectors, by which rounding is measured.
    """

    def __init__(self, ordered: Sequence[tuple[Any, ...]], squares: Sequence[float], k: int) -> None:
        super().__init__(ordered[:k])
        self.squares = list(squares[:k])
        last = self[-1][0] if self else 0.0
        self.behind = [row for row in ordered[k:] if row[0] - last < _ROUNDING]

    def groups(self) -> Iterable[tuple[slice, bool]]:
        """Runs of rows, and whether rounding may change their order: none where all are exactly as far."""
        far = [row[0] for row in [*self, *self.behind]]
        cuts = [0, *(np.flatnonzero(np.diff(far) >= _ROUNDING) + 1).tolist(), len(far)]
        for begin, end in itertools.pairwise(cuts if self else []):
            yield slice(begin, min(end, len(self))), far[begin] != far[end - 1]

    def assert_rows(self, got: Sequence[Any], told: Any = repr) -> None:
        """The rows are these, without their distances; those that rounding may bring into another order are there."""
        assert len(got) == len(self), f"{len(got)} rows instead of {len(self)}"
        for rows, loose in self.groups():
            wanted = [told(row[1:]) for row in self[rows]]
            found = [told(tuple(row)) for row in got[rows]]
            if not loose:
                assert found == wanted, f"rows {rows.start} to {rows.stop - 1} are {found}\ninstead of {wanted}"
                continue
            if rows.stop == len(self):
                wanted += [told(row[1:]) for row in self.behind]
            more = Counter(found) - Counter(wanted)
            assert not more, f"rows {rows.start} to {rows.stop - 1} hold {list(more)}\nwhich is none of {wanted}"


def distances(rows: np.ndarray, query: np.ndarray, metric: str) -> np.ndarray:
    """Distances by the plain formulas of RFC-102, shape (n,)."""
    rows, query = np.asarray(rows, np.float64), np.asarray(query, np.float64)
    if metric == "l2":
        return np.sqrt(((rows - query) ** 2).sum(axis=1))
    dots = (rows * query).sum(axis=1)  # equal rows have equal sums, wherever they stand
    if metric == "dot_product":
        return -dots
    norms = np.sqrt((rows**2).sum(axis=1)) * np.sqrt((query**2).sum())
    similar = np.divide(dots, norms, out=np.zeros(len(rows)), where=norms > 0)
    return np.clip(1 - similar, 0, 2)


def nearest(frame: DataFrame, column: str, query: Sequence[float], k: int, metric: str = "cosine") -> Ranking:
    """(distance, record key, partition path) of the k nearest rows, in the documented order."""
    rows = [
        row
        for row in frame.select(
            "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno", column
        ).collect()
        if row[3] is not None
    ]
    if not rows:
        return Ranking([], [], k)
    vectors = np.array([row[3] for row in rows], np.float64)
    keyed = sorted(
        (float(distance), row[0].encode(), row[1].encode(), row[2].encode(), square)
        for distance, square, row in zip(
            distances(vectors, np.asarray(query), metric), squares(vectors, query, metric), rows, strict=True
        )
    )
    found = [(distance, key.decode(), path.decode()) for distance, key, path, *_ in keyed]
    return Ranking(found, [row[-1] for row in keyed], k)


def squares(rows: np.ndarray, query: Sequence[float] | np.ndarray, metric: str) -> list[float]:
    """The squared lengths of query and row together, shape (n,); of vectors of length one for cosine."""
    rows, query = np.asarray(rows, np.float64), np.asarray(query, np.float64)
    if metric == "cosine":
        return [2.0] * len(rows)
    found: list[float] = ((rows**2).sum(axis=1) + (query**2).sum()).tolist()
    return found


def assert_nearest(found: DataFrame, expected: Ranking) -> None:
    """The rows of a search are the oracle's, up to the order of distances that differ only by rounding."""
    rows = found.select("_distance", "_hoodie_record_key", "_hoodie_partition_path").collect()
    assert_ranked([row[0] for row in rows], [row[1:] for row in rows], expected)


def assert_ranked(far: Sequence[float], rows: Sequence[Any], expected: Ranking) -> None:
    """Distances and rows are the oracle's, row by row."""
    assert len(far) == len(expected), f"{len(far)} rows instead of {len(expected)}"
    for distance, wanted, square in zip(far, expected, expected.squares, strict=True):
        assert_close(distance, wanted[0], square)
    assert list(far) == sorted(far)
    expected.assert_rows(rows)


def assert_close(distance: float, wanted: float, squares: float = 1.0) -> None:
    """Equal to 1e-6 relative, or 1e-12 of the squared lengths absolute."""
    assert abs(distance - wanted) <= max(1e-6 * abs(wanted), 1e-12 * squares), (distance, wanted)
