"""Quantisation by RaBitQ: one, two or four bits for each element of a rotated vector, and two numbers for each vector.

A code is an angle and a length: the elements of the grid vector v are odd whole numbers from -(2^bits - 1) to
2^bits - 1, and it means the vector of length n/t in the direction of v, where n is the length of the coded vector
x and t the cosine between v and x. The product of that vector with x is then |x|², so what it lacks of x is at right
angles to x, and its product with a query is right on average over the rotations of both (Gao and Long, 2024).

A code begins with n as the upper sixteen bits of a float32 without its sign, rounded up, and √(1 - t) in 255 steps,
rounded up too. The elements follow, the first in the lowest bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["BITS", "Decoded", "code_bytes", "decode", "encode", "is_sound", "products", "tables"]

Floats32 = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]

BITS = (1, 2, 4)
"""The allowed numbers of bits in the code of an element, the usual one first."""
_WIDTHS = {1: (1.0,), 2: (0.85, 1.0, 1.15), 4: (0.28, 0.33, 0.39)}
"""The widths of a level that are tried, in standard deviations; about those that suit normally distributed elements."""
_NUMBERS = 3  # bytes of a code before its elements
_STEPS = 255
_COSINES = 1 - (np.arange(_STEPS + 1) / _STEPS) ** 2
_MOST_LENGTH = 0xB400
"""The two bytes of 2^53, which no coded vector is as long as."""
_ROUNDED_UP = 2.0**-16
"""The largest error of n², relative to it, that the rounding of n to sixteen bits adds to a code's squared error."""


@dataclass(frozen=True)
class Decoded:
    """The vectors that codes stand for, float32 of shape (n, d), and their distances from the coded ones, at most."""

    rows: Floats32
    error: Floats64


def code_bytes(dimension: int, bits: int) -> int:
    """Return the size in bytes of a vector's code, with `bits` bits for each element.

    Example:
        >>> code_bytes(128, 1), code_bytes(3, 4)
        (19, 5)
    """
    return _NUMBERS + (dimension * bits + 7) // 8


