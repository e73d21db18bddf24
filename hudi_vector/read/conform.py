"""Conversion of the columns of a data file to the types of the table.

An older file may lack a column, hold it in a narrower type, or store it in another physical type of the same meaning.
A column that cannot be converted to the table's type raises an error.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.read.predicate.zone import in_micros
from hudi_vector.schema import HUDI_TYPE, VectorType

__all__ = ["by_digits", "conform", "vector_type"]


def vector_type(field: pa.Field) -> VectorType | None:
    """Return the VECTOR type of a field of the table's schema, or None if the field is not a VECTOR."""
    text = (field.metadata or {}).get(HUDI_TYPE.encode())
    if text is None or not text.upper().startswith(b"VECTOR"):
        return None
    return VectorType.parse(text.decode())


def conform(table: pa.Table | pa.RecordBatch, fields: list[pa.Field]) -> pa.Table:
    """Return exactly the columns `fields`, in this order and in these types, of data read from a file.

    Columns that the file lacks are NULL; names are compared without case. Raises UnsupportedTableError if a column
    cannot be converted.
    """
    present = {name.lower(): index for index, name in enumerate(table.schema.names)}
    columns = []
    for field in fields:
        index = present.get(field.name.lower())
        if index is None:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        columns.append(_column(table.column(index), field))
    arrays = [column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]) for column in columns]
    schema = pa.schema([pa.field(field.name, field.type) for field in fields])
    return pa.Table.from_arrays(arrays, schema=schema) if fields else pa.table({}).slice(0, 0)


def _column(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    vector = vector_type(field)
    return pa.chunked_array([_array(chunk, field.type, vector, field.name) for chunk in chunks], type=field.type)


def _array(array: pa.Array, wanted: pa.DataType, vector: VectorType | None, name: str) -> pa.Array:
    held = array.type
    if held.equals(wanted):
        return array
    if pa.types.is_dictionary(held):
        return _array(array.dictionary_decode(), wanted, vector, name)
    if vector is not None and held == pa.binary(vector.width):
        return vectors_as_lists(array, vector, wanted)
    if pa.types.is_struct(wanted) and pa.types.is_struct(held):
        return _struct(array, wanted, name)
    if pa.types.is_list(wanted) and _is_list(held):
        return _list(array, wanted, name)
    if pa.types.is_map(wanted) and pa.types.is_map(held):
        return _map(array, wanted, name)
    if pa.types.is_decimal(wanted) and pa.types.is_fixed_size_binary(held):
        return _decimal(array, wanted)
    try:
        return _cast(array, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise UnsupportedTableError(
            f"column '{name}' is stored as {held} in a file and cannot be read as {wanted}: {problem}"
        ) from problem


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return scalars in a wider type, as Hudi's readers widen those of files from before a column's type changed.

    A FLOAT becomes the DOUBLE with the same decimal digits, and a floating-point number its text in Java.
    """
    if pa.types.is_timestamp(wanted) and wanted.unit == "us":
        array = in_micros(array)
    held = array.type
    if pa.types.is_floating(held) and pa.types.is_string(wanted):
        return pa.array(
            [None if text is None else _in_java(text) for text in pc.cast(array, wanted).to_pylist()], wanted
        )
    if pa.types.is_float32(held) and pa.types.is_float64(wanted):
        return by_digits(array)
    # A whole number that no floating-point number equals becomes the nearest one.
    return pc.cast(array, wanted, safe=not (pa.types.is_integer(held) and pa.types.is_floating(wanted)))


def by_digits(array: pa.Array) -> pa.Array:
    """Return FLOATs as the DOUBLEs that their shortest decimal texts stand for.

    Example:
        >>> by_digits(pa.array([0.1], pa.float32())).to_pylist()
        [0.1]
    """
    return pc.cast(pc.cast(array, pa.large_string()), pa.float64())


def _in_java(text: str) -> str:
    """Return the text of a floating-point number as Java's ``String.valueOf`` has it.

    Example:
        >>> [_in_java(text) for text in ("1e+10", "0.25", "3", "-inf")]
        ['1.0E10', '0.25', '3.0', '-Infinity']
    """
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    if text in ("nan", "inf"):
        return sign + {"nan": "NaN", "inf": "Infinity"}[text]
    number = Decimal(text).normalize()
    power = number.adjusted()
    if number and not -3 <= power < 7:
        first, *rest = map(str, number.as_tuple().digits)
        return f"{sign}{first}.{''.join(rest) or '0'}E{power}"
    plain = f"{number:f}"
    return sign + (plain if "." in plain else f"{plain}.0")


def vectors_as_lists(array: pa.Array, vector: VectorType, wanted: pa.DataType) -> pa.Array:
    """Convert stored vectors (fixed-size binary, little-endian) to Arrow lists of type `wanted`; NULL stays NULL."""
    width = vector.width
    raw = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    values = pa.array(raw.view(vector.dtype))
    offsets = np.arange(len(array) + 1, dtype=np.int32) * vector.dimension
    mask = array.is_null() if array.null_count else None
    child = pa.field(wanted.value_field.name, wanted.value_type, wanted.value_field.nullable)
    return pa.ListArray.from_arrays(pa.array(offsets), values.cast(wanted.value_type), pa.list_(child), mask=mask)


def _is_list(held: pa.DataType) -> bool:
    return bool(pa.types.is_list(held) or pa.types.is_large_list(held) or pa.types.is_fixed_size_list(held))


def _struct(array: pa.StructArray, wanted: pa.StructType, name: str) -> pa.Array:
    by_name = {array.type.field(i).name.lower(): i for i in range(array.type.num_fields)}
    children = []
    for i in range(wanted.num_fields):
        field = wanted.field(i)
        at = by_name.get(field.name.lower())
        if at is None:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(_array(array.field(at), field.type, None, f"{name}.{field.name}"))
    fields = [wanted.field(i) for i in range(wanted.num_fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _list(array: Any, wanted: pa.ListType, name: str) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    start, stop = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
    values = _array(array.values.slice(start, stop - start), wanted.value_type, None, name)
    offsets = pc.subtract(array.offsets, start)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, pa.list_(wanted.value_field), mask=mask)


def _map(array: pa.MapArray, wanted: pa.MapType, name: str) -> pa.Array:
    start, stop = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
    keys = _array(array.keys.slice(start, stop - start), wanted.key_type, None, name)
    items = _array(array.items.slice(start, stop - start), wanted.item_type, None, name)
    offsets = pc.subtract(array.offsets, start)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, pa.map_(wanted.key_type, wanted.item_field), mask=mask)


def _decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    def value(raw: bytes | None) -> Decimal | None:
        if raw is None:
            return None
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-wanted.scale)

    return pa.array([value(raw) for raw in array.to_pylist()], wanted)
