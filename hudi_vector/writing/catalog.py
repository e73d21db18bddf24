"""CREATE TABLE statements for tables in the catalog.

The table is created before its rows are written: ``saveAsTable`` would store every option of that single write, for
example its policy for duplicates, as a property of the table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.schema import BLOB, HUDI_TYPE, VectorType, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["create_table"]

_PLAIN = re.compile(r"[a-z_]+( [a-z]+)*(\(\d+(,\d+)?\))?", re.ASCII)
"""The name of a type that contains no other type: ``decimal(10,2)``, ``interval day to second``."""


def create_table(name: str, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]) -> str:
    """Return the statement that creates an empty, managed Hudi table; `name` must be quoted.

    Hudi's logical types are taken from the columns' metadata. Raises InvalidArgumentError if a column's metadata or
    type is not a valid type; metadata can come from untrusted data.
    """
    columns = ", ".join(_column(field) for field in schema.fields)
    partitioned = f" PARTITIONED BY ({', '.join(quoted(column) for column in partition_by)})" if partition_by else ""
    settings = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in properties.items())
    return f"CREATE TABLE {name} ({columns}) USING hudi{partitioned} TBLPROPERTIES ({settings})"


def _column(field: StructField) -> str:
    comment = (field.metadata or {}).get("comment")
    return (
        f"{quoted(field.name)} {_logical_type(field) or _type(field.dataType, field.name)}"
        + ("" if field.nullable else " NOT NULL")
        + (f" COMMENT {_literal(str(comment))}" if comment else "")
    )


def _logical_type(field: StructField) -> str | None:
    """Return Hudi's logical type of a column, made from the parsed metadata and never copied; None without metadata."""
    said = (field.metadata or {}).get(HUDI_TYPE)
    if not said:
        return None
    text = str(said).strip()
    if text.upper() == BLOB:
        return BLOB
    try:
        return VectorType.parse(text.upper()).descriptor
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"the metadata of column '{field.name}' says {HUDI_TYPE} = {text[:80]!r}, which is no type of Hudi's: "
            f"it may be VECTOR(n), VECTOR(n, FLOAT|DOUBLE|INT8) or {BLOB}; take it out, or use hudi_vector.vector_field"
        ) from None


def _type(kind: DataType, column: str) -> str:
    """Return a type in Spark's grammar, with the names of fields quoted."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType, column)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType, column)}, {_type(kind.valueType, column)}>"
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{quoted(each.name)}: {_type(each.dataType, column)}' for each in kind.fields)}>"
    text = str(kind.simpleString())
    if _PLAIN.fullmatch(text) is None:
        raise InvalidArgumentError(
            f"column '{column}' is of the type {text[:80]!r}, which a table has no column of; cast it"
        )
    return text


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
