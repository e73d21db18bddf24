"""The oracle of a search for groups: every row in the documented order, then the first rows of the first groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

__all__ = ["best_groups"]

R = TypeVar("R")


def best_groups(
    ordered: Iterable[R], group: Callable[[R], Any], k: int, per_group: int = 1, drop_nulls: bool = False
) -> list[tuple[int, R]]:
    """The rank of its group, from 1, and each row that is found, out of all rows with the nearest first."""
    members: dict[Hashable, list[R]] = {}
    known: dict[Any, Hashable] = {}  # as most rows have the values of one before
    full = 0
    for row in ordered:
        values = group(row)
        if values not in known:
            key = values if isinstance(values, tuple) else (values,)
            known[values] = None if drop_nulls and None in key else tuple(map(_same, key))
        same = known[values]
        if same is None or (same not in members and len(members) == k):
            continue
        own = members.setdefault(same, [])
        if len(own) < per_group:
            own.append(row)
            full += len(own) == per_group
        if full == k:
            break  # no later row changes anything
    return [(rank, row) for rank, rows in enumerate(members.values(), 1) for row in rows]


def _same(value: Any) -> Hashable:
    """A value that is equal for NaN and NaN, and for both zeros, as in GROUP BY."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return value  # type: ignore[no-any-return]
