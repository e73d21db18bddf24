"""Queries of another length than the vectors of columns that do not declare theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hudi_vector.errors import DimensionMismatchError
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.list_length import stored_length
from hudi_vector.read.spec import ScanCounts, VectorColumn

__all__ = ["refuse_lengths", "refuse_other_length"]


def refuse_other_length(
    plan: SearchPlan, found: int, counts: ScanCounts, columns: Iterable[VectorColumn] | None = None
) -> None:
    """Refuse queries that no vector of a plan's files could be compared with, for its length.

    Args:
        plan: The search that was carried out.
        found: How many rows it found.
        counts: What became of the rows.
        columns: The searched columns with the lengths of the queries; the plan's own by default.

    Raises:
        DimensionMismatchError: A column's vectors have another length.
    """

    def length_of(column: str) -> int | None:
        files = (entry.file_slice.base_file for entry in plan.slices)
        parquet = (file for file in files if file is not None and not file.uri.endswith(".lance"))
        return stored_length(parquet, column, plan.spec.options)

    own = [plan.spec.column] if columns is None else columns
    refuse_lengths(own, found, counts, length_of, plan.snapshot.source.name)


def refuse_lengths(
    columns: Iterable[VectorColumn],
    found: int,
    counts: ScanCounts,
    length_of: Callable[[str], int | None],
    label: str,
) -> None:
    """Refuse queries that no row could be compared with, for the length of its vectors.

    A column of lists may hold vectors of several lengths, and those of another length than the query's are passed over.
    Where that leaves none, the query is what is wrong.

    Args:
        columns: The searched columns, with the lengths of the queries.
        found: How many rows were found.
        counts: What became of the rows.
        length_of: Looks up how long vectors of a column are; None where that cannot be seen without a scan.
        label: How messages name what was searched.

    Raises:
        DimensionMismatchError: A column's vectors have another length.
    """
    compared = counts.rows - counts.pruned - counts.filtered - counts.nulls - counts.invalid
    if found or compared > 0 or not counts.nulls + counts.invalid:
        return
    for column in columns:
        if column.is_vector:
            continue
        length = length_of(column.name)
        if length == column.dimension or (length is None and not counts.uneven):
            continue
        held = f"those in column '{column.name}' of '{label}' have"
        told = f"{held} {length}; give {length}" if length else f"{held} another number; give as many as they have"
        raise DimensionMismatchError(f"the query vector has {column.dimension} elements, {told}")
