"""k-means clustering of a sample of vectors, in plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError, number_of

__all__ = ["nearest", "train"]

Floats = npt.NDArray[np.float32]

_BLOCK_ELEMENTS = 1 << 20


def train(sample: npt.NDArray[Any], clusters: int, *, iterations: int = 8, seed: int = 0) -> Floats:
    """Return cluster centres, float32 of shape (clusters, d), by Lloyd's algorithm with random rows as initial centres.

    Neighbouring centres are similar. `sample` holds finite vectors, shape (n, d). `iterations` is a maximum: the
    algorithm stops once no row changes its cluster. `seed` selects the initial rows and the rows that replace the
    centre of an empty cluster; the same sample and seed give the same centres on one machine. Raises
    InvalidArgumentError unless 1 <= clusters <= n.

    Example:
        >>> train(np.array([[0.0], [1.0], [10.0], [11.0]]), 2).sum()
        np.float32(11.0)
    """
    rows = np.ascontiguousarray(sample, np.float32)
    if not 1 <= clusters <= len(rows):
        raise InvalidArgumentError(
            f"{number_of(len(rows), 'vector makes', 'vectors make')} no {number_of(clusters, 'cluster')}; give 1 to "
            "as many as vectors"
        )
    chance = np.random.default_rng(seed)
    centres = rows[chance.choice(len(rows), clusters, replace=False)]
    before = None
    for _ in range(iterations):
        label = nearest(rows, centres)
        if before is not None and np.array_equal(label, before):
            break
        before = label
        centres = _means(rows, label, clusters, chance)
    return centres[_chain(centres)]


def nearest(rows: npt.NDArray[Any], centres: Floats) -> npt.NDArray[np.int32]:
    """Return the index of each row's nearest centre, int32 of shape (n,); the first centre wins a tie.

    `rows` has shape (n, d) and `centres` (k, d); distances are squared L2.

    Example:
        >>> nearest(np.array([[0.0], [9.0]]), np.array([[10.0], [1.0]], np.float32)).tolist()
        [1, 0]
    """
    squares = np.einsum("ij,ij->i", centres, centres)
    weights = -2 * centres.T
    found = np.empty(len(rows), np.int32)
    step = max(64, _BLOCK_ELEMENTS // max(len(centres), 1))
    for start in range(0, len(rows), step):
        # |row|² is left out: it is the same for all centres.
        ranks = np.asarray(rows[start : start + step], np.float32) @ weights
        ranks += squares
        found[start : start + step] = np.argmin(ranks, axis=1)
    return found


def _means(rows: Floats, label: npt.NDArray[np.int32], clusters: int, chance: np.random.Generator) -> Floats:
    """Return the mean of each cluster's rows; an empty cluster gets a random row."""
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=clusters))
    centres = rows[chance.integers(0, len(rows), clusters)]
    # Not `reduceat`, which adds up long rows eight times slower.
    for centre, own in zip(centres, np.split(order, ends[:-1]), strict=True):
        if len(own):
            centre[:] = rows[own].mean(axis=0, dtype=np.float64)
    return centres


def _chain(centres: Floats) -> npt.NDArray[np.intp]:
    """Return an order of centres: the one farthest from their mean, then always the nearest of those that are left.

    Lists of an index are stored in this order, so that those that one query probes often lie side by side.
    """
    left = centres.astype(np.float64)
    left -= left.mean(axis=0)
    squares = np.einsum("ij,ij->i", left, left)
    order = np.empty(len(left), np.intp)
    at = int(np.argmax(squares))
    for place in range(len(left)):
        order[place] = at
        squares[at] = np.inf
        at = int(np.argmin(squares - 2 * (left @ left[at])))
    return order