def encode(rows: Floats64, bits: int) -> Codes:
    """Return the codes of vectors, shape (n, bytes), for vectors of shape (n, d), rotated and shorter than 2^53.

    Example:
        >>> encode(np.array([[3.0, -4.0]]), 1).tolist()
        [[64, 129, 26, 1]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    levels, cosines = _levels(rows, lengths, bits)
    short = lengths.astype(np.float32)
    short = np.where(short < lengths, np.nextafter(short, np.float32(np.inf)), short)
    upper = (short.view(np.uint32) + np.uint32((1 << 15) - 1)) >> np.uint32(15)
    lost = np.sqrt(np.maximum(1 - cosines * (1 - 1e-12), 0.0))
    steps = np.minimum(np.ceil(lost * _STEPS), _STEPS - 1)
    numbers = np.stack([upper & 255, upper >> 8, np.where(lengths > 0, steps, 0)], axis=1)
    return np.concatenate([numbers.astype(np.uint8), _packed(levels, bits)], axis=1)


def decode(codes: Codes, dimension: int, bits: int) -> Decoded:
    """Return the vectors that codes of shape (n, bytes) stand for, and how far the coded ones are from them at most.

    Of more than 16,320 elements a vector may be further: a code tells no cosine below 1/√16,320. The builder of an
    index compares, and gives such a vector no code.

    Example:
        >>> found = decode(encode(np.array([[3.0, -4.0]]), 1), 2, 1)
        >>> found.rows.astype(float).round(1).tolist(), float(found.error[0].round(1))
        ([[3.6, -3.6]], 0.7)
    """
    bytes_ = codes[:, _NUMBERS:]
    values = _values(bits).take(bytes_, axis=0).reshape(len(codes), bytes_.shape[1] * 8 // bits)[:, :dimension]
    length, cosine = _numbers(codes)
    squares = np.einsum("ij,ij->i", values, values, dtype=np.float64) if bits > 1 else float(dimension)
    gain = (length / (cosine * np.sqrt(squares))).astype(np.float32)
    return Decoded(values * gain[:, None], length * np.sqrt(1 / cosine**2 - 1 + _ROUNDED_UP))


def tables(weights: Floats32) -> Floats32:
    """Return the product of weights, shape (d,), with each byte of grid vectors of one bit, shape (bytes, 256).

    Example:
        >>> tables(np.array([1.0, 10.0], np.float32))[0, :4].tolist()
        [-11.0, -9.0, 9.0, 11.0]
    """
    padded = np.zeros(-(-len(weights) // 8) * 8, np.float32)
    padded[: len(weights)] = weights
    made: Floats32 = padded.reshape(-1, 8) @ _values(1).T
    return made


def products(codes: Codes, of_bytes: Floats32, dimension: int) -> Floats32:
    """Return the products of weights with the vectors that codes of one bit stand for, shape (n,).

    `of_bytes` are the `tables` of the weights. The vectors are not decoded, which takes a fraction of the time.

    Example:
        >>> code = encode(np.array([[3.0, -4.0]]), 1)
        >>> products(code, tables(np.array([1.0, 0.0], np.float32)), 2).astype(float).round(1).tolist()
        [3.6]
    """
    found = np.zeros(len(codes), np.float32)
    by_byte = np.ascontiguousarray(codes[:, _NUMBERS:].T)
    for table, own in zip(of_bytes, by_byte, strict=True):
        found += table.take(own)
    length, cosine = _numbers(codes)
    found *= (length / (cosine * np.sqrt(float(dimension)))).astype(np.float32)
    return found


def is_sound(codes: Codes) -> bool:
    """Return True if the numbers of codes, which anyone may have written, are finite.

    Example:
        >>> is_sound(encode(np.array([[3.0, -4.0]]), 1)), is_sound(np.full((1, 4), 255, np.uint8))
        (True, False)
    """
    return bool((_upper(codes) <= _MOST_LENGTH).all() and (codes[:, 2] < _STEPS).all())


def _upper(codes: Codes) -> npt.NDArray[np.uint32]:
    """Return the upper sixteen bits of the lengths."""
    upper: npt.NDArray[np.uint32] = codes[:, 0].astype(np.uint32) | codes[:, 1].astype(np.uint32) << np.uint32(8)
    return upper


def _numbers(codes: Codes) -> tuple[Floats64, Floats64]:
    """Return the lengths of the coded vectors, and their cosines with the grid vectors."""
    length = (_upper(codes) << np.uint32(15)).view(np.float32)
    return length.astype(np.float64), _COSINES[codes[:, 2]]


def _levels(rows: Floats64, lengths: Floats64, bits: int) -> tuple[Codes, Floats64]:
    """Return the levels of elements from 0 to 2^bits - 1, and the cosine of each row with its grid vector."""
    most = (1 << bits) - 1
    deviation = np.where(lengths > 0, lengths / np.sqrt(rows.shape[1]), 1.0)
    best, cosines = np.zeros(rows.shape, np.uint8), np.full(len(rows), -1.0)
    for width in _WIDTHS[bits]:
        levels = np.floor(rows / (deviation * width)[:, None])
        levels += (most + 1) // 2
        np.clip(levels, 0, most, out=levels)
        grid = 2 * levels - most
        cosine = np.einsum("ij,ij->i", grid, rows)
        cosine /= np.sqrt(np.einsum("ij,ij->i", grid, grid)) * np.where(lengths > 0, lengths, 1.0)
        better = cosine > cosines
        best[better], cosines[better] = levels[better].astype(np.uint8), cosine[better]
    return best, cosines


def _packed(levels: Codes, bits: int) -> Codes:
    """Return levels in as many bits each, the first in the lowest bits of a byte."""
    own, (rows, elements) = 8 // bits, levels.shape
    size = -(-elements // own)
    padded = np.zeros((rows, size * own), np.uint8)
    padded[:, :elements] = levels
    shifted = padded.reshape(rows, size, own) << np.arange(0, 8, bits, dtype=np.uint8)
    packed: Codes = np.bitwise_or.reduce(shifted, axis=2)
    return packed


@lru_cache(maxsize=len(BITS))
def _values(bits: int) -> Floats32:
    """Return the elements of a grid vector that each byte has, shape (256, elements of a byte)."""
    levels = np.arange(256)[:, None] >> np.arange(0, 8, bits) & (1 << bits) - 1
    return (2 * levels - (1 << bits) + 1).astype(np.float32)
