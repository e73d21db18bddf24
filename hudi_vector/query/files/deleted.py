"""Deleted rows as a caller gives them: by file, or as pairs of file and row number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.storage import normalise, path_text
from hudi_vector.table.deleted_rows import DeletedRows
from hudi_vector.table.model import Snapshot

__all__ = ["Deleted", "checked_deleted", "without_deleted"]

Deleted = Mapping[str, DeletedRows]
"""The deleted rows of files, by normalised URI."""


def checked_deleted(value: Any) -> Deleted:
    """Return the deleted rows by file; none for None.

    `value` is a mapping of file to a bool for each of its rows (True: deleted) or to row numbers, or pairs of file and
    row number. Raises InvalidTypeError if it is anything else, and InvalidArgumentError if a row number is negative or
    2³² or more.

    Example:
        >>> checked_deleted([("/data/a.parquet", 7), ("/data/a.parquet", 3)])["file:///data/a.parquet"].count
        2
    """
    if value is None:
        return {}
    by_file = list(value.items()) if isinstance(value, Mapping) else _grouped(value)
    made: dict[str, DeletedRows] = {}
    for named, rows in by_file:
        file = path_text(named)
        if not isinstance(file, str) or not file:
            raise InvalidTypeError(f"deleted names files by path or URI, and {file!r} is neither")
        uri, gone = normalise(file), _rows_of(file, rows)
        made[uri] = made[uri] | gone if uri in made else gone
    return made


def without_deleted(snapshot: Snapshot, deleted: Deleted) -> Snapshot:
    """Return the snapshot with further rows deleted; raise InvalidArgumentError if a file is not in the snapshot."""
    if not deleted:
        return snapshot
    slices, left = [], dict(deleted)
    for entry in snapshot.file_slices:
        more = None if entry.base_file is None else left.pop(entry.base_file.uri, None)
        if more is not None:
            entry = replace(entry, deleted=more if entry.deleted is None else entry.deleted | more)  # noqa: PLW2901
        slices.append(entry)
    if left:
        raise InvalidArgumentError(
            f"deleted names '{next(iter(left))}', which is no file of '{snapshot.source.name}'; leave it out"
        )
    return replace(snapshot, file_slices=tuple(slices))


def _grouped(value: Any) -> list[tuple[Any, list[Any]]]:
    """Group pairs of file and row number by file."""
    grouped: dict[Any, list[Any]] = {}
    try:
        for file, row in value if isinstance(value, Iterable) and not isinstance(value, str) else [value]:
            grouped.setdefault(file, []).append(row)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            "deleted must be a mapping of file to bools or row numbers, or pairs of file and row number, not "
            f"{value!r}"[:160]
        ) from None
    return list(grouped.items())


def _rows_of(file: str, rows: Any) -> DeletedRows:
    if isinstance(rows, DeletedRows):  # a table that another process opens again
        return rows
    try:
        listed = np.asarray(sorted(rows) if isinstance(rows, (set, frozenset)) else rows)
    except (TypeError, ValueError):
        listed = np.empty((0, 0))
    if listed.ndim == 1 and listed.dtype == np.bool_:
        return DeletedRows.of_mask(listed)
    if listed.ndim == 1 and not len(listed):
        return DeletedRows.of_numbers(listed.astype(np.int64))
    if listed.ndim != 1 or listed.dtype.kind not in "iu":
        raise InvalidTypeError(f"deleted rows of '{file}' must be a bool for each row, or row numbers")
    if listed.min() < 0:
        raise InvalidArgumentError(f"deleted rows of '{file}' are counted from 0, and {listed.min()} is among them")
    if listed.max() >= 1 << 32:
        raise InvalidArgumentError(f"no file has a row {listed.max()}, and deleted names one of '{file}'")
    return DeletedRows.of_numbers(listed.astype(np.int64))
