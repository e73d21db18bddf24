"""Scalar quantisation: one byte per element, with a value range for each dimension."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["LEVELS", "decode", "encode", "ranges"]

Floats32 = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]

LEVELS = 255
"""The largest code."""


def ranges(sample: Floats64) -> tuple[Floats32, Floats32]:
    """Return the low end of each dimension and the width of one level, both float32 of shape (d,).

    `sample` has shape (n, d), n >= 1, with finite values within the range of float32. The width is 0 where all values
    are the same float32.

    Example:
        >>> low, scale = ranges(np.array([[0.0, 7.0], [255.0, 7.0]]))
        >>> low.tolist(), scale.tolist()
        ([0.0, 7.0], [1.0, 0.0])
    """
    least, most = sample.min(axis=0), sample.max(axis=0)
    low = least.astype(np.float32)
    constant = low == most.astype(np.float32)
    # The ends are rounded outwards so that every value of the sample is inside the range.
    low = np.where(~constant & (low > least), np.nextafter(low, np.float32(-np.inf)), low)
    exact = (most - low.astype(np.float64)) / LEVELS
    scale = exact.astype(np.float32)
    scale = np.where(scale < exact, np.nextafter(scale, np.float32(np.inf)), scale)
    return low, np.where(constant, np.float32(0), scale)


def encode(rows: Floats64, low: Floats32, scale: Floats32) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """Return the nearest codes, uint8 of shape (n, d), and a mask, shape (n,), of rows with an element out of range.

    `rows` holds finite vectors, shape (n, d); `low` and `scale` come from `ranges`.

    Example:
        >>> codes, clipped = encode(np.array([[3.2], [300.0]]), np.zeros(1, "f4"), np.ones(1, "f4"))
        >>> codes.tolist(), clipped.tolist()
        ([[3], [255]], [False, True])
    """
    constant = scale == 0
    levels = rows - low
    levels /= np.where(constant, np.float32(1), scale)
    np.rint(levels, out=levels)
    if constant.any():
        moved = rows[:, constant].astype(np.float32) != low[constant]
        levels[:, constant] = np.where(moved, -1, 0)
    clipped = (levels.min(axis=1, initial=0) < 0) | (levels.max(axis=1, initial=0) > LEVELS)
    if clipped.any():
        np.clip(levels, 0, LEVELS, out=levels)
    return levels.astype(np.uint8), clipped


def decode(codes: Codes, low: Floats32, scale: Floats32) -> Floats64:
    """Return the float64 vectors, shape (n, d), that codes stand for: ``low + scale · code``.

    `low` and `scale` come from `ranges`.

    Example:
        >>> decode(np.array([[2]], np.uint8), np.array([1.0], "f4"), np.array([0.5], "f4"))
        array([[2.]])
    """
    rows: Floats64 = codes.astype(np.float64)
    rows *= scale
    rows += low
    return rows
