"""Indexes of files that are no table's, in a directory that the caller names: found, made, and joined to a search.

A list of files, or the files of a Delta table, is a `Snapshot` (`hudi_vector.query.files.plain_files`). Its index is
handed to `hudi_vector.query.planner.make_plan` as a table's is.
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
    """Where the indexes of a column of files lie.

    Args:
        snapshot: The files.
        column: The column, as the files spell it.
        directory: The directory of external indexes.
    """
    return of_files(directory, [file.uri for file in indexable_files(snapshot)], column)


def external_indexes(snapshot: Snapshot, column: str, directory: str) -> list[Index]:
    """The indexes of a column of files; the files' footers are compared with what was indexed.

    Args:
        snapshot: The files.
        column: The column, as the files spell it.
        directory: The directory of external indexes.

    Returns:
        The indexes, by metric and kind; segments of files that were written anew since cover nothing.
    """
    found = indexes_at(external_home(snapshot, column, directory), snapshot.source.options)
    return [verified(index, indexable_files(snapshot), snapshot.source.options) for index in found]


def build_external(
    snapshot: Snapshot, column: str, parameters: Parameters, directory: str, each: Each = map, retrain: bool = False
) -> Index:
    """The index of a column of files, made where there is none, completed where files have no segment.

    Args:
        snapshot: The files.
        column: The column, in any case.
        parameters: How it is made.
        directory: The directory of external indexes; every process that `each` runs in reaches it.
        each: How files are gone through: `map`, that of threads, or one that sends them to executors.
        retrain: Whether it is made anew where it is there.

    Returns:
        The index.

    Raises:
        InvalidArgumentError: A parameter is not allowed, or there is no vector.
        InvalidTypeError: The column is none of vectors.
        UnsupportedTableError: The column's vectors are of several lengths.
    """
    spec = external_scan(snapshot, column)
    return create_index(snapshot, spec, parameters, each, retrain, external_home(snapshot, spec.column.name, directory))


def external_scan(snapshot: Snapshot, column: str) -> ScanSpec:
    """A scan of a column of files as an index needs it: with the length that all its vectors have to have.

    Args:
        snapshot: The files.
        column: The column, in any case.

    Returns:
        The scan; where the column's type does not say the length, it is that of the first vector there is.

    Raises:
        InvalidArgumentError: There is no vector.
        InvalidTypeError: It is no column of vectors.
        UnknownColumnError: There is no such column.
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
