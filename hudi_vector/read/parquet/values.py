"""Decoders for the content of Parquet pages: run-length encoded integers and plain byte arrays."""

from __future__ import annotations

import struct
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["ByteSource", "Window", "plain_values", "run_lengths"]

Ints = npt.NDArray[np.int64]

_LENGTH = struct.Struct("<I")
_MOST_BITS = 70  # ten bytes of seven bits


class ByteSource(Protocol):
    """A source of bytes at offsets, like ``pyarrow.NativeFile``."""

    def read_at(self, count: int, offset: int, /) -> bytes:
        """Read up to `count` bytes at an offset."""
        ...


class Window:
    """A buffer over a part of a file that is read from start to end; gaps between the bytes taken are skipped.

    Nothing is read beyond the offset `end`; a read has at least `ahead` bytes, unless `end` cuts it.
    """

    def __init__(self, source: ByteSource, end: int, ahead: int) -> None:
        self._source: ByteSource | None = source
        self._ahead = ahead
        self._begin = 0
        self._held = memoryview(b"")
        self.end = end

    @classmethod
    def over(cls, data: Any) -> Window:
        """Make a window over all bytes of a buffer in memory."""
        window = cls.__new__(cls)
        window._source, window._ahead, window._begin = None, 0, 0
        window._held = memoryview(data).cast("B")  # Arrow buffers have signed bytes
        window.end = len(window._held)
        return window

    def take(self, begin: int, size: int) -> memoryview:
        """Return `size` bytes from the offset `begin` as a view; raise EOFError if they are not within the window."""
        if begin < 0 or size < 0 or begin + size > self.end:
            raise EOFError
        inside = begin - self._begin
        if inside < 0 or inside + size > len(self._held):
            self._read(begin, size)
            inside = 0
        return self._held[inside : inside + size]

    def _read(self, begin: int, size: int) -> None:
        assert self._source is not None
        inside = begin - self._begin
        # Bytes in the buffer are not read twice.
        kept = bytes(self._held[inside:]) if 0 <= inside < len(self._held) else b""
        at = begin + len(kept)
        read = self._source.read_at(min(max(size - len(kept), self._ahead), self.end - at), at)
        self._held, self._begin = memoryview(kept + read if kept else read), begin
        if len(self._held) < size:
            raise EOFError


def run_lengths(data: bytes | memoryview, width: int, count: int) -> npt.NDArray[np.int32]:
    """Decode `count` integers of Parquet's hybrid of run lengths and bit packing; return shape (count,).

    Levels and dictionary indices are stored in this encoding. `data` begins with the first run, not with a length, and
    may have more bytes than needed; `width` is the number of bits of an integer, 0 to 32. Raises EOFError if there are
    fewer than `count` integers.

    Example:
        >>> run_lengths(bytes([6, 1, 3, 0b00000101]), 1, 6).tolist()
        [1, 1, 1, 1, 0, 1]
    """
    numbers = np.zeros(count, np.int32)
    if width == 0:
        return numbers
    done = at = 0
    while done < count:
        head, at = _varint(data, at)
        if head & 1:
            size = (head >> 1) * width
            packed = np.frombuffer(data[at : at + size], np.uint8)
            found = _unpacked(packed[: len(packed) // width * width], width)[: count - done]
            if not len(found):
                raise EOFError
            numbers[done : done + len(found)] = found
            done += len(found)
        else:
            size, times = -(-width // 8), head >> 1
            if not times or at + size > len(data):
                raise EOFError
            numbers[done : done + times] = np.int64(int.from_bytes(data[at : at + size], "little")).astype(np.int32)
            done += times
        at += size
    return numbers


def plain_values(window: Window, begin: int, count: int) -> tuple[Ints, Ints]:
    r"""Return begins and lengths, both of shape (count,), of plain byte arrays that each follow a four-byte length.

    The first length is at `begin`; long byte arrays are skipped without reading them. Raises EOFError if the window
    ends before the last byte array does.

    Example:
        >>> data = b"\x02\0\0\0ab\0\0\0\0"
        >>> plain_values(Window.over(data), 0, 2)
        (array([ 4, 10]), array([2, 0]))
    """
    if begin + 4 * count > window.end:  # checked before memory is allocated for them
        raise EOFError
    begins, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
    take, unpack = window.take, _LENGTH.unpack
    at = begin
    for i in range(count):
        (size,) = unpack(take(at, 4))
        begins[i], sizes[i] = at + 4, size
        at += 4 + size
    if at > window.end:
        raise EOFError
    return begins, sizes


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise EOFError
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number has more than 64 bits")


def _unpacked(packed: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.int32]:
    """Unpack integers of `width` bits, packed from the lowest bit of the first byte on."""
    bits = np.unpackbits(packed, bitorder="little").reshape(-1, width)
    powers = np.int64(1) << np.arange(width, dtype=np.int64)
    numbers: npt.NDArray[np.int32] = (bits @ powers).astype(np.int32)
    return numbers
