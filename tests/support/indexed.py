"""Vectors of many shapes, and indexes over them, for tests of the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hudi_vector.index.candidates import Candidates
from hudi_vector.index.joined import joined_view, made_segment
from hudi_vector.index.kinds import GRAPHS
from hudi_vector.index.model import IndexModel, train_model
from hudi_vector.index.segment import FileFingerprint
from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.kernels.topk import make_block

DTYPES = {"float": "<f4", "double": "<f8", "int8": "i1"}
SHAPES = ("clustered", "normal", "constant", "duplicates", "far", "tiny", "huge", "mixed", "zeros", "offset", "drifted")


def vectors(shape: str, rows: int, dimension: int, element: str, seed: int) -> np.ndarray[Any, Any]:
    """Rows of one shape, in the type of the element."""
    chance = np.random.default_rng(seed)
    made = chance.normal(size=(rows, dimension))
    if shape in ("clustered", "drifted"):
        middles = chance.normal(size=(5, dimension)) * 5
        made = made * 0.3 + middles[chance.integers(0, 5, rows)]
    if shape == "drifted":
        made[rows // 2 :] *= 10
    if shape == "constant":
        made[:, : (dimension + 1) // 2] = 3.7
    if shape == "duplicates":
        made = made[chance.integers(0, max(rows // 8, 1), rows)]
    if shape == "zeros":
        made[chance.random(rows) < 0.3] = 0
    if shape == "offset":
        made = made * 1e-3 + 1000.0
    if element == "int8":
        return np.clip(np.rint(made * 20), -128, 127).astype("i1")
    if shape == "far":
        made += 1e4
    if shape == "tiny":
        made *= 1e-14
    if shape == "huge":
        made *= 1e13
    if shape == "mixed":
        made *= 10.0 ** chance.integers(-30, 18, (rows, 1))
    return made.astype(DTYPES[element])


def fingerprint(name: str = "a_0_1.parquet") -> FileFingerprint:
    """Of a file that need not be there."""
    return FileFingerprint(f"p=1/{name}", 1, 2, "ab")


def segment_of(model: IndexModel, values: np.ndarray[Any, Any], valid: Any = None, name: str = "a_0_1.parquet") -> Any:
    """The segment of a file with these rows, some of which may have no vector."""
    positions = np.arange(len(values)) if valid is None else np.flatnonzero(valid)

    def blocks() -> Iterator[Any]:
        for start in range(0, len(positions), 37):
            part = positions[start : start + 37]
            yield make_block(values[part], part)[0]

    return made_segment(model, fingerprint(name), blocks(), len(values))


def view_of(
    files: Sequence[np.ndarray[Any, Any]],
    metric: str,
    kind: str,
    element: str,
    lists: int | None,
    trained_on: int = 0,
    **given: Any,
) -> Any:
    """An index over files, trained on all of their rows or on the first ones."""
    everything = np.concatenate(files)
    sample = everything[:trained_on] if trained_on else everything
    given = given if kind == GRAPHS else {"num_partitions": lists, **given}
    model = train_model(sample, kind=kind, metric=metric, element=element, **given)
    return joined_view(model, [segment_of(model, rows, name=f"f{i}_0_1.parquet") for i, rows in enumerate(files)])


def rows_of(found: Candidates, query: int, starts: Sequence[int]) -> list[int]:
    """The candidates of a query, numbered across the files."""
    chosen = found.query == query
    return sorted((np.asarray(starts)[found.segment[chosen]] + found.position[chosen]).tolist())


def true_rows(values: np.ndarray[Any, Any], query: Any, metric: str, k: int, allowed: Any = None) -> set[int]:
    """The k nearest of the allowed rows, with all whose distance is the k-th."""
    distances = exact_distances(values, np.asarray(query, np.float64), metric)
    if allowed is not None:
        distances = np.where(allowed, distances, np.inf)
    among = len(values) if allowed is None else int(allowed.sum())
    if not among:
        return set()
    limit = np.partition(distances, min(k, among) - 1)[min(k, among) - 1]
    return set(np.flatnonzero((distances <= limit) & np.isfinite(distances)).tolist())
