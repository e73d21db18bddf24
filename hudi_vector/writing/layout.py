"""The layout of a write: the requested one, checked against the existing table."""

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
    """The table settings that every write to a table must repeat."""

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    table_type: str
    partition_option: str
    """The partition fields as Hudi's option spells them; custom key generators append a type to each name."""


def agree_on_layout(request: WriteRequest, config: TableConfig | None, partition_option: str | None = None) -> Layout:
    """Return the layout of the write: the existing table's, else the requested one.

    `config` is the configuration of the existing table, None if there is none; `partition_option` are that table's
    partition fields as it stores them. Raises InvalidArgumentError if the request names another record key, partition,
    ordering or table type than the table has.

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
    """Return the vector columns of the write: the table's and the requested ones.

    Args:
        table: The table as the user named it.
        asked: The vector columns of the call and of the DataFrame's metadata.
        in_table: The vector columns of the existing table.
        table_columns: The types, as text, of all columns of the existing table; empty if there is none.

    Raises:
        DimensionMismatchError: The table's vectors have another length.
        InvalidArgumentError: The table's vectors have another element type, or the column is not a vector column.
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
