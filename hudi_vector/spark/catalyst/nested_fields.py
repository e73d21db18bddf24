"""Access to the fields of a Spark schema by dotted path."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import DataType, StructField, StructType

from hudi_vector.errors import InvalidTypeError

__all__ = ["column_names", "field_at", "field_path"]


def field_at(schema: StructType, path: str) -> StructField | None:
    """Return a top-level column or a field of structs by its dotted path, spelled as in the schema, or None.

    Example:
        >>> field_at(StructType().add("doc", StructType().add("page", "integer")), "doc.page").dataType
        IntegerType()
    """
    kind: DataType = schema
    field = None
    for part in field_path(schema, path):
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        field = kind[part]
        kind = field.dataType
    return field


def field_path(schema: StructType, path: str) -> list[str]:
    """Return the names that lead to a field: the whole path if it is the name of a column, otherwise its parts.

    Example:
        >>> schema = StructType().add("a.b", "integer").add("doc", StructType().add("page", "integer"))
        >>> field_path(schema, "a.b"), field_path(schema, "doc.page")
        (['a.b'], ['doc', 'page'])
    """
    return [path] if path in schema.names else path.split(".")


def column_names(columns: str | Iterable[str]) -> list[str]:
    """Return the columns that a user named, each once; raise InvalidTypeError unless they are a text or texts.

    Example:
        >>> column_names("img"), column_names(["img", "doc.scan", "img"])
        (['img'], ['img', 'doc.scan'])
    """
    names = [columns] if isinstance(columns, str) else list(columns) if isinstance(columns, Iterable) else [columns]
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"columns are the name of a column or a list of names, not {columns!r}")
    return list(dict.fromkeys(names))
