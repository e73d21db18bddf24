"""The result of a change of a table's vector columns."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.shown import Shown

__all__ = ["ColumnChange"]


@dataclass(frozen=True, repr=False)
class ColumnChange(Shown):
    """A change of a vector column.

    Attributes:
        table: The table's base path.
        column: The column.
        vector: Its type, such as ``VECTOR(768)``.
        instant: The commit that made the change; None if the table was as wanted already.

    Example:
        >>> hv.vectors.add_column(spark, "articles", "old", 2).instant is None
        True
    """

    table: str
    column: str
    vector: str
    instant: str | None
