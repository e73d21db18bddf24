"""Product quantisation: vectors cut into parts, each part one of a few that a codebook lists.

Codes lie as faiss lays them: 8 bits a part fill a byte, 4 bits half of one, the first part in the lower half.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["BITS", "code_bytes", "decode", "usual_parts"]

Floats32 = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]

BITS = (4, 8)
"""How many bits the code of a part may have."""


def code_bytes(parts: int, bits: int) -> int:
    """How many bytes the code of a vector has.

    Args:
        parts: Parts of a vector.
        bits: Bits of a part's code.

    Example:
        >>> code_bytes(32, 8), code_bytes(3, 4)
        (32, 2)
    """
    return (parts * bits + 7) // 8


def usual_parts(dimension: int, bits: int) -> int:
    """How many parts make codes of about two bits for each element; a number that divides the dimension.

    Args:
        dimension: Elements of a vector.
        bits: Bits of a part's code.

    Example:
        >>> usual_parts(128, 8), usual_parts(128, 4), usual_parts(17, 8)
        (32, 64, 17)
    """
    wanted = max(1, 2 * dimension // bits)
    return next(parts for parts in range(wanted, dimension + 1) if dimension % parts == 0)


def decode(codes: Codes, codebook: Floats32) -> Floats32:
    """The vectors that codes stand for.

    Args:
        codes: Codes, shape (n, bytes).
        codebook: What each code of each part stands for, shape (parts, 2^bits, elements of a part).

    Returns:
        Vectors, shape (n, parts · elements of a part).

    Example:
        >>> decode(np.array([[1, 0]], np.uint8), np.arange(4, dtype=np.float32).reshape(2, 2, 1))
        array([[1., 2.]], dtype=float32)
    """
    parts, choices, elements = codebook.shape
    if choices <= 16 and codes.shape[1] < parts:
        codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), 2 * codes.shape[1])[:, :parts]
    which = codes + np.arange(0, parts * choices, choices, dtype=np.int32)
    rows: Floats32 = codebook.reshape(-1, elements).take(which, axis=0).reshape(len(codes), parts * elements)
    return rows
