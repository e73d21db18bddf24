"""A walk through rows in Avro's binary encoding that decodes only references: a schema is compiled to functions once.

Each function takes the bytes of a row, a position in them and the findings so far, and returns the position after its
value. A walk that leaves the row raises IndexError or ends at a position other than the row's end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hudi_vector.blobs.struct import INLINE
from hudi_vector.errors import DataFileError
from hudi_vector.table_services.references.references import REFERENCE_FIELDS

__all__ = ["Found", "Walk", "walk_of"]


@dataclass
class Found:
    """References found so far, and per column the number of blobs that lack one.

    A reference is a tuple of column, path, offset, length, and whether it is managed.
    """

    references: list[tuple[str, Any, Any, Any, Any]] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)


Walk = Callable[[bytes, int, Found], int]
_Value = Callable[[bytes, int], tuple[Any, int]]

_LONGEST_NUMBER = 10
"""The most bytes of a 64-bit varint, which holds seven bits per byte."""
_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def walk_of(schema: Any) -> Walk | None:
    """Return a walk through rows of a schema, or None if the schema contains no reference.

    The schema must have full names (`hudi_vector.table.avro_names`). Raise DataFileError if it has
    an unknown type or a type that contains itself.

    Example:
        >>> walk_of({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}) is None
        True
    """
    walk, finds = _Compiler().walk(schema, "")
    return walk if finds else None


class _Compiler:
    """A compiler of one schema's types; each function comes with whether it may find a reference."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()

    def walk(self, node: Any, column: str) -> tuple[Walk, bool]:
        node = self._resolved(node)
        if isinstance(node, list):
            return self._union(node, column)
        kind = node if isinstance(node, str) else node["type"]
        if kind in ("record", "error"):
            return self._record(node, column)
        if kind in ("array", "map"):
            return self._blocks(node, column)
        if isinstance(kind, (dict, list)):
            return self.walk(kind, column)
        return _skip(kind, node), False

    def _resolved(self, node: Any) -> Any:
        if isinstance(node, dict) and "name" in node:
            self._named[node["name"]] = node
        return self._named.get(node, node) if isinstance(node, str) else node

    def _union(self, branches: list[Any], column: str) -> tuple[Walk, bool]:
        parts = [self.walk(branch, column) for branch in branches]
        walks = tuple(walk for walk, _ in parts)

        def walk(row: bytes, place: int, found: Found) -> int:
            branch = row[place]
            if branch & 1 or branch > 127:
                raise DataFileError(f"a union has no branch {branch}")
            return walks[branch >> 1](row, place + 1, found)

        return walk, any(finds for _, finds in parts)

    def _record(self, node: Any, column: str) -> tuple[Walk, bool]:
        if node["name"] in self._open:
            raise DataFileError(f"the type '{node['name']}' contains itself")
        self._open.add(node["name"])
        names = [entry["name"] for entry in node["fields"]]
        if set(REFERENCE_FIELDS) <= set(names):
            made: tuple[Walk, bool] = self._reference(node, column.removesuffix(".reference")), True
        else:
            parts = {entry["name"]: self.walk(entry["type"], _inner(column, entry["name"])) for entry in node["fields"]}
            walks = tuple(walk for walk, _ in parts.values())
            is_blob = "type" in parts and parts.get("reference", (None, False))[1]
            walk = self._blob(node, walks, column) if is_blob else _all_of(walks)
            made = walk, any(finds for _, finds in parts.values())
        self._open.discard(node["name"])
        return made

    def _reference(self, node: Any, column: str) -> Walk:
        values = [self._value(entry["type"]) for entry in node["fields"]]
        names = [entry["name"] for entry in node["fields"]]
        path, offset, length, managed = (names.index(name) for name in REFERENCE_FIELDS)

        def walk(row: bytes, place: int, found: Found) -> int:
            got = []
            for value in values:
                one, place = value(row, place)
                got.append(one)
            if got[path] is not None:
                found.references.append((column, got[path], got[offset], got[length], got[managed]))
            return place

        return walk

    def _blob(self, node: Any, walks: tuple[Walk, ...], column: str) -> Walk:
        index = [entry["name"] for entry in node["fields"]].index("type")
        before, rest = _all_of(walks[:index]), _all_of(walks[index + 1 :])
        kind_of = self._value(node["fields"][index]["type"])

        def walk(row: bytes, place: int, found: Found) -> int:
            count = len(found.references)
            kind, place = kind_of(row, before(row, place, found))
            place = rest(row, place, found)
            if kind is not None and kind != INLINE and len(found.references) == count:
                found.lost[column] = found.lost.get(column, 0) + 1
            return place

        return walk

    def _blocks(self, node: Any, column: str) -> tuple[Walk, bool]:
        is_map = node["type"] == "map"
        item, finds = self.walk(node["values" if is_map else "items"], f"{column}.value" if is_map else column)

        def walk(row: bytes, place: int, found: Found) -> int:
            while True:
                count, place = _long(row, place)
                if count == 0:
                    return place
                if count < 0:
                    _, place = _long(row, place)
                # Items may have 0 bytes, so a damaged count could otherwise make this loop run almost for ever.
                if abs(count) > len(row):
                    raise DataFileError(f"an array of {abs(count)} items lies in a row of {len(row)} bytes")
                for _ in range(abs(count)):
                    place = item(row, _skip_bytes(row, place, found) if is_map else place, found)

        return walk, finds

    def _value(self, node: Any) -> _Value:
        node = self._resolved(node)
        if isinstance(node, list):
            return _one_of([self._value(branch) for branch in node])
        kind = node if isinstance(node, str) else node["type"]
        if isinstance(kind, (dict, list)):
            return self._value(kind)
        if kind == "enum":
            return _symbol(node["symbols"])
        if kind not in _VALUES:
            raise DataFileError(f"a reference has a field of type '{kind}'")
        return _VALUES[kind]


