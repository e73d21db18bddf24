"""A table that is opened for one search without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import hudi_vector as hv
from hudi_vector.query.opened.vector_table import SearchHits

__all__ = ["found_in", "plan_of"]

_OF_OPEN = ("storage_options", "options", "zone")


def found_in(
    table: str | os.PathLike[str], query: Any, k: int = 10, *, column: str = "emb", columns: Any = None, **asked: Any
) -> SearchHits:
    """What one search finds, with all columns but the vectors, Hudi's own too, unless others are named."""
    with hv.open(table, column=column, **_taken(asked)) as opened:
        every = [name for name in opened.schema.names if name.lower() != column.lower()]
        return opened.search(query, k, columns=every if columns is None else _listed(columns), **asked)


def plan_of(table: str | os.PathLike[str], query: Any, k: int = 10, *, column: str = "emb", **asked: Any) -> str:
    """The plan of the same search."""
    with hv.open(table, column=column, **_taken(asked)) as opened:
        return hv.explain(opened.search, query, k, **asked)


def _taken(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: asked.pop(name) for name in _OF_OPEN if name in asked}


def _listed(columns: Any) -> Sequence[str]:
    return list(columns) if isinstance(columns, tuple) else columns
