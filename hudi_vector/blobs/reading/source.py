"""A table that is given by its path, and its BLOB columns by their names, without a session."""

from __future__ import annotations

import os

from hudi_vector.arguments import as_text
from hudi_vector.blobs.reading.by_key import blob_paths
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError
from hudi_vector.options import Settings
from hudi_vector.storage import StorageOptions, normalise, path_text
from hudi_vector.table.model import Snapshot, Source

__all__ = ["blob_path", "blob_path_or_none", "source_here"]


def source_here(settings: Settings, table: str | os.PathLike[str]) -> Source:
    """Return the table at a path; raise InvalidArgumentError for a name, which only a catalog knows."""
    name = as_text(path_text(table), "table")
    if "/" not in name:
        raise InvalidArgumentError(f"'{name}' is found by a session only; give one, or a path")
    return Source(normalise(name), name, StorageOptions.of(settings.values))


def blob_path_or_none(snapshot: Snapshot, column: object) -> tuple[str, ...] | None:
    """Return the path of a BLOB column that a user names in any case, or None."""
    paths = {".".join(path).lower(): path for path in blob_paths(snapshot.schema)}
    return paths.get(column.lower()) if isinstance(column, str) else None


def blob_path(snapshot: Snapshot, column: object) -> tuple[str, ...]:
    """Return the path of a BLOB column that a user names in any case.

    Raises UnknownColumnError if there is no such column, InvalidTypeError if it is not a BLOB.
    """
    path = blob_path_or_none(snapshot, column)
    if path is not None:
        return path
    known, name = [".".join(each) for each in blob_paths(snapshot.schema)], snapshot.source.name
    if str(column).lower() in (each.lower() for each in snapshot.schema.names):
        raise InvalidTypeError(
            f"column '{column}' of '{name}' is no BLOB; its BLOB columns are {', '.join(known) or 'none'}"
        )
    raise UnknownColumnError.of(str(column), [*known, *snapshot.schema.names], name)
