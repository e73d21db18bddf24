"""What Parquet pages hold, decoded: numbers in runs, and byte arrays one after the other."""

from __future__ import annotations

import struct
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["ByteSource", "Window", "plain_values", "run_lengths"]

Ints = npt.NDArray[np.int64]

_LENGTH = struct.Struct("<I")
_MOST_BITS = 70  # ten bytes of seven


class ByteSource(Protocol):
    """Bytes at places, as ``pyarrow.NativeFile`` gives them."""

    def read_at(self, count: int, offset: int, /) -> bytes:
        """Up to a number of bytes from a place."""
        ...


class Window:
    """A part of a file that is gone through from its start to its end, in reads of some size; gaps are skipped.

    Args:
        source: The file.
        end: Where the part ends; nothing beyond is read.
        ahead: The fewest bytes of one read.
    """

    def __init__(self, source: ByteSource, end: int, ahead: int) -> None:
        self._source: ByteSource | None = source
        self._ahead = ahead
        self._begin = 0
        self._held = memoryview(b"")
        self.end = end

    @classmethod
    def over(cls, data: Any) -> Window:
        """All of some bytes that are in memory already."""
        window = cls.__new__(cls)
        window._source, window._ahead, window._begin = None, 0, 0
        window._held = memoryview(data).cast("B")  # Arrow's are of signed bytes
        window.end = len(window._held)
        return window

    def take(self, begin: int, size: int) -> memoryview:
        """Some bytes.

        Raises:
            EOFError: The part of the file ends before.
        """
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
        # What is held already is not read twice.
        kept = bytes(self._held[inside:]) if 0 <= inside < len(self._held) else b""
        at = begin + len(kept)
        read = self._source.read_at(min(max(size - len(kept), self._ahead), self.end - at), at)
        self._held, self._begin = memoryview(kept + read if kept else read), begin
        if len(self._held) < size:
            raise EOFError


def run_lengths(data: bytes | memoryview, width: int, count: int) -> npt.NDArray[np.int32]:
    """Decode the hybrid of run lengths and bit packing, in which levels and dictionary indices are stored.

    Args:
        data: The runs, without a length before them; bytes may follow.
        width: Bits of one number, 0 to 32.
        count: How many numbers there are.

    Returns:
        The numbers, shape (count,).

    Raises:
        EOFError: There are fewer.

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
    r"""Find byte arrays that are stored plainly, each behind its length in four bytes.

    Args:
        window: What they are in; the bytes of long ones are not read.
        begin: Where the first length is.
        count: How many byte arrays there are.

    Returns:
        Where each one's bytes begin and how many they are, both of shape (count,).

    Raises:
        EOFError: The window ends before the last one does.

    Example:
        >>> data = b"\x02\0\0\0ab\0\0\0\0"
        >>> plain_values(Window.over(data), 0, 2)
        (array([ 4, 10]), array([2, 0]))
    """
    if begin + 4 * count > window.end:  # before memory is taken for them
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
    """Numbers packed from the lowest bit of the first byte on."""
    bits = np.unpackbits(packed, bitorder="little").reshape(-1, width)
    powers = np.int64(1) << np.arange(width, dtype=np.int64)
    numbers: npt.NDArray[np.int32] = (bits @ powers).astype(np.int32)
    return numbers
