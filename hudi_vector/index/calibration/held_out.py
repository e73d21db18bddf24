"""The calibration of a new index, with held-out rows as queries and their true neighbours from exact scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.index.calibration.calibrate import calibrate
from hudi_vector.index.calibration.exact_rows import Each, true_rows
from hudi_vector.index.catalog import Index
from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.load import load_view
from hudi_vector.index.manifest import ManifestEntry, Setting
from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.slice import ParquetSlice
from hudi_vector.read.spec import ScanCounts, ScanSpec
from hudi_vector.storage import FileInfo

__all__ = ["HELD_OUT", "Each", "HeldOut", "calibrated", "sampled_vectors"]

_ROUNDS = ((64, (1, 10, 30, 100)), (24, (300, 1000)))
"""Number of queries and their k; fewer queries for large k, since recall at large k varies less between queries."""

HELD_OUT = max(queries for queries, _ in _ROUNDS)
"""The most queries of a calibration."""

_MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class HeldOut:
    """Vectors that the model was not trained on, shape (n, d), with each one's file URI and row position."""

    values: Floats
    uris: tuple[str, ...]
    position: Ints


def calibrated(
    index: Index, files: Sequence[FileInfo], spec: ScanSpec, each: Each, held: HeldOut | None = None
) -> tuple[Setting, ...]:
    """Measure which settings reach which recall, for several k; return them by k, cheapest first.

    Of very many rows only some files are used. The queries are `held`, or random rows of the index if that is None. A k
    for which there are too few rows has no settings.
    """
    chosen, view = _some(index, files, spec)
    if len(view) <= _ROUNDS[0][1][0]:
        return ()
    queries, segment, position = _chance(view, HELD_OUT, chosen, spec) if held is None else _placed(held, chosen)
    view = view.without(segment, position)
    hidden = view.hidden
    sizes = [[k for k in ks if k < len(view) - len(hidden[0])] for _, ks in _ROUNDS]
    mixed = np.random.default_rng(2).permutation(len(queries))
    rounds = [(mixed[:count], ks) for (count, _), ks in zip(_ROUNDS, sizes, strict=True) if ks]
    asks = [(queries[part], ks[-1] + 1 + len(hidden[0])) for part, ks in rounds]
    found: list[Setting] = []
    for (part, ks), true in zip(rounds, true_rows(asks, chosen, spec, index.manifest.metric, each), strict=True):
        near_segment, near_position = true.but(segment[part], position[part], hidden)
        most = ks[-1]
        found.extend(calibrate(view, queries[part], near_segment[:, :most], near_position[:, :most], ks))
    return tuple(found)


def _some(index: Index, files: Sequence[FileInfo], spec: ScanSpec) -> tuple[list[FileInfo], View]:
    """Return covered files, chosen at random up to a limit of 2,000,000 rows, and the view of their segments."""
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
    view = load_view(index.folder, index.manifest.model_id, entries, spec.options, keep=False, whole=True)
    return [file for file, _ in chosen], view


def sampled_vectors(index: Index, files: Sequence[FileInfo], spec: ScanSpec, count: int) -> Floats:
    """Return at most `count` randomly chosen vectors of the index as queries, float64, shape (n, d).

    Of very many rows only some files are used.
    """
    chosen, view = _some(index, files, spec)
    return _chance(view, count, chosen, spec)[0]


def _placed(held: HeldOut, chosen: Sequence[FileInfo]) -> tuple[Floats, Ints, Ints]:
    """Return the held-out vectors with file number (-1 if not in `chosen`) and row position."""
    numbers = {file.uri: number for number, file in enumerate(chosen)}
    return held.values, np.array([numbers.get(uri, -1) for uri in held.uris], np.int64), held.position


def _chance(view: View, count: int, chosen: Sequence[FileInfo], spec: ScanSpec) -> tuple[Floats, Ints, Ints]:
    """Return randomly chosen vectors that have a code, with file number and row position."""
    picked = np.random.default_rng(1).choice(len(view), min(count, len(view)), replace=False)
    row = np.sort(view.row[picked].astype(np.int64))
    segment = np.searchsorted(view.bases, row, side="right") - 1
    position = row - view.bases[segment]
    values, there = _vectors(chosen, spec, segment, position)
    return values, segment[there], position[there]


def _vectors(chosen: Sequence[FileInfo], spec: ScanSpec, segment: Ints, position: Ints) -> tuple[Floats, Ints]:
    """Return the vectors of rows, and the numbers of the rows that still have one."""
    parts: list[npt.NDArray[Any]] = [np.empty((0, spec.column.dimension))]
    asked = [np.empty(0, np.int64)]
    for number in np.unique(segment):
        here = np.flatnonzero(segment == number)
        block = ParquetSlice(chosen[number], spec, keep=False).vectors_at(position[here], ScanCounts())
        parts.append(block.values.astype(np.float64))
        asked.append(here[np.isin(position[here], block.positions)])
    return np.concatenate(parts), np.concatenate(asked)
