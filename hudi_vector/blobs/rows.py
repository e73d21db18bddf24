"""Blobs as Python programs hold them (mappings, Rows, Arrow scalars, tuples), to Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from hudi_vector.blobs.struct import OUT_OF_LINE, blob_array
from hudi_vector.errors import InvalidBlobError

__all__ = ["blob_rows"]

_NOTHING = (None,) * 6
_FORMS = "give a struct with the fields type, data and reference, or (path, offset, length)"


def blob_rows(values: Iterable[Any]) -> pa.StructArray:
    """Blob structs from Python values.

    Args:
        values: None, or a blob as a mapping or Row with the fields of the struct, as an Arrow scalar, or as
            ``(path, offset, length)`` with None for a missing offset or length.

    Returns:
        An array of `hudi_vector.blobs.struct.BLOB_TYPE`.

    Raises:
        InvalidBlobError: A value is none of these.

    Example:
        >>> blob_rows([("/videos/a.mp4", 0, 10)])[0]["type"].as_py()
        'OUT_OF_LINE'
    """
    rows = [_fields(value) for value in values]
    try:
        return blob_array(*(zip(*rows, strict=True) if rows else [[]] * 6))
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise InvalidBlobError(f"a blob has a field of the wrong type: {problem}") from problem


def _fields(value: Any) -> tuple[Any, ...]:
    if isinstance(value, pa.StructScalar):
        value = value.as_py()
    if value is None:
        return _NOTHING
    # Spark's Row is a tuple too, a subclass that knows the names of its fields.
    if type(value) is tuple:
        if len(value) != 3 or value[0] is None:
            raise InvalidBlobError(f"a tuple of {len(value)} values is no blob; {_FORMS}")
        return OUT_OF_LINE, None, *value, False
    try:
        kind, data, reference = (value[name] for name in ("type", "data", "reference"))
        placed = (
            (None,) * 4
            if reference is None
            else tuple(reference[name] for name in ("external_path", "offset", "length", "managed"))
        )
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise InvalidBlobError(f"a {type(value).__name__} is no blob; {_FORMS}") from problem
    return kind, bytes(data) if isinstance(data, (bytearray, memoryview)) else data, *placed