def _inner(column: str, name: str) -> str:
    return f"{column}.{name}" if column else name


def _all_of(walks: tuple[Walk, ...]) -> Walk:
    def walk(row: bytes, place: int, found: Found) -> int:
        for each in walks:
            place = each(row, place, found)
        return place

    return walk


def _skip(kind: str, node: Any) -> Walk:
    if kind in _FIXED or kind == "fixed":
        size = node["size"] if kind == "fixed" else _FIXED[kind]
        return lambda row, place, found: place + size  # noqa: ARG005
    if kind in ("int", "long", "enum"):
        return _skip_number
    if kind in ("bytes", "string"):
        return _skip_bytes
    raise DataFileError(f"the type '{kind}' is not known")


def _skip_number(row: bytes, place: int, found: Found) -> int:
    del found
    end = place + _LONGEST_NUMBER
    while row[place] > 127:
        place += 1
        if place == end:
            raise DataFileError("a number has more than 64 bits")
    return place + 1


def _skip_bytes(row: bytes, place: int, found: Found) -> int:
    del found
    length, place = _long(row, place)
    if length < 0:
        raise DataFileError(f"a value has {length} bytes")
    return place + length


def _long(row: bytes, place: int) -> tuple[int, int]:
    byte = row[place]
    number, shift = byte & 127, 7
    while byte > 127:
        place += 1
        byte = row[place]
        number |= (byte & 127) << shift
        shift += 7
        if shift > 7 * _LONGEST_NUMBER:
            raise DataFileError("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), place + 1


def _bytes(row: bytes, place: int) -> tuple[bytes, int]:
    length, place = _long(row, place)
    if length < 0 or place + length > len(row):
        raise DataFileError(f"a value has {length} bytes")
    return row[place : place + length], place + length


def _text(row: bytes, place: int) -> tuple[str, int]:
    value, place = _bytes(row, place)
    return value.decode(), place


def _one_of(values: list[_Value]) -> _Value:
    def value(row: bytes, place: int) -> tuple[Any, int]:
        branch, place = _long(row, place)
        if branch < 0:
            raise DataFileError(f"a union has no branch {branch}")
        return values[branch](row, place)

    return value


def _symbol(symbols: list[str]) -> _Value:
    def value(row: bytes, place: int) -> tuple[Any, int]:
        number, place = _long(row, place)
        if number < 0:
            raise DataFileError(f"an enum has no symbol {number}")
        return symbols[number], place

    return value


_VALUES: Mapping[str, _Value] = {
    "null": lambda row, place: (None, place),  # noqa: ARG005
    "boolean": lambda row, place: (row[place] != 0, place + 1),
    "int": _long,
    "long": _long,
    "bytes": _text,
    "string": _text,
}
