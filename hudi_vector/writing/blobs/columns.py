"""Detection of the blob columns of a DataFrame, and the schema after their conversion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType

from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.storing.writer import BlobColumn
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError
from hudi_vector.schema import BLOB, HUDI_TYPE, blob_struct
from hudi_vector.spark.catalyst.nested_fields import field_at

if TYPE_CHECKING:
    from hudi_vector.writing.request import BlobSpecs

__all__ = ["blob_columns", "blob_paths", "converted_schema", "refuse_collections"]

_CHECK = "check_files"


def blob_columns(
    schema: StructType, in_table: StructType | None, specs: BlobSpecs, settings: BlobSettings
) -> tuple[BlobColumn, ...]:
    """Return the blob columns of a write, sorted by path.

    These are the columns that the caller named, that the DataFrame marks as BLOB, or that are BLOB in the table.

    Args:
        schema: The DataFrame's columns.
        in_table: The columns of the existing table, None if there is none.
        specs: The caller's settings per column, by dotted path.
        settings: The settings that `specs` overrides.

    Raises:
        UnknownColumnError: A named column is not in the DataFrame.
        InvalidArgumentError: A named column is not a BLOB in the table.
        InvalidTypeError: A column's type cannot hold blobs.
        InvalidOptionError: A setting has an invalid value.
    """
    tables = set(blob_paths(in_table)) if in_table is not None else set()
    marked = {path for path in {*blob_paths(schema), *tables} if field_at(schema, path) is not None}
    for path in specs:
        if field_at(schema, path) is None:
            raise UnknownColumnError.of(path, schema.names, "the DataFrame")
        known = field_at(in_table, path) if in_table is not None else None
        if known is not None and path not in tables:
            raise InvalidArgumentError(
                f"column '{path}' is {known.dataType.simpleString().upper()} in the table and cannot take blobs; "
                "write them to another column"
            )
    columns: list[BlobColumn] = []
    for path in sorted({*marked, *specs}):
        _require_blob_type(schema, path)
        own = dict(specs.get(path, {}))
        check = own.pop(_CHECK, True)
        if not isinstance(check, bool):
            raise InvalidArgumentError(f"blobs['{path}']['{_CHECK}'] = {check!r} is not allowed: give True or False")
        texts = {key: str(value) for key, value in own.items()}
        columns.append(BlobColumn(path, settings.for_column(path, texts) if texts else settings, check))
    return tuple(columns)


def _require_blob_type(schema: StructType, path: str) -> None:
    field = field_at(schema, path)
    assert field is not None
    kind = field.dataType
    if not isinstance(kind, (BinaryType, StringType)) and not (isinstance(kind, StructType) and _is_blob(kind)):
        raise InvalidTypeError(
            f"column '{path}' is {kind.simpleString()} and cannot be stored as BLOB; give bytes (binary), paths of "
            "files (string), or structs {type, data, reference: {external_path, offset, length, managed}}"
        )


def blob_paths(schema: StructType, prefix: str = "") -> Iterator[str]:
    """Yield `prefix` and the dotted path of each field whose metadata says BLOB, at top level and in structs."""
    for field in schema.fields:
        path = prefix + field.name
        if str((field.metadata or {}).get(HUDI_TYPE, "")).upper() == BLOB:
            yield path
        elif isinstance(field.dataType, StructType):
            yield from blob_paths(field.dataType, path + ".")


def refuse_collections(schema: StructType) -> None:
    """Raise InvalidArgumentError if blobs are in an array or map at any level.

    Hudi 1.2 accepts these, but no reader can read them.
    """
    found = next(_collections(schema, "", False), None)
    if found is not None:
        raise InvalidArgumentError(
            f"nothing was written: column '{found}' holds blobs in an array or map, and a BLOB may be nested in "
            "structs only (RFC-100); make a row of each, or a struct with a field for each"
        )


def _collections(kind: DataType, path: str, inside: bool) -> Iterator[str]:
    if isinstance(kind, StructType):
        if inside and _is_blob(kind):
            yield path
        for field in kind.fields:
            marked = inside and str((field.metadata or {}).get(HUDI_TYPE, "")).upper() == BLOB
            own = f"{path}.{field.name}" if path else field.name
            if marked:
                yield own
            yield from _collections(field.dataType, own, inside)
    elif isinstance(kind, ArrayType):
        yield from _collections(kind.elementType, path, True)
    elif isinstance(kind, MapType):
        yield from _collections(kind.keyType, path, True)
        yield from _collections(kind.valueType, path, True)


def _is_blob(kind: StructType) -> bool:
    blob = blob_struct()
    if [name.lower() for name in kind.names] != blob.names or not isinstance(kind[2].dataType, StructType):
        return False
    reference = blob["reference"].dataType
    assert isinstance(reference, StructType)
    return [name.lower() for name in kind[2].dataType.names] == reference.names


def converted_schema(schema: StructType, columns: tuple[BlobColumn, ...]) -> StructType:
    """Return the schema with blob structs in the blob columns, marked as Hudi marks them."""
    return _converted(schema, {column.path: column for column in columns}, "")


def _converted(schema: StructType, columns: Mapping[str, BlobColumn], prefix: str) -> StructType:
    fields = []
    for field in schema.fields:
        path = prefix + field.name
        if path in columns:
            metadata = {**(field.metadata or {}), HUDI_TYPE: BLOB}
            fields.append(StructField(field.name, blob_struct(), field.nullable, metadata))
        elif isinstance(field.dataType, StructType):
            inner = _converted(field.dataType, columns, path + ".")
            fields.append(StructField(field.name, inner, field.nullable, field.metadata))
        else:
            fields.append(field)
    return StructType(fields)
