"""Product quantisation: vectors cut into parts, each replaced by the number of an entry of a codebook.

Codes are packed as in faiss: a part takes one byte with 8 bits and half a byte with 4 bits; the first of two parts is
in the lower half.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["BITS", "code_bytes", "decode", "usual_parts"]

Floats32 = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]

BITS = (8, 4)
"""The allowed numbers of bits in the code of a part, the usual one first."""


def code_bytes(parts: int, bits: int) -> int:
    """Return the size in bytes of a vector's code, with `bits` bits for each part.

    Example:
        >>> code_bytes(32, 8), code_bytes(3, 4)
        (32, 2)
    """
    return (parts * bits + 7) // 8


def usual_parts(dimension: int, bits: int) -> int:
    """Return a number of parts that divides the dimension and gives codes of about two bits per element.

    Example:
        >>> usual_parts(128, 8), usual_parts(128, 4), usual_parts(17, 8)
        (32, 64, 17)
    """
    wanted = max(1, 2 * dimension // bits)
    return next(parts for parts in range(wanted, dimension + 1) if dimension % parts == 0)


def decode(codes: Codes, codebook: Floats32) -> Floats32:
    """Return the vectors, shape (n, parts · elements of a part), that codes of shape (n, bytes) stand for.

    `codebook` has shape (parts, 2^bits, elements of a part).

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
