"""Fields of a Spark schema by their dotted paths."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["field_at"]


def field_at(schema: StructType, path: str) -> StructField | None:
    """A top-level column or a field of structs.

    Args:
        schema: The columns.
        path: Names with dots between them, spelled as in the schema.

    Returns:
        The field, or None where there is none.

    Example:
        >>> field_at(StructType.fromDDL("doc STRUCT<page: INT>"), "doc.page").dataType
        IntegerType()
    """
    kind: DataType = schema
    field = None
    for part in path.split("."):
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        field = kind[part]
        kind = field.dataType
    return field
