"""The arguments of a search for groups: the columns that make a group, the rows of each, and the meaning of NULL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import MAXIMUM_K, as_text
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.predicate.nodes import Column, IsNull, Not, Predicate, conjunction
from hudi_vector.schema import HUDI_TYPE

__all__ = ["GROUP_RANK", "MOST_ROWS", "Grouping", "checked_grouping", "group_ranks", "most_found", "rows_at_first"]

GROUP_RANK = "_group_rank"
"""The column that a search for groups adds: the rank of a row's group, from 1."""

MOST_ROWS = 4096
"""Groups whose best rows are not among so many nearest rows are found by a scan, not by an index."""

_NULLS = ("keep", "drop")
_ROWS_OF_GROUP = 8


@dataclass(frozen=True)
class Grouping:
    """The columns whose values make a group, and the number of rows of each group that are found.

    With `drop_nulls`, rows with NULL in one of the columns are not searched; otherwise NULL is a value like others.
    """

    columns: tuple[str, ...]
    per_group: int = 1
    drop_nulls: bool = False

    def named(self, names: Mapping[str, str]) -> Grouping:
        """Return the grouping under other names for the columns; those that `names` lacks keep theirs."""
        return replace(self, columns=tuple(names.get(name, name) for name in self.columns))

    def within(self, schema: pa.Schema, table: str) -> Grouping:
        """Return the grouping with its columns as a table spells them.

        Raises UnknownColumnError if the table, named `table` in messages, lacks a column, and InvalidTypeError if a
        column holds vectors, blobs or other nested values.
        """
        spelled = [_spelled(name, schema, table) for name in self.columns]
        for name in spelled:
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or HUDI_TYPE.encode() in (schema.field(name).metadata or {}):
                raise InvalidTypeError(
                    f"group_by names column '{name}' of '{table}', which holds vectors, blobs or nested values; name "
                    "columns of plain values, such as text, numbers or dates"
                )
        return replace(self, columns=tuple(dict.fromkeys(spelled)))

    def filtered(self, predicate: Predicate | None, schema: pa.Schema) -> Predicate | None:
        """Return a filter that also leaves out rows with NULL in a column of the groups, if they are dropped."""
        if not self.drop_nulls:
            return predicate
        terms = [Not(IsNull(Column(name, schema.field(name).type))) for name in self.columns]
        return conjunction([*([] if predicate is None else [predicate]), *terms])

    def without_index(self, k: int) -> str:
        """Return the reason why a search for k groups uses no index, or "" if it may."""
        return "" if rows_at_first(k) <= MOST_ROWS else f"so many groups, {k}, are found by looking at every row"

    def describe(self) -> str:
        """Return the columns and numbers as text."""
        rows = "the best row of each" if self.per_group == 1 else f"up to {self.per_group} rows of each"
        return f"by {', '.join(self.columns)}, {rows}" + (", without NULL" if self.drop_nulls else "")


def checked_grouping(group_by: Any = None, per_group: Any = None, group_nulls: Any = None) -> Grouping | None:
    """Return the grouping of a search, None without `group_by`.

    Raises InvalidArgumentError or InvalidTypeError if an argument is not allowed, or another is given without
    `group_by`.

    Example:
        >>> checked_grouping(["doc_id", "lang"], 2)
        Grouping(columns=('doc_id', 'lang'), per_group=2, drop_nulls=False)
    """
    if group_by is None:
        given = next((n for n, v in (("per_group", per_group), ("group_nulls", group_nulls)) if v is not None), None)
        if given is not None:
            raise InvalidArgumentError(f"{given} needs group_by; name the columns of the groups, or leave {given} out")
        return None
    return Grouping(_columns(group_by), _rows(per_group), _nulls(group_nulls) == "drop")


def rows_at_first(k: int) -> int:
    """Return how many of the nearest rows are searched first, by an index, to find k groups.

    Example:
        >>> rows_at_first(10)
        80
    """
    return _ROWS_OF_GROUP * k


def most_found(k: int | None, grouping: Grouping | None) -> int | None:
    """Return the largest number of rows that a search finds, None if it depends on the rows: of a distance, of groups.

    Example:
        >>> most_found(3, None), most_found(3, Grouping(("doc",))), most_found(3, Grouping(("doc",), 100))
        (3, 3, None)
    """
    return k if grouping is None or grouping.per_group == 1 else None


def group_ranks(rank: Ints | None) -> pa.Array:
    """Return the column `GROUP_RANK` of the rows found by a search for groups; None if it found none."""
    return pa.array([] if rank is None else rank.astype(np.int32), pa.int32())


def _columns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str) and not (isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping))):
        raise InvalidTypeError(f"group_by must be the name of a column or a list of names, not {value!r}")
    names = [value] if isinstance(value, str) else list(value)
    if not names:
        raise InvalidArgumentError("group_by names no column; name at least one, or leave it out")
    return tuple(as_text(name, "group_by") for name in names)


def _rows(value: Any) -> int:
    if value is None:
        return 1
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 1 <= value.__index__() <= MAXIMUM_K:
        raise InvalidArgumentError(f"per_group must be a whole number from 1 to {MAXIMUM_K}, not {value!r}")
    return int(value.__index__())


def _nulls(value: Any) -> str:
    if value is None:
        return "keep"
    chosen = value.strip().lower() if isinstance(value, str) else None
    if chosen not in _NULLS:
        raise InvalidArgumentError(f"group_nulls must be 'keep' or 'drop', not {value!r}")
    return chosen


def _spelled(name: str, schema: pa.Schema, table: str) -> str:
    same = [own for own in schema.names if own == name] or [own for own in schema.names if own.lower() == name.lower()]
    if not same:
        raise UnknownColumnError.of(name, schema.names, table)
    return str(same[0])
