"""The calibration of a new index: held-out rows of the table as queries, their true neighbours by exact scans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.calibrate import CALIBRATED_K, calibrate
from hudi_vector.index.candidates import View
from hudi_vector.index.catalog import Index
from hudi_vector.index.load import load_view
from hudi_vector.index.manifest import ManifestEntry, Setting
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits, Ints, TopK, rank_within
from hudi_vector.read.parquet import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo

__all__ = ["Each", "calibrated", "sampled_vectors"]

_QUERIES = 64
_MOST_ROWS = 2_000_000

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function applied to each of some items, in any process, its values in the items' order."""


@dataclass(frozen=True)
class _Work:
    """The scan of one file for all queries: executors get it."""

    file: FileInfo
    spec: ScanSpec
    metric: str
    queries: Floats


def calibrated(index: Index, files: Sequence[FileInfo], spec: ScanSpec, each: Each) -> tuple[Setting, ...]:
    """Measure how much of the index has to be looked at for which recall.

    Args:
        index: The index.
        files: Base files; of very many rows only some are used.
        spec: The column, and how its files are opened.
        each: How files are gone through.

    Returns:
        Settings, the cheapest first; none where there are too few rows to tell.
    """
    chosen, view = _some(index, files, spec)
    if len(view) <= CALIBRATED_K:
        return ()
    segment, position = _held_out(view, _QUERIES)
    queries, asked = _vectors(chosen, spec, segment, position)
    segment, position = segment[asked], position[asked]
    works = [_Work(file, spec, index.manifest.metric, queries) for file in chosen]
    near_segment, near_position = _nearest(list(each(_scanned, works)), segment, position)
    return calibrate(view, queries, near_segment, near_position, CALIBRATED_K)


def _some(index: Index, files: Sequence[FileInfo], spec: ScanSpec) -> tuple[list[FileInfo], View]:
    """Files of not too many rows that the index covers, and their codes."""
    covered = index.covered(files)
    order = np.random.default_rng(0).permutation(len(covered))
    chosen: list[tuple[FileInfo, ManifestEntry]] = []
    rows = 0
    for place in order:
        if chosen and rows + covered[place][1].rows > _MOST_ROWS:
            break
        chosen.append(covered[place])
        rows += covered[place][1].rows
    entries = [entry for _, entry in chosen]
    view = load_view(index.folder, index.manifest.model_id, entries, spec.options, keep=False)
    return [file for file, _ in chosen], view


def sampled_vectors(index: Index, files: Sequence[FileInfo], spec: ScanSpec, count: int) -> Floats:
    """Vectors of the table, chosen by chance, to ask with.

    Args:
        index: The index.
        files: Base files; of very many rows only some are used.
        spec: The column, and how its files are opened.
        count: How many are wanted.

    Returns:
        Shape (n, d), float64, n at most `count`.
    """
    chosen, view = _some(index, files, spec)
    return _vectors(chosen, spec, *_held_out(view, count))[0]


def _held_out(view: View, count: int) -> tuple[Ints, Ints]:
    picked = np.random.default_rng(1).choice(len(view), min(count, len(view)), replace=False)
    row = np.sort(view.row[picked].astype(np.int64))
    segment = np.searchsorted(view.bases, row, side="right") - 1
    return segment, row - view.bases[segment]


def _vectors(chosen: Sequence[FileInfo], spec: ScanSpec, segment: Ints, position: Ints) -> tuple[Floats, Ints]:
    """The vectors of rows, and which of the rows have one still."""
    parts: list[npt.NDArray[Any]] = [np.empty((0, spec.column.dimension))]
    asked = [np.empty(0, np.int64)]
    for number in np.unique(segment):
        here = np.flatnonzero(segment == number)
        block = ParquetSlice(chosen[number], spec, keep=False).vectors_at(position[here], ScanCounts())
        parts.append(block.values.astype(np.float64))
        asked.append(here[np.isin(position[here], block.positions)])
    return np.concatenate(parts), np.concatenate(asked)


def _scanned(work: _Work) -> Hits:
    top = TopK(work.queries, work.metric, CALIBRATED_K + 1, Bounds.of(len(work.queries)))
    for block in ParquetSlice(work.file, work.spec, keep=False).blocks(ScanCounts()):
        if len(block):
            top.offer(block)
    return top.hits()


def _nearest(found: Sequence[Hits], segment: Ints, position: Ints) -> tuple[Ints, Ints]:
    """The segments and positions of each query's nearest rows but itself, shape (m, k); −1 where there are fewer."""
    of = np.repeat(np.arange(len(found)), [len(hits) for hits in found])
    query = np.concatenate([hits.query for hits in found])
    distance = np.concatenate([hits.distance for hits in found])
    at = np.concatenate([hits.position for hits in found])
    others = ~((of == segment[query]) & (at == position[query]))
    of, query, distance, at = of[others], query[others], distance[others], at[others]
    order, rank = rank_within(query, distance, of, at)
    order, rank = order[rank < CALIBRATED_K], rank[rank < CALIBRATED_K]
    near_segment = np.zeros((len(segment), CALIBRATED_K), np.int64)
    near_position = np.full((len(segment), CALIBRATED_K), -1, np.int64)
    near_segment[query[order], rank] = of[order]
    near_position[query[order], rank] = at[order]
    return near_segment, near_position
