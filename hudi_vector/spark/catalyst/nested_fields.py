"""Fields of a Spark schema by their dotted paths."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import DataType, StructField, StructType

from hudi_vector.errors import InvalidTypeError

__all__ = ["column_names", "field_at", "field_path"]


def field_at(schema: StructType, path: str) -> StructField | None:
    """A top-level column or a field of structs.

    Args:
        schema: The columns.
        path: Names with dots between them, spelled as in the schema.

    Returns:
        The field, or None where there is none.

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
    """Return the names that lead to a field: the whole path where a column is called so, its parts otherwise.

    Example:
        >>> schema = StructType().add("a.b", "integer").add("doc", StructType().add("page", "integer"))
        >>> field_path(schema, "a.b"), field_path(schema, "doc.page")
        (['a.b'], ['doc', 'page'])
    """
    return [path] if path in schema.names else path.split(".")


def column_names(columns: str | Iterable[str]) -> list[str]:
    """The columns a user named, each once.

    Args:
        columns: A name, or several.

    Raises:
        InvalidTypeError: It is no text and no list of texts.

    Example:
        >>> column_names("img"), column_names(["img", "doc.scan", "img"])
        (['img'], ['img', 'doc.scan'])
    """
    names = [columns] if isinstance(columns, str) else list(columns) if isinstance(columns, Iterable) else [columns]
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"columns are the name of a column or a list of names, not {columns!r}")
    return list(dict.fromkeys(names))
