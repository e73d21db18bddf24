"""Computation of how many bytes of a file are covered by ranges that may overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["covered_bytes"]

Ints = npt.NDArray[np.int64]


def covered_bytes(file: Ints, begin: Ints, end: Ints, files: int) -> Ints:
    """Return how many bytes of each file lie in at least one range, shape (files,), int64.

    `file` is the number of each range's file, from 0; `begin` its first byte; `end` the byte after its last one, not
    before `begin`.

    Example:
        >>> covered_bytes(np.array([0, 0, 1]), np.array([0, 3, 7]), np.array([5, 9, 7]), 2).tolist()
        [9, 0]
    """
    place = np.concatenate([begin, end]).astype(np.int64)
    step = np.repeat(np.array([1, -1], np.int64), len(begin))
    number = np.concatenate([file, file])
    order = np.lexsort((place, number))
    place, number = place[order], number[order]
    # All ranges of a file are closed after its last position, so the step to the next file never counts.
    is_open = np.cumsum(step[order]) > 0
    covered = np.zeros(files, np.int64)
    np.add.at(covered, number, np.where(is_open, np.diff(place, append=0), 0))
    return covered
