"""The true nearest rows of queries and their file positions, from exact scans in any processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK, rank_within
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo

__all__ = ["Each", "TrueRows", "true_rows"]

_FILES_AT_ONCE = 128

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function like `map`: applies a function to items, in any process, and returns the results in their order."""


@dataclass(frozen=True)
class TrueRows:
    """Queries and their nearest rows so far: `hits` by query and distance, `file` the file number of each hit."""

    queries: Floats
    wanted: int
    hits: Hits
    file: Ints

    @classmethod
    def none(cls, queries: Floats, wanted: int) -> TrueRows:
        """Return queries that want `wanted` rows each, without rows so far."""
        return cls(queries, wanted, Hits.none(), np.empty(0, np.int64))

    def bounds(self) -> Bounds:
        """Return, for each query, the distance that further rows must beat."""
        bounds = Bounds.of(len(self.queries))
        count = np.bincount(self.hits.query, minlength=len(self.queries))
        farthest = np.cumsum(count)[count == self.wanted] - 1
        bounds.distance[count == self.wanted] = self.hits.distance[farthest]
        bounds.is_full[:] = count == self.wanted
        return bounds

    def merged(self, first: int, found: Sequence[Hits]) -> TrueRows:
        """Return these rows merged with the hits of further files, which are numbered from `first`."""
        numbers = np.arange(first, first + len(found))
        file = np.concatenate([self.file, np.repeat(numbers, [len(hits) for hits in found])])
        query, distance, position = (
            np.concatenate([getattr(hits, name) for hits in (self.hits, *found)])
            for name in ("query", "distance", "position")
        )
        order, rank = rank_within(query, distance, file, position)
        order = order[rank < self.wanted]
        return TrueRows(self.queries, self.wanted, Hits(query, distance, position).take(order), file[order])

    def but(self, file: Ints, position: Ints, hidden: tuple[Ints, Ints] | None = None) -> tuple[Ints, Ints]:
        """Return the files and positions of each query's nearest rows without one row, which may be the query itself.

        Both results have shape (m, wanted - 1 - h), nearest first; the position is -1 where there are fewer rows.

        Args:
            file: The file number of each query's excluded row, shape (m,).
            position: Its position in the file, shape (m,).
            hidden: File numbers and positions, shape (h,), of further rows that no query may find; None for h = 0.
        """
        query, at = self.hits.query, self.hits.position
        is_other = (self.file != file[query]) | (at != position[query])
        wanted = self.wanted - 1
        if hidden is not None:
            is_other &= ~np.isin(_pairs(self.file, at), _pairs(*hidden))
            wanted -= len(hidden[0])
        others = np.flatnonzero(is_other)
        order, rank = rank_within(query[others])
        kept, rank = others[order][rank < wanted], rank[rank < wanted]
        shape = (len(self.queries), wanted)
        files, positions = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
        files[query[kept], rank], positions[query[kept], rank] = self.file[kept], at[kept]
        return files, positions


def _pairs(file: Ints, position: Ints) -> Ints:
    """Return one number for each (file, position) pair."""
    return (file << 40) + position


@dataclass(frozen=True)
class _Scan:
    """The input of one file's scan for all queries, sent to executors."""

    file: FileInfo
    spec: ScanSpec
    metric: str
    asks: tuple[tuple[Floats, int, Bounds], ...]


def true_rows(
    asks: Sequence[tuple[Floats, int]], files: Sequence[FileInfo], spec: ScanSpec, metric: str, each: Each
) -> list[TrueRows]:
    """Return the nearest rows for each of `asks`, which are pairs of queries, shape (m, d), and the rows each wants.

    At most 128 files are scanned at once, so that their results fit in memory.
    """
    known = [TrueRows.none(queries, wanted) for queries, wanted in asks]
    for first in range(0, len(files), _FILES_AT_ONCE):
        bounded = tuple((one.queries, one.wanted, one.bounds()) for one in known)
        scans = [_Scan(file, spec, metric, bounded) for file in files[first : first + _FILES_AT_ONCE]]
        found = list(zip(*each(_scanned, scans), strict=True))
        known = [one.merged(first, hits) for one, hits in zip(known, found, strict=True)]
    return known


def _scanned(scan: _Scan) -> list[Hits]:
    """Return the hits of one file for each of its questions."""
    tops = [TopK(queries, scan.metric, wanted, bounds) for queries, wanted, bounds in scan.asks]
    for block in ParquetSlice(scan.file, scan.spec, keep=False).blocks(ScanCounts()):
        if len(block):
            for top in tops:
                top.offer(block)
    return [top.hits() for top in tops]
