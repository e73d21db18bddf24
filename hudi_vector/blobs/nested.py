"""A column of a record batch made into or out of a blob column, wherever it is nested."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from hudi_vector.errors import InvalidBlobError, UnknownColumnError
from hudi_vector.schema import HUDI_TYPE

__all__ = ["replace_column"]

Convert = Callable[[pa.Array], pa.Array]

_BLOB = {HUDI_TYPE: "BLOB"}


def replace_column(
    batch: pa.RecordBatch, path: str, convert: Convert, table: str, metadata: Mapping[str, str] | None = None
) -> pa.RecordBatch:
    """Convert one column to blobs, or blobs to something else.

    Args:
        batch: The rows.
        path: The column's dotted path; all but the last part name structs.
        convert: Makes the new column of the old one, which is NULL where a struct around it is NULL.
        table: How the user named the table, for messages.
        metadata: What the new column's field is marked with; None to mark it as BLOB.

    Returns:
        The rows with that column replaced.

    Raises:
        UnknownColumnError: There is no such column.
        InvalidBlobError: The column lies within an array or a map.
    """
    whole = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    changed = _replaced(whole, path.split("."), 0, convert, table, _BLOB if metadata is None else metadata)
    return pa.RecordBatch.from_arrays(
        changed.flatten(), schema=pa.schema(list(changed.type), metadata=batch.schema.metadata)
    )


def _replaced(
    parent: pa.StructArray, parts: list[str], depth: int, convert: Convert, table: str, metadata: Mapping[str, str]
) -> pa.StructArray:
    names = [field.name for field in parent.type]
    if parts[depth] not in names:
        raise UnknownColumnError.of(
            ".".join(parts[: depth + 1]), [".".join([*parts[:depth], name]) for name in names], table
        )
    index = names.index(parts[depth])
    fields, children = list(parent.type), parent.flatten()
    field, child = fields[index], children[index]
    if depth + 1 == len(parts):
        children[index] = convert(child)
        marks = {**(field.metadata or {}), **metadata}
        fields[index] = pa.field(field.name, children[index].type, field.nullable, marks)
    elif not pa.types.is_struct(child.type):
        raise InvalidBlobError(
            f"column '{'.'.join(parts)}' lies within '{'.'.join(parts[: depth + 1])}', which is {child.type}; "
            "blobs may be nested in structs only"
        )
    else:
        children[index] = _replaced(child, parts, depth + 1, convert, table, metadata)
        fields[index] = pa.field(field.name, children[index].type, field.nullable, field.metadata)
    return pa.StructArray.from_arrays(children, fields=fields, mask=parent.is_null())
