"""The metrics: their names, and their exact distances by one fixed float64 reduction per row.

Formulas follow RFC-102 as Hudi 1.2 computes them: ``cosine`` is 1 − x·q / (|x||q|), clamped to [0, 2] and 1 for a
zero vector; ``l2`` is the root of the sum of squares; ``dot_product`` is −x·q, so that smaller is nearer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError

__all__ = ["METRICS", "exact_distances", "metric_named"]

Floats = npt.NDArray[np.float64]

METRICS = ("cosine", "l2", "dot_product")
_ALIASES = {"euclidean": "l2", "dot": "dot_product", "inner_product": "dot_product"}
_BLOCK_ELEMENTS = 1 << 18


def metric_named(name: Any) -> str:
    """The metric a name stands for.

    Args:
        name: A metric or an alias of one, in any case.

    Returns:
        ``"cosine"``, ``"l2"`` or ``"dot_product"``.

    Raises:
        InvalidArgumentError: There is no such metric.

    Example:
        >>> metric_named("Euclidean")
        'l2'
    """
    folded = name.strip().lower() if isinstance(name, str) else ""
    folded = _ALIASES.get(folded, folded)
    if folded not in METRICS:
        raise InvalidArgumentError(
            f"unknown metric {name!r}; give cosine, l2 (euclidean) or dot_product (dot, inner_product)"
        )
    return str(folded)


def exact_distances(rows: npt.NDArray[Any], query: Floats, metric: str) -> Floats:
    """The distances of rows to one query, each from its own row alone.

    The sum of every row runs over its elements in one fixed order, so that a row's distance is the same bits
    whatever other rows are beside it, on any number of threads.

    Args:
        rows: Vectors, shape (n, d), any numeric dtype.
        query: The query vector, shape (d,), or one for each row, shape (n, d); float64.
        metric: A name from `METRICS`.

    Returns:
        Distances, shape (n,), float64.

    Example:
        >>> exact_distances(np.array([[3.0, 4.0]]), np.array([0.0, 0.0]), "l2")
        array([5.])
    """
    out = np.empty(len(rows), np.float64)
    step = max(1, _BLOCK_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        block = np.ascontiguousarray(rows[start : start + step], dtype=np.float64)
        out[start : start + step] = _block(block, query if query.ndim == 1 else query[start : start + step], metric)
    return out


def _block(block: Floats, query: Floats, metric: str) -> Floats:
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        if metric == "l2":
            return _l2(block, query)
        if metric == "dot_product":
            return 0.0 - _dots(block, query)
        return _cosine(block, query)


def _row_sums(products: Floats) -> Floats:
    sums: Floats = np.add.reduce(products, axis=1)
    return sums


def _dots(block: Floats, query: Floats) -> Floats:
    sums = _row_sums(block * query)
    lost = ~np.isfinite(sums)
    if lost.any():
        # Products beyond float64's range may still sum to something within it.
        rows, row_scale = _unit_scaled(block[lost])
        ask, ask_scale = _unit_scaled(np.atleast_2d(query if query.ndim == 1 else query[lost]))
        sums[lost] = _row_sums(rows * ask) * row_scale * ask_scale
    return sums


def _l2(block: Floats, query: Floats) -> Floats:
    difference = block - query
    squares = _row_sums(difference * difference)
    lost = ~np.isfinite(squares) | ((squares < 1e-290) & (squares > 0)) | (squares == 0)
    distances = np.sqrt(squares)
    if lost.any():
        # Squares beyond float64's range: scale by the largest element first.
        scale = np.abs(difference[lost]).max(axis=1)
        safe = np.where((scale > 0) & np.isfinite(scale), scale, 1.0)
        scaled = difference[lost] / safe[:, None]
        distances[lost] = np.sqrt(_row_sums(scaled * scaled)) * safe
    return distances


def _cosine(block: Floats, query: Floats) -> Floats:
    norms = _row_sums(block * block)
    query_norm = _row_sums(np.atleast_2d(query * query))
    dots = _row_sums(block * query)
    similarity = dots / (np.sqrt(norms) * np.sqrt(query_norm))
    in_range = (norms >= 1e-290) & (query_norm >= 1e-290) & np.isfinite(norms) & np.isfinite(query_norm)
    odd = ~(in_range & np.isfinite(similarity))
    if odd.any():
        similarity[odd] = _scaled_cosine(block[odd], query if query.ndim == 1 else query[odd])
    distances: Floats = np.clip(1.0 - similarity, 0.0, 2.0)
    return distances


def _scaled_cosine(block: Floats, query: Floats) -> Floats:
    """Cosine similarity of rows whose squares leave float64's range; 0 where a vector is zero."""
    rows, row_scale = _unit_scaled(block)
    ask, ask_scale = _unit_scaled(np.atleast_2d(query))
    norms = np.sqrt(_row_sums(rows * rows)) * np.sqrt(_row_sums(ask * ask))
    zero = (row_scale == 0) | (ask_scale == 0)
    similarity: Floats = np.where(zero, 0.0, _row_sums(rows * ask) / np.where(zero, 1.0, norms))
    return similarity


def _unit_scaled(block: Floats) -> tuple[Floats, Floats]:
    scale = np.abs(block).max(axis=1, initial=0.0)
    return block / np.where(scale == 0, 1.0, scale)[:, None], scale
