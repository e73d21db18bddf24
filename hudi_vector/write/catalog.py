"""CREATE TABLE for a table that is to be known by its name.

The statement comes before the rows: ``saveAsTable`` would keep every option of that one write, its policy for
duplicates for example, as a property of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudi_vector.schema import HUDI_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructField, StructType

__all__ = ["create_table"]


def create_table(name: str, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]) -> str:
    """The statement that makes an empty, managed Hudi table.

    Args:
        name: The table's name, quoted.
        schema: Its columns; Hudi's logical types are in their metadata.
        partition_by: The partition columns.
        properties: Its properties.

    Returns:
        The statement.
    """
    columns = ", ".join(_column(field) for field in schema.fields)
    partitioned = f" PARTITIONED BY ({', '.join(_quoted(column) for column in partition_by)})" if partition_by else ""
    settings = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in properties.items())
    return f"CREATE TABLE {name} ({columns}) USING hudi{partitioned} TBLPROPERTIES ({settings})"


def _column(field: StructField) -> str:
    kind = str((field.metadata or {}).get(HUDI_TYPE) or field.dataType.simpleString())
    comment = (field.metadata or {}).get("comment")
    return (
        f"{_quoted(field.name)} {kind}"
        + ("" if field.nullable else " NOT NULL")
        + (f" COMMENT {_literal(str(comment))}" if comment else "")
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
