"""Where the bytes of a Snappy block lie as they are.

Snappy finds nothing to compress in most vectors of floats, and stores them in a few long literals: then a row is a
range of the compressed bytes, and nothing needs to be decompressed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hudi_vector.read.parquet_values import Window

__all__ = ["Literals", "literals_of"]

Ints = npt.NDArray[np.int64]

_LITERAL = 0
_INLINE_LENGTHS = 60
_LONGEST_TAG = 5
# Snappy cuts its input into blocks of 64 KiB; two literals a block are few enough to be walked.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Literals:
    """The pieces of a block that was not compressed: where each begins in the plain bytes and where in the file.

    Both of shape (p,); `size` is the number of plain bytes.
    """

    plain: Ints
    place: Ints
    size: int

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        return self.plain.nbytes + self.place.nbytes + 128

    def ranges(self, begin: Ints, length: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Where ranges of plain bytes lie in the file; one that crosses from a piece to the next has several parts.

        Args:
            begin: Where each range begins in the plain bytes.
            length: The bytes of each range.

        Returns:
            For each part its range, where in the range it begins, where in the file, and its bytes.
        """
        ends = np.append(self.plain[1:], self.size)
        first = np.searchsorted(self.plain, begin, side="right") - 1
        last = np.searchsorted(self.plain, begin + length - 1, side="right") - 1
        counts = last - first + 1
        which = np.repeat(np.arange(len(begin)), counts)
        piece = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = np.maximum(begin[which], self.plain[piece])
        stop = np.minimum(begin[which] + length, ends[piece])
        return which, start - begin[which], self.place[piece] + start - self.plain[piece], stop - start


def literals_of(window: Window, begin: int, end: int, size: int) -> Literals | None:
    """The pieces of a Snappy block; only the few bytes before each piece are looked at.

    Args:
        window: The part of the file the block is in.
        begin: Where it begins in the file.
        end: Where it ends.
        size: How many plain bytes it has, as the file says.

    Returns:
        The pieces, or None where something is compressed, the pieces are many, or the block is damaged.

    Example:
        >>> literals_of(Window.over(bytes([3, 2 << 2]) + b"abc"), 0, 5, 3).place.tolist()
        [2]
    """
    at = _after_length(window, begin, end)
    plain: list[int] = []
    places: list[int] = []
    done = 0
    most = 2 * (size // _BLOCK + 1)
    while at < end:
        head = window.take(at, min(_LONGEST_TAG, end - at))
        if head[0] & 3 != _LITERAL or len(plain) == most:
            return None
        at += 1
        length = head[0] >> 2
        if length >= _INLINE_LENGTHS:
            width = length - _INLINE_LENGTHS + 1
            length = int.from_bytes(head[1 : 1 + width], "little")
            at += width
        plain.append(done)
        places.append(at)
        done += length + 1
        at += length + 1
    if done != size or at != end:
        return None
    return Literals(np.array(plain, np.int64), np.array(places, np.int64), size)


def _after_length(window: Window, begin: int, end: int) -> int:
    """Where the block's first piece begins: behind the number of its plain bytes."""
    head = window.take(begin, min(_LONGEST_TAG, end - begin))
    return next((begin + at + 1 for at, byte in enumerate(head) if byte < 0x80), end)
