"""The check of query lengths against columns of lists, which do not declare the length of their vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hudi_vector.errors import DimensionMismatchError, number_of
from hudi_vector.query.plan import SearchPlan
from hudi_vector.read.list_length import stored_length
from hudi_vector.read.spec import ScanCounts, VectorColumn

__all__ = ["refuse_lengths", "refuse_other_length"]


def refuse_other_length(
    plan: SearchPlan, found: int, counts: ScanCounts, columns: Iterable[VectorColumn] | None = None
) -> None:
    """Raise DimensionMismatchError if a search found nothing because the files' vectors have another length.

    `found` is the number of rows found. `columns` are the searched columns with the lengths of the queries, by default
    the plan's column.
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
    """Raise DimensionMismatchError if no row could be compared because of the length of its vectors.

    A column of lists may hold vectors of several lengths; vectors of another length than the query's are skipped. Only
    if no vector is left is the query wrong. `columns` have the lengths of the queries. `length_of` returns the length
    of a column's vectors, None if it cannot be seen without a scan. `label` is the searched table's name in messages.
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
        others = f"{held} {length}; give {length}" if length else f"{held} another number; give as many as they have"
        raise DimensionMismatchError(f"the query vector has {number_of(column.dimension, 'element')}, {others}")
