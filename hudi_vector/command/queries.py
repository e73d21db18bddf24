"""The query vector of a search, as a text, in a file, or of a row of the table."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from hudi_vector.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hudi_vector.query.opened.vector_table import VectorTable

__all__ = ["KEY", "is_key", "query_of_file", "query_of_row", "query_of_text"]

KEY = "_hoodie_record_key"


def query_of_text(text: str) -> Any:
    """Return the vector of a text such as ``[0.1, 0.2]`` or ``0.1,0.2``.

    Example:
        >>> query_of_text("0.1,0.2")
        [0.1, 0.2]
    """
    bare = text.strip()
    return _parsed(bare if bare.startswith("[") else f"[{bare}]", f"--query {text!r}")


def query_of_file(path: str) -> Any:
    """Return the vector, or the list of vectors, of a file of JSON or numpy (``.npy``); ``-`` is standard input."""
    if path.endswith(".npy"):
        import numpy as np

        try:
            found = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as problem:
            raise InvalidArgumentError(f"the query in '{path}' cannot be read: {problem}") from None
        if found.ndim not in (1, 2) or not len(found):
            raise InvalidArgumentError(f"'{path}' holds an array of shape {found.shape}; give (d,), or (m, d)")
        return found
    try:
        if path == "-":
            return _parsed(sys.stdin.read(), "standard input")
        with open(path, encoding="utf-8") as file:
            return _parsed(file.read(), f"'{path}'")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidArgumentError(f"the query in '{path}' cannot be read: {problem}") from None


def query_of_row(table: VectorTable, dimension: int, key: str, as_of: str | None) -> Any:
    """Return the vector of the row with a record key; raise InvalidArgumentError if there is none."""
    hits = table.search(
        [1.0] * dimension, 1, metric="l2", mode="exact", filter=is_key(key), columns=[table.column], as_of=as_of
    )
    found = hits.table.column(0).to_pylist()
    if not found:
        raise InvalidArgumentError(f"no row of '{table.name}' with a vector has the record key '{key}'")
    return found[0]


def is_key(key: str) -> str:
    """Return the condition that a row has a record key.

    Example:
        >>> is_key("cat")
        "_hoodie_record_key = 'cat'"
    """
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"{KEY} = '{escaped}'"


def _parsed(text: str, place: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError as problem:
        raise InvalidArgumentError(f"{place} is no list of numbers, such as [0.1, 0.2]: {problem}") from None
    if not isinstance(found, list) or not found:
        raise InvalidArgumentError(f"{place} is no list of numbers, such as [0.1, 0.2]")
    return found
