"""k-means on a sample: a coarse division of vectors, by numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError

__all__ = ["nearest", "train"]

Floats = npt.NDArray[np.float32]

_BLOCK_ELEMENTS = 1 << 20


def train(sample: npt.NDArray[Any], clusters: int, *, iterations: int = 8, seed: int = 0) -> Floats:
    """Find the centres of clusters, by Lloyd's iterations from random rows.

    The same sample and seed give the same centres on one machine.

    Args:
        sample: Vectors, shape (n, d), finite; n at least as many as clusters.
        clusters: How many centres.
        iterations: How often the centres are moved, at most; fewer if none moves any more.
        seed: Chooses the rows to begin with, and those that replace a centre to which nothing is near.

    Returns:
        The centres, float32, shape (clusters, d).

    Raises:
        InvalidArgumentError: There are fewer vectors than clusters, or no clusters.

    Example:
        >>> train(np.array([[0.0], [1.0], [10.0], [11.0]]), 2).sum()
        np.float32(11.0)
    """
    rows = np.ascontiguousarray(sample, np.float32)
    if not 1 <= clusters <= len(rows):
        raise InvalidArgumentError(f"{len(rows)} vectors make no {clusters} clusters; give 1 to as many as vectors")
    chance = np.random.default_rng(seed)
    centres = rows[chance.choice(len(rows), clusters, replace=False)]
    before = None
    for _ in range(iterations):
        label = nearest(rows, centres)
        if before is not None and np.array_equal(label, before):
            break
        before = label
        centres = _means(rows, label, clusters, chance)
    return centres


def nearest(rows: npt.NDArray[Any], centres: Floats) -> npt.NDArray[np.int32]:
    """The nearest centre of each vector, by squared distance; the first of equally near ones.

    Args:
        rows: Vectors, shape (n, d).
        centres: Centres, shape (k, d).

    Returns:
        Places among the centres, int32, shape (n,).

    Example:
        >>> nearest(np.array([[0.0], [9.0]]), np.array([[10.0], [1.0]], np.float32)).tolist()
        [1, 0]
    """
    squares = np.einsum("ij,ij->i", centres, centres)
    weights = -2 * centres.T
    found = np.empty(len(rows), np.int32)
    step = max(64, _BLOCK_ELEMENTS // max(len(centres), 1))
    for start in range(0, len(rows), step):
        # |row|² is the same for all centres of a row and is left out.
        ranks = np.asarray(rows[start : start + step], np.float32) @ weights
        ranks += squares
        found[start : start + step] = np.argmin(ranks, axis=1)
    return found


def _means(rows: Floats, label: npt.NDArray[np.int32], clusters: int, chance: np.random.Generator) -> Floats:
    """The mean of the rows of each cluster; a random row where there are none."""
    order = np.argsort(label, kind="stable")
    count = np.bincount(label, minlength=clusters)
    filled = np.flatnonzero(count)
    starts = (np.cumsum(count) - count)[filled]
    centres = rows[chance.integers(0, len(rows), clusters)]
    sums = np.add.reduceat(rows[order], starts, axis=0, dtype=np.float64)
    centres[filled] = sums / count[filled, None]
    return centres
