"""Indexes of files that belong to no table, in a directory that the caller names.

A list of files, or the files of a Delta table, is a `Snapshot` (`hudi_vector.query.files.plain_files`). Its index is
passed to `hudi_vector.query.planner.make_plan` in the same way as a table's index.
"""

from __future__ import annotations

from dataclasses import replace

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.index.build import Each, Parameters, create_index, indexable_files
from hudi_vector.index.catalog import Index, indexes_at
from hudi_vector.index.locations import IndexHome, of_files
from hudi_vector.index.verified import verified
from hudi_vector.query.opened.request import spelled, vector_column
from hudi_vector.read.list_length import stored_length
from hudi_vector.read.spec import ScanSpec, VectorColumn
from hudi_vector.table.model import Snapshot

__all__ = ["build_external", "external_home", "external_indexes", "external_scan"]


def external_home(snapshot: Snapshot, column: str, directory: str) -> IndexHome:
    """Return the location of the indexes of a column of files.

    `column` is spelled as in the files; `directory` is the directory of external indexes.
    """
    return of_files(directory, [file.uri for file in indexable_files(snapshot)], column)


def external_indexes(snapshot: Snapshot, column: str, directory: str) -> list[Index]:
    """Return the indexes of a column of files, by metric and kind, after comparing footers with what was indexed.

    Segments of files that were rewritten since cover nothing. `column` is spelled as in the files; `directory` is the
    directory of external indexes.
    """
    found = indexes_at(external_home(snapshot, column, directory), snapshot.source.options)
    return [verified(index, indexable_files(snapshot), snapshot.source.options) for index in found]


def build_external(
    snapshot: Snapshot, column: str, parameters: Parameters, directory: str, each: Each = map, retrain: bool = False
) -> Index:
    """Build the index of a column of files, or complete it with the files that have no segment.

    `column` may be in any case. `directory` is the directory of external indexes; every process in which `each` runs
    must reach it. `each` applies a function to the files: `map`, the map of a thread pool, or one that uses executors.
    With `retrain`, an existing index is built again. Raises InvalidArgumentError if a parameter is not allowed or there
    is no vector, InvalidTypeError if the column does not hold vectors, and UnsupportedTableError if its vectors have
    several lengths.
    """
    spec = external_scan(snapshot, column)
    return create_index(snapshot, spec, parameters, each, retrain, external_home(snapshot, spec.column.name, directory))


def external_scan(snapshot: Snapshot, column: str) -> ScanSpec:
    """Return a scan of a column of files for an index, with the length that all its vectors must have.

    `column` may be in any case. If its type does not declare the length, the first vector gives it. Raises
    InvalidArgumentError if there is no vector, InvalidTypeError if the column does not hold vectors, and
    UnknownColumnError if there is no such column.
    """
    return ScanSpec(
        table_uri=snapshot.source.uri,
        schema=snapshot.schema,
        column=_with_length(snapshot, column),
        has_keys=False,
        options=snapshot.source.options,
    )


def _with_length(snapshot: Snapshot, name: str) -> VectorColumn:
    column = vector_column(snapshot, name, snapshot.source.name, 0)
    if column.dimension:
        return column
    name = spelled(name, snapshot.schema, snapshot.source.name)
    length = stored_length(indexable_files(snapshot), name, snapshot.source.options)
    if length is None:
        raise InvalidArgumentError(
            f"column '{name}' of '{snapshot.source.name}' holds no vector that an index could be made of"
        )
    return replace(column, dimension=length)
