"""A random rotation of vectors that depends on their dimension only, so that it need not be stored.

It is made of changes of sign and of Hadamard transforms of the first and of the last elements, as many as the largest
power of two that fits. The signs come from a hash, so that every machine rotates alike but for rounding.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["rotated"]

Floats64 = npt.NDArray[np.float64]

_ROUNDS = 4
_MOST_AT_ONCE = 5
"""The power of two of the largest Hadamard matrix that vectors are multiplied with; larger ones are products of it."""
_BLOCK_ELEMENTS = 1 << 18


def rotated(rows: Floats64) -> Floats64:
    """Return rotated vectors, float64 of shape (n, d): lengths and products are kept but for rounding.

    `rows` has shape (n, d) with d at least 1. Vectors of any form have, once rotated, elements like random numbers of
    one variance.

    Example:
        >>> turned = rotated(np.eye(3))
        >>> bool(np.allclose(turned @ turned.T, np.eye(3)))
        True
    """
    dimension = rows.shape[1]
    power = dimension.bit_length() - 1
    signs = _signs(dimension)
    made = np.empty(rows.shape)
    step = max(1, _BLOCK_ELEMENTS // dimension)
    for start in range(0, len(rows), step):
        part = rows[start : start + step].copy()
        for number, sign in enumerate(signs):
            part *= sign
            begin = 0 if number % 2 == 0 else dimension - (1 << power)
            within = slice(begin, begin + (1 << power))
            part[:, within] = _transformed(part[:, within], power)
        made[start : start + step] = part
    return made


def _transformed(rows: Floats64, power: int) -> Floats64:
    """Return the Hadamard transform of vectors of 2^power elements, in another order; it keeps their lengths."""
    left = power
    while left:
        own = min(left, _MOST_AT_ONCE)
        left -= own
        parts = (rows.reshape(-1, 1 << own) @ _hadamard(own)).reshape(len(rows), rows.shape[1] >> own, 1 << own)
        # The elements that are left to transform come last, so that one product transforms them too.
        rows = parts.swapaxes(1, 2).reshape(rows.shape)
    return rows


@lru_cache(maxsize=_MOST_AT_ONCE)
def _hadamard(power: int) -> Floats64:
    """Return the Hadamard matrix of 2^power rows, of length 1 each; it is symmetric."""
    matrix = np.ones((1, 1))
    for _ in range(power):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix /= np.sqrt(len(matrix))
    return matrix


@lru_cache(maxsize=16)
def _signs(dimension: int) -> Floats64:
    """Return the signs of each round, -1 or 1, shape (rounds, d)."""
    content = hashlib.shake_128(f"hudi_vector rotation {dimension}".encode()).digest(-(-_ROUNDS * dimension // 8))
    bits = np.unpackbits(np.frombuffer(content, np.uint8))[: _ROUNDS * dimension].reshape(_ROUNDS, dimension)
    return bits.astype(np.float64) * 2 - 1
