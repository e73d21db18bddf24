"""Thrift's compact protocol, in which Parquet metadata is stored: structs are dictionaries by field number."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "STRUCT",
    "Written",
    "binary",
    "fields_of",
    "i32",
    "i64",
    "list_of_structs",
    "listed",
    "read_struct",
    "struct_of",
    "structs_in",
]

_STOP, _TRUE, _FALSE = 0, 1, 2
_LONG_LIST = 15
_LIST = 9
_MOST_BITS = 70  # ten bytes of seven bits
STRUCT = 12
"""The type number of structs."""


def read_struct(data: bytes, begin: int = 0) -> tuple[dict[int, Any], int]:
    """Decode the struct that begins at `begin`; return its fields by number and the offset where it ends.

    Inner structs are dictionaries by field number too, binary fields are bytes, lists and sets are lists, maps are
    dictionaries. More bytes may follow the struct. Raises EOFError if the bytes end before the struct does, and
    ValueError if they are not a struct of this protocol.

    Example:
        >>> read_struct(bytes([0x15, 0x06, 0x18, 2]) + b"ab" + bytes([0]))
        ({1: 3, 2: b'ab'}, 7)
    """
    reader = _Reader(data, begin)
    try:
        return reader.struct(), reader.at
    except RecursionError:
        raise ValueError("structs are nested deeper than any file needs") from None


def list_of_structs(data: bytes, number: int) -> list[bytes]:
    """Return the encoded structs of a list that is field `number` of the struct `data`; none if the field is missing.

    Raises EOFError if the bytes end before the list does, and ValueError if they are not a struct of this protocol.

    Example:
        >>> inner = struct_of({1: i32(3)})
        >>> list_of_structs(struct_of({2: listed([inner, inner])}).data, 2) == [inner.data, inner.data]
        True
    """
    try:
        return _Reader(data, 0).structs(number)
    except RecursionError:
        raise ValueError("structs are nested deeper than any file needs") from None


def structs_in(values: Written) -> list[bytes]:
    """Return the encoded structs of an encoded list of structs.

    Example:
        >>> inner = struct_of({1: i32(3)})
        >>> structs_in(listed([inner, inner])) == [inner.data, inner.data]
        True
    """
    return _Reader(values.data, 0).struct_list()


def fields_of(data: bytes) -> dict[int, Written]:
    """Return the fields of the struct that begins `data`, each still encoded, by number.

    Raises EOFError if the bytes end before the struct does, and ValueError if they are not a struct of this protocol.

    Example:
        >>> fields_of(struct_of({1: i32(3), 4: i64(8)}).data)[4] == i64(8)
        True
    """
    try:
        return _Reader(data, 0).encoded()
    except RecursionError:
        raise ValueError("structs are nested deeper than any file needs") from None


@dataclass(frozen=True)
class Written:
    """An encoded value: its type number and its bytes."""

    kind: int
    data: bytes


def i32(value: int) -> Written:
    """Encode a 32-bit integer."""
    return Written(5, _varint(value << 1 if value >= 0 else (-value << 1) - 1))


def i64(value: int) -> Written:
    """Encode a 64-bit integer."""
    return Written(6, i32(value).data)


def binary(value: bytes) -> Written:
    """Encode bytes, or text given in UTF-8."""
    return Written(8, _varint(len(value)) + value)


def listed(values: Sequence[Written]) -> Written:
    """Encode a list of one or more values of the same type."""
    size = len(values)
    kind = values[0].kind
    head = bytes([size << 4 | kind]) if size < _LONG_LIST else bytes([_LONG_LIST << 4 | kind]) + _varint(size)
    return Written(9, head + b"".join(value.data for value in values))


def struct_of(fields: Mapping[int, Written]) -> Written:
    """Encode a struct; field numbers must be ascending, in steps of 1 to 15 from 0 on.

    Example:
        >>> read_struct(struct_of({1: i32(-3), 4: binary(b"ab")}).data)[0]
        {1: -3, 4: b'ab'}
    """
    parts, before = [], 0
    for number, value in fields.items():
        parts.append(bytes([(number - before) << 4 | value.kind]) + value.data)
        before = number
    return Written(STRUCT, b"".join(parts) + b"\0")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _Reader:
    """A decoder over bytes; `at` is the offset of the next value."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def struct(self) -> dict[int, Any]:
        """Read a struct up to its stop byte; return its fields by number."""
        fields: dict[int, Any] = {}
        number = 0
        while True:
            head = self._byte()
            kind = head & 0x0F
            if kind == _STOP:
                return fields
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            # A boolean field stores its value in place of the type.
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)

    def encoded(self) -> dict[int, Written]:
        """Read a struct up to its stop byte; return its fields, still encoded, by number."""
        fields: dict[int, Written] = {}
        number = 0
        while True:
            head = self._byte()
            kind = head & 0x0F
            if kind == _STOP:
                return fields
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            begin = self.at
            if kind not in (_TRUE, _FALSE):
                self._value(kind)
            fields[number] = Written(kind, self._data[begin : self.at])

    def structs(self, wanted: int) -> list[bytes]:
        """Return the encoded structs of a list that is field `wanted` of the struct here; none if it is missing."""
        number = 0
        while True:
            head = self._byte()
            kind = head & 0x0F
            if kind == _STOP:
                return []
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if number == wanted and kind == _LIST:
                return self.struct_list()
            if kind not in (_TRUE, _FALSE):
                self._value(kind)

    def struct_list(self) -> list[bytes]:
        """Return the encoded structs of the list of structs here."""
        size, kind = self._list_head()
        if kind != STRUCT:
            raise ValueError(f"a list of structs holds values of the type {kind}")
        found = []
        for _ in range(size):
            begin = self.at
            self.struct()
            found.append(self._data[begin : self.at])
        return found

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
            if shift > _MOST_BITS:
                raise ValueError("a number has more than 64 bits")
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _binary(self) -> bytes:
        return self._take(self._varint())

    def _double(self) -> float:
        value: float = struct.unpack("<d", self._take(8))[0]
        return value

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        return self._varint() if head >> 4 == _LONG_LIST else head >> 4, head & 0x0F

    def _list(self) -> list[Any]:
        size, kind = self._list_head()
        return [self._value(kind) for _ in range(size)]

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
    _LIST: _Reader._list,
    10: _Reader._list,
    11: _Reader._map,
    STRUCT: _Reader.struct,
}
