"""The layout a write is made with: what was asked for, held against the table that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError
from hudi_vector.writing.request import TABLE_TYPES, WriteRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudi_vector.schema import VectorType
    from hudi_vector.table.config import TableConfig

__all__ = ["Layout", "agree_on_layout", "agree_on_vectors"]


@dataclass(frozen=True)
class Layout:
    """The table settings that every write of a table must repeat."""

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    table_type: str
    partition_option: str
    """Hudi's text for the partition fields; custom key generators add a kind to each name."""


def agree_on_layout(request: WriteRequest, config: TableConfig | None, partition_option: str | None = None) -> Layout:
    """The layout of the write: the table's own where there is one, else the one asked for.

    Args:
        request: What was asked for.
        config: The settings of the table that is there, if any.
        partition_option: That table's partition fields as it keeps them.

    Returns:
        The layout.

    Raises:
        InvalidArgumentError: The table was made with another record key, partition, ordering or table type.

    Example:
        >>> from hudi_vector.writing.request import write_request
        >>> agree_on_layout(write_request("/t", record_key="id"), None).table_type
        'COPY_ON_WRITE'
    """
    asked_type = TABLE_TYPES[request.table_type] if request.table_type else None
    if config is None:
        partition_by = request.partition_by or ()
        return Layout(
            record_key=request.record_key,
            partition_by=partition_by,
            ordering=request.ordering or (),
            table_type=asked_type or TABLE_TYPES["cow"],
            partition_option=",".join(partition_by),
        )
    table_type = TABLE_TYPES["mor" if config.merge_on_read else "cow"]
    for what, asked, found in (
        ("record key", request.record_key, config.record_key_fields),
        ("partition fields", request.partition_by, config.partition_fields),
        ("ordering fields", request.ordering, config.ordering_fields),
        ("table type", (asked_type,) if asked_type else None, (table_type,)),
    ):
        if asked is not None and asked != found:
            raise InvalidArgumentError(
                f"'{request.table}' has the {what} {_listed(found)} and cannot be written with {_listed(asked)}; "
                f"give {_listed(found)}, or write to another table"
            )
    return Layout(
        record_key=config.record_key_fields,
        partition_by=config.partition_fields,
        ordering=config.ordering_fields,
        table_type=table_type,
        partition_option=partition_option or ",".join(config.partition_fields),
    )


def agree_on_vectors(
    table: str,
    asked: Mapping[str, VectorType],
    in_table: Mapping[str, VectorType],
    table_columns: Mapping[str, str],
) -> dict[str, VectorType]:
    """The vector columns of the write: those asked for and those of the table.

    Args:
        table: How the user named the table.
        asked: The vector columns of the call and of the DataFrame's metadata.
        in_table: The vector columns of the table that is there.
        table_columns: All columns of that table with their types as text; empty where there is none.

    Returns:
        All of them.

    Raises:
        DimensionMismatchError: The table holds vectors of another length.
        InvalidArgumentError: The table holds vectors of another element type, or no vectors in that column.
    """
    for column, vector in asked.items():
        found = in_table.get(column)
        if found is None and column in table_columns:
            raise InvalidArgumentError(
                f"column '{column}' of '{table}' is {table_columns[column]} and cannot take {vector.descriptor}; "
                "write to another column or table"
            )
        if found is not None and found != vector:
            error = DimensionMismatchError if found.dimension != vector.dimension else InvalidArgumentError
            raise error(
                f"column '{column}' of '{table}' is {found.descriptor} and cannot take {vector.descriptor}; "
                "a vector column keeps its type, so write to another column or table"
            )
    return {**in_table, **asked}


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "(none)"
