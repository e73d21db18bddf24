"""A predicate over a view's columns as one over the table's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from hudi_vector.read.predicate import Predicate
from hudi_vector.read.predicate_nodes import Column

__all__ = ["renamed"]


def renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """The same condition with columns under other names.

    Args:
        predicate: A condition.
        names: The new name of each column; columns that are not in it keep theirs.

    Returns:
        The condition.
    """
    if isinstance(predicate, Column):
        return replace(predicate, name=names.get(predicate.name, predicate.name))
    changed = {field.name: _renamed(getattr(predicate, field.name), names) for field in fields(predicate)}
    return replace(predicate, **changed)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Predicate):
        return renamed(value, names)
    if isinstance(value, tuple):
        return tuple(_renamed(item, names) for item in value)
    return value
