"""The literals of a Snappy block: pieces of the plain bytes that are stored unchanged.

Snappy finds nothing to compress in most vectors of floats and stores them in a few long literals. Then a row is a range
of the compressed bytes, and nothing needs to be decompressed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hudi_vector.read.parquet.pages import PageHeader
from hudi_vector.read.parquet.values import Window

__all__ = ["Literals", "literals_of", "page_literals", "ranges_of"]

Ints = npt.NDArray[np.int64]

_LITERAL = 0
_INLINE_LENGTHS = 60
_LONGEST_TAG = 5
_BLOCK_BITS = 32  # a compressed page has fewer than 2**32 plain bytes
# Snappy compresses its input in fragments of 64 KiB. More than two literals per fragment are too many to follow.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Literals:
    """The literals, p in number, of a Snappy block that consists of nothing else.

    Attributes:
        plain: Where each literal begins in the plain bytes, shape (p,).
        place: Where each literal begins in the file, shape (p,).
        length: The bytes of each literal, shape (p,).
        size: The number of plain bytes of the block.
    """

    plain: Ints
    place: Ints
    length: Ints
    size: int

    @classmethod
    def at(cls, place: Ints, length: Ints) -> Literals:
        """Return the literals that begin at these places in the file and have so many bytes.

        Example:
            >>> Literals.at(np.array([10, 16]), np.array([4, 4])).plain.tolist()
            [0, 4]
        """
        ends = np.cumsum(length)
        return cls(ends - length, place, length, int(ends[-1]))

    @property
    def nbytes(self) -> int:
        """Return the approximate size in memory in bytes."""
        return 3 * self.plain.nbytes + 256

    def parts_of(self, begin: int, length: int) -> list[tuple[int, int]]:
        """Return the place in the file and the bytes of each part of the plain bytes from `begin`, which are all there.

        Example:
            >>> Literals(np.array([0, 4]), np.array([10, 16]), np.array([4, 4]), 8).parts_of(3, 3)
            [(13, 1), (16, 2)]
        """
        if begin < 0:
            raise ValueError("a page is shorter than its rows")
        piece, found = bisect_right(self.plain, begin) - 1, []
        while length:
            inside = begin - int(self.plain[piece])
            size = min(length, int(self.length[piece]) - inside)
            found.append((int(self.place[piece]) + inside, size))
            begin, length, piece = begin + size, length - size, piece + 1
        return found


def ranges_of(blocks: Sequence[Literals], block: Ints, begin: Ints, length: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Find ranges of plain bytes, all of the same length, in the file.

    `block` holds the number of each range's block, `begin` where the range begins in the plain bytes of that block. A
    range over several literals has several parts. Return for each part the number of its range, its begin in the range,
    its begin in the file, and its length. There must be at least one block.
    """
    # The plain bytes of all blocks share one number line, so that one search serves all ranges.
    plain = np.concatenate([found.plain + (number << _BLOCK_BITS) for number, found in enumerate(blocks)])
    place = np.concatenate([found.place for found in blocks])
    ends = plain + np.concatenate([found.length for found in blocks])
    begin = begin + (block << _BLOCK_BITS)
    first = np.searchsorted(plain, begin, side="right") - 1
    counts = np.searchsorted(plain, begin + length - 1, side="right") - first
    if (counts == 1).all():
        whole = np.arange(len(begin))
        return whole, np.zeros_like(whole), place[first] + begin - plain[first], np.full(len(begin), length)
    which = np.repeat(np.arange(len(begin)), counts)
    piece = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.maximum(begin[which], plain[piece])
    stop = np.minimum(begin[which] + length, ends[piece])
    return which, start - begin[which], place[piece] + start - plain[piece], stop - start


def page_literals(window: Window, header: PageHeader, rows: int, width: int) -> Literals | None:
    """Return the literals of a compressed page of so many vectors of `width` bytes, or None as `literals_of` does.

    Raises ValueError if the page is shorter than its rows.
    """
    if not header.compressed:
        return None
    levels = header.repeat_bytes + (header.level_bytes or 0)
    begin, size = header.body + levels, header.plain_size - levels
    if header.values != rows or rows * width > size:
        raise ValueError("a page is shorter than its rows")
    return literals_of(window, begin, header.end, size)


def literals_of(window: Window, begin: int, end: int, size: int) -> Literals | None:
    """Return the literals of the Snappy block from `begin` to `end` in the file; read only the bytes before each one.

    `size` is the number of plain bytes by the page header. Return None if something is compressed, if there are too
    many literals, or if the block is damaged.

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
    begins = np.array(plain, np.int64)
    return Literals(begins, np.array(places, np.int64), np.diff(begins, append=done), size)


def _after_length(window: Window, begin: int, end: int) -> int:
    """Return where the first element of a block begins: after the varint with the number of plain bytes."""
    head = window.take(begin, min(_LONGEST_TAG, end - begin))
    return next((begin + at + 1 for at, byte in enumerate(head) if byte < 0x80), end)
