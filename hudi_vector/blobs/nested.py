"""Replacement of one column of a record batch, which may be nested in structs."""

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
    """Return the rows with one column converted to blobs, or from blobs to something else.

    `path` is the column's dotted path; all but its last part name structs. `convert` gets the old column, which is NULL
    where a struct around it is NULL. `table` is the table's name as the user gave it, for messages. `metadata` is added
    to the new column's field; None marks it as BLOB. Raises UnknownColumnError if there is no such column,
    InvalidBlobError if the column lies within an array or a map.
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
