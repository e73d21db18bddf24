"""Metadata of documents as columns of a table: some by name, with types, and the rest as JSON in one column."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.arguments import require_unicode
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError, kind_of
from hudi_vector.read.predicate.nodes import is_comparable

__all__ = ["MetadataColumns", "arrow_types"]

_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}

_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)
_TAKEN: tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...] = (
    (pa.types.is_integer, (int, np.integer)),
    (pa.types.is_floating, (int, float, np.integer, np.floating)),
    (pa.types.is_decimal, (int, Decimal)),
    (pa.types.is_timestamp, (dt.datetime, np.datetime64)),
    (pa.types.is_string, (str,)),
    (pa.types.is_binary, (bytes,)),
)


def arrow_types(given: Mapping[str, str]) -> dict[str, pa.DataType]:
    """Return the types of named columns; raise InvalidArgumentError for a type that they cannot have.

    Example:
        >>> arrow_types({"price": "double"})
        {'price': DataType(double)}
    """
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"metadata_columns is a mapping such as {{'price': 'double'}}, not {kind_of(given)}")
    for name, kind in given.items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidTypeError(f"metadata_columns has the name {name!r}; give the name of a column")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise InvalidArgumentError(f"metadata_columns[{name!r}] = {kind!r}; give one of {', '.join(_TYPES)}")
    return {name: _TYPES[kind] for name, kind in given.items()}


@dataclass(frozen=True)
class MetadataColumns:
    """The columns that hold the metadata of a table: those of one name each, and the one of JSON, None for none."""

    table: str
    json: str | None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def found_in(self, schema: pa.Schema, others: Sequence[str]) -> MetadataColumns:
        """Return the columns of an existing table: all of plain types except `others` and Hudi's own.

        Raises InvalidArgumentError if a wanted column is not there, or has another type.
        """
        json_there = self.json in schema.names and schema.field(self.json).type == pa.string()
        apart = (*others, self.json) if json_there else others
        there = {
            each.name: each.type
            for each in schema
            if each.name not in apart and not each.name.startswith("_hoodie_") and is_comparable(each.type)
        }
        for name, kind in self.types.items():
            if name not in there:
                raise InvalidArgumentError(
                    f"'{self.table}' has no column '{name}' for metadata; leave it out of metadata_columns, "
                    f"or add it: ALTER TABLE … ADD COLUMNS ({name} …)"
                )
            if there[name] != kind:
                raise InvalidArgumentError(
                    f"column '{name}' of '{self.table}' is {there[name]}, and metadata_columns says {kind}; "
                    "leave it out of metadata_columns"
                )
        return MetadataColumns(self.table, self.json if json_there else None, there)

    @property
    def names(self) -> list[str]:
        """Return the names of all columns."""
        return [*self.types, *([] if self.json is None else [self.json])]

    def arrays(self, ids: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
        """Return the columns of some documents.

        Raises InvalidTypeError if a value does not fit its column, or JSON cannot hold it, and InvalidArgumentError if
        there is no column for it.
        """
        found = {
            name: self._column(name, kind, ids, [each.get(name) for each in metadata])
            for name, kind in self.types.items()
        }
        rest = [
            self._rest(document, {name: value for name, value in each.items() if name not in self.types})
            for document, each in zip(ids, metadata, strict=True)
        ]
        return found if self.json is None else {**found, self.json: pa.array(rest, pa.string())}

    def of_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a row; a column that is NULL is metadata that is not there."""
        text = None if self.json is None else row[self.json]
        held = {} if text is None else self._held(text)
        return {**held, **{name: row[name] for name in self.types if row[name] is not None}}

    def _held(self, text: str) -> dict[str, Any]:
        try:
            held = json.loads(text)
        except ValueError:
            held = None
        if not isinstance(held, dict):
            raise UnsupportedTableError(
                f"column '{self.json}' of '{self.table}' holds {text[:40]!r}, which is no JSON object; "
                "give another metadata_column, or None"
            )
        return held

    def _column(self, name: str, kind: pa.DataType, ids: Sequence[str], values: Sequence[Any]) -> pa.Array:
        if all(_is_of(value, kind) for value in values):
            with suppress(*_REFUSED):
                return _readable(pa.array(values, kind))
        for document, value in zip(ids, values, strict=True):
            if isinstance(value, str):
                require_unicode(value, f"metadata '{name}' of document '{document}'")
            if not _is_of(value, kind) or not _is_taken(value, kind):
                raise InvalidTypeError(
                    f"metadata '{name}' of document '{document}' is {value!r}, and column '{name}' is {kind}; "
                    "give a value of that type"
                )
        return pa.array(values, kind)

    def _rest(self, document: str, metadata: Mapping[str, Any]) -> str:
        if self.json is None and metadata:
            raise InvalidArgumentError(
                f"'{self.table}' has no column for metadata '{next(iter(metadata))}' of document '{document}', "
                "and none for JSON; leave it out, or add a column"
            )
        for name, value in metadata.items():
            if not _is_held(value):
                raise InvalidTypeError(
                    f"metadata '{name}' of document '{document}' is {kind_of(value)}, which JSON does not give back as "
                    "it was; give text, finite numbers, true, false, null, lists or dictionaries of them"
                )
            require_unicode(json.dumps(value, ensure_ascii=False), f"metadata '{name}' of document '{document}'")
        return json.dumps(metadata, ensure_ascii=False)


def _is_of(value: Any, kind: pa.DataType) -> bool:
    """Return True if a value is of the Python type of a column: Arrow cuts numbers and times to those of others."""
    if value is None:
        return True
    is_flag = isinstance(value, (bool, np.bool_))
    if is_flag or pa.types.is_boolean(kind):
        return is_flag and pa.types.is_boolean(kind)
    if pa.types.is_date(kind):
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    taken = next((types for is_kind, types in _TAKEN if is_kind(kind)), object)
    return isinstance(value, taken)


def _readable(array: pa.Array) -> pa.Array:
    """Return an array; raise OverflowError if it has a moment that UTC has outside the years 1 to 9999."""
    if pa.types.is_timestamp(array.type):
        for end in pc.min_max(array).values():
            end.as_py()
    return array


def _is_taken(value: Any, kind: pa.DataType) -> bool:
    try:
        _readable(pa.array([value], kind))
    except _REFUSED:
        return False
    return True


def _is_held(value: Any) -> bool:
    """Return True if a value is the same when it comes back from JSON."""
    try:
        back = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False
    return type(back) is type(value) and bool(back == value)
