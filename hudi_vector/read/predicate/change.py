"""Replacement of nodes in predicates, for example of a view's columns by the columns of its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from hudi_vector.read.predicate.form import Predicate
from hudi_vector.read.predicate.nodes import Column
from hudi_vector.read.predicate.zone import in_micros

__all__ = ["exchanged", "literal_values", "renamed"]


def renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """Return the condition with columns renamed by `names`, old name to new; other columns keep their names."""

    def change(node: Predicate) -> Predicate | None:
        return replace(node, name=names.get(node.name, node.name)) if isinstance(node, Column) else None

    return exchanged(predicate, change)


def exchanged(predicate: Predicate, change: Callable[[Predicate], Predicate | None]) -> Predicate:
    """Return the condition with nodes replaced by the results of `change`.

    `change` is called for every node, a parent before its children, and returns a node, whose children are then not
    visited, or None to keep the node.

    Example:
        >>> from hudi_vector.read.predicate.nodes import TRUE, IsNull, Not
        >>> exchanged(Not(IsNull(TRUE)), lambda node: TRUE if isinstance(node, IsNull) else None) == Not(TRUE)
        True
    """
    other = change(predicate)
    if other is not None:
        return other
    return replace(
        predicate, **{field.name: _exchanged(getattr(predicate, field.name), change) for field in fields(predicate)}
    )


def _exchanged(value: Any, change: Callable[[Predicate], Predicate | None]) -> Any:
    if isinstance(value, Predicate):
        return exchanged(value, change)
    if isinstance(value, tuple):
        return tuple(_exchanged(item, change) for item in value)
    return value


def literal_values(array: Any, kind: pa.DataType) -> list[Any]:
    """Convert an Arrow array or chunked array to values of literals of type `kind`, None for NULL.

    Dates become days and timestamps microseconds since the epoch.

    Example:
        >>> import datetime
        >>> literal_values(pa.array([datetime.date(1970, 1, 2), None]), pa.date32())
        [1, None]
    """
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    cast = in_micros(array).cast(kind, safe=not pa.types.is_timestamp(kind))
    if pa.types.is_timestamp(kind):
        cast = cast.cast(pa.int64())
    elif pa.types.is_date32(kind):
        cast = cast.cast(pa.int32())
    values: list[Any] = cast.to_pylist()
    return values
