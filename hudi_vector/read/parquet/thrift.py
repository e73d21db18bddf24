"""Thrift's compact protocol, in which Parquet metadata is stored: structs are dictionaries by field number."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = [
    "STRUCT",
    "Written",
    "binary",
    "fields_of",
    "fields_up_to",
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
_BYTE, _DOUBLE = 3, 7  # between them are integers
_LONG_STEP = 0x0F
"""The largest first byte of a field whose number follows in full."""
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
    with _sound():
        return _struct(data, begin)


def list_of_structs(data: bytes, number: int) -> list[bytes]:
    """Return the encoded structs of a list that is field `number` of the struct `data`; none if the field is missing.

    Raises EOFError if the bytes end before the list does, and ValueError if they are not a struct of this protocol.

    Example:
        >>> inner = struct_of({1: i32(3)})
        >>> list_of_structs(struct_of({2: listed([inner, inner])}).data, 2) == [inner.data, inner.data]
        True
    """
    with _sound():
        return _structs(data, 0, number)


def structs_in(values: Written) -> list[bytes]:
    """Return the encoded structs of an encoded list of structs.

    Example:
        >>> inner = struct_of({1: i32(3)})
        >>> structs_in(listed([inner, inner])) == [inner.data, inner.data]
        True
    """
    with _sound():
        return _struct_list(values.data, 0)


def fields_of(data: bytes) -> dict[int, Written]:
    """Return the fields of the struct that begins `data`, each still encoded, by number.

    Raises EOFError if the bytes end before the struct does, and ValueError if they are not a struct of this protocol.

    Example:
        >>> fields_of(struct_of({1: i32(3), 4: i64(8)}).data)[4] == i64(8)
        True
    """
    with _sound():
        return dict(_encoded(data, 0))


def fields_up_to(data: bytes, number: int) -> dict[int, Written]:
    """Return the fields of the struct that begins `data`, each still encoded, by number, up to that of this number.

    What follows it need not be there. Raises EOFError if the bytes end before, and ValueError if they are not a struct
    of this protocol.

    Example:
        >>> fields_up_to(struct_of({1: i32(3), 4: i64(8)}).data[:2], 1) == {1: i32(3)}
        True
    """
    fields: dict[int, Written] = {}
    with _sound():
        for found, value in _encoded(data, 0):
            fields[found] = value
            if found >= number:
                return fields
    raise EOFError


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


@contextmanager
def _sound() -> Iterator[None]:
    """Raise what the functions above promise of bytes that end too early or nest too deep."""
    try:
        yield
    except IndexError:
        raise EOFError from None
    except RecursionError:
        raise ValueError("structs are nested deeper than any file needs") from None


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read a struct up to its stop byte; return its fields by number, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := (head := data[at]) & 0x0F:
        if head > _LONG_STEP:
            number, at = number + (head >> 4), at + 1
        else:
            number, at = _zigzag(data, at + 1)
        if _BYTE < kind < _DOUBLE:
            value = data[at]
            if value < 0x80:  # as most are
                at += 1
                fields[number] = value >> 1 ^ -(value & 1)
            else:
                fields[number], at = _zigzag(data, at)
        elif kind == STRUCT:
            fields[number], at = _struct(data, at)
        elif kind in (_TRUE, _FALSE):  # a boolean field stores its value in place of the type
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind)
    return fields, at + 1


def _encoded(data: bytes, at: int) -> Iterator[tuple[int, Written]]:
    """Yield the number of each field of a struct, and its value, still encoded."""
    number = 0
    while (kind := data[at] & 0x0F) != _STOP:
        number, begin = _number(data, at, number)
        at = begin if kind in (_TRUE, _FALSE) else _value(data, begin, kind)[1]
        yield number, Written(kind, data[begin:at])


def _structs(data: bytes, at: int, wanted: int) -> list[bytes]:
    """Return the encoded structs of a list that is field `wanted` of a struct; none if it is missing."""
    number = 0
    while (kind := data[at] & 0x0F) != _STOP:
        number, at = _number(data, at, number)
        if number == wanted and kind == _LIST:
            return _struct_list(data, at)
        if kind not in (_TRUE, _FALSE):
            at = _value(data, at, kind)[1]
    return []


def _struct_list(data: bytes, at: int) -> list[bytes]:
    """Return the encoded structs of a list of structs."""
    size, kind, at = _list_head(data, at)
    if kind != STRUCT:
        raise ValueError(f"a list of structs holds values of the type {kind}")
    found = []
    for _ in range(size):
        begin, at = at, _struct(data, at)[1]
        found.append(data[begin:at])
    return found


def _number(data: bytes, at: int, before: int) -> tuple[int, int]:
    """Return the number of the field that begins here, after the one numbered `before`, and where its value begins."""
    step = data[at] >> 4
    return (before + step, at + 1) if step else _zigzag(data, at + 1)


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    return _reader(kind)(data, at)


def _reader(kind: int) -> Callable[[bytes, int], tuple[Any, int]]:
    read = _READERS.get(kind)
    if read is None:
        raise ValueError(f"Thrift's compact protocol has no type {kind}")
    return read


def _taken(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    if at + count > len(data):
        raise EOFError
    return data[at : at + count], at + count


def _number_of_bits(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number has more than 64 bits")
    return value, at + 1


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _number_of_bits(data, at)
    return (value >> 1) ^ -(value & 1), at


def _byte(data: bytes, at: int) -> tuple[int, int]:
    return data[at], at + 1


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == _TRUE, at + 1


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    count, at = _number_of_bits(data, at)
    return _taken(data, at, count)


def _double(data: bytes, at: int) -> tuple[float, int]:
    value, at = _taken(data, at, 8)
    return struct.unpack("<d", value)[0], at


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    head, at = data[at], at + 1
    size, at = _number_of_bits(data, at) if head >> 4 == _LONG_LIST else (head >> 4, at)
    return size, head & 0x0F, at


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    size, kind, at = _list_head(data, at)
    if not size:
        return [], at  # of whatever type
    read, values = _reader(kind), []
    for _ in range(size):
        value, at = read(data, at)
        values.append(value)
    return values, at


def _map(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
    size, at = _number_of_bits(data, at)
    if not size:
        return {}, at
    kinds, at = _byte(data, at)
    values = {}
    for _ in range(size):
        key, at = _value(data, at, kinds >> 4)
        values[key], at = _value(data, at, kinds & 0x0F)
    return values, at


# A function for each type, without an object that knows the place: footers have thousands of values.
_READERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    _TRUE: _boolean,
    _FALSE: _boolean,
    _BYTE: _byte,
    4: _zigzag,
    5: _zigzag,
    6: _zigzag,
    _DOUBLE: _double,
    8: _binary,
    _LIST: _list,
    10: _list,
    11: _map,
    STRUCT: _struct,
}
