"""Thrift's compact protocol, read: the structs that describe a Parquet file, as dictionaries by field number."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

__all__ = ["read_struct"]

_STOP, _TRUE, _FALSE = 0, 1, 2
_LONG_LIST = 15


def read_struct(data: bytes, begin: int = 0) -> tuple[dict[int, Any], int]:
    """Decode one struct.

    Args:
        data: Bytes that hold it, and may go on after it.
        begin: Where it begins.

    Returns:
        Its fields by number, those of inner structs too, and where it ends. Binary fields are bytes, lists and sets
        are lists, maps are dictionaries.

    Raises:
        EOFError: The bytes end before the struct does.
        ValueError: They are no struct of this protocol.

    Example:
        >>> read_struct(bytes([0x15, 0x06, 0x18, 2]) + b"ab" + bytes([0]))
        ({1: 3, 2: b'ab'}, 7)
    """
    reader = _Reader(data, begin)
    return reader.struct(), reader.at


class _Reader:
    """A place in some bytes that moves on as values are taken."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def struct(self) -> dict[int, Any]:
        """The fields of a struct, up to its stop byte."""
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self._byte()
            kind = head & 0x0F
            if kind == _STOP:
                return fields
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            # A boolean field has its value in the place of a type.
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)

    def _value(self, kind: int) -> Any:
        read = _READERS.get(kind)
        if read is None:
            raise ValueError(f"Thrift's compact protocol has no type {kind}")
        return read(self)

    def _byte(self) -> int:
        at = self.at
        if at >= len(self._data):
            raise EOFError
        self.at = at + 1
        return self._data[at]

    def _take(self, count: int) -> bytes:
        taken = self._data[self.at : self.at + count]
        if len(taken) < count:
            raise EOFError
        self.at += count
        return taken

    def _varint(self) -> int:
        byte = self._byte()
        value, shift = byte & 0x7F, 7
        while byte >= 0x80:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _binary(self) -> bytes:
        return self._take(self._varint())

    def _double(self) -> float:
        value: float = struct.unpack("<d", self._take(8))[0]
        return value

    def _list(self) -> list[Any]:
        head = self._byte()
        size = self._varint() if head >> 4 == _LONG_LIST else head >> 4
        return [self._value(head & 0x0F) for _ in range(size)]

    def _map(self) -> dict[Any, Any]:
        size = self._varint()
        if not size:
            return {}
        kinds = self._byte()
        return {self._value(kinds >> 4): self._value(kinds & 0x0F) for _ in range(size)}

    def _boolean(self) -> bool:
        return self._byte() == _TRUE


_READERS: dict[int, Callable[[_Reader], Any]] = {
    _TRUE: _Reader._boolean,
    _FALSE: _Reader._boolean,
    3: _Reader._byte,
    4: _Reader._zigzag,
    5: _Reader._zigzag,
    6: _Reader._zigzag,
    7: _Reader._double,
    8: _Reader._binary,
    9: _Reader._list,
    10: _Reader._list,
    11: _Reader._map,
    12: _Reader.struct,
}
