"""Queries of another length than the vectors of a column that does not declare theirs."""

from __future__ import annotations

from hudi_vector.errors import DimensionMismatchError
from hudi_vector.read.list_length import stored_length
from hudi_vector.read.spec import ScanCounts
from hudi_vector.search.plan import SearchPlan

__all__ = ["refuse_other_length"]


def refuse_other_length(plan: SearchPlan, found: int, counts: ScanCounts) -> None:
    """Refuse queries that no vector could be compared with, for its length.

    A column of lists may hold vectors of several lengths, and those of another length than the query's are passed over.
    Where that leaves none, the query is what is wrong.

    Args:
        plan: The search that was carried out.
        found: How many rows it found.
        counts: What became of the rows.

    Raises:
        DimensionMismatchError: The column's vectors have another length.
    """
    column = plan.spec.column
    compared = counts.rows - counts.pruned - counts.filtered - counts.nulls - counts.invalid
    if found or compared > 0 or column.is_vector or not counts.nulls + counts.invalid:
        return
    files = (entry.file_slice.base_file for entry in plan.slices)
    parquet = (file for file in files if file is not None and not file.uri.endswith(".lance"))
    length = stored_length(parquet, column.name, plan.spec.options)
    if length is not None and length != column.dimension:
        raise DimensionMismatchError(
            f"the query vector has {column.dimension} elements, those in column '{column.name}' of "
            f"'{plan.snapshot.source.name}' have {length}; give {length}"
        )
