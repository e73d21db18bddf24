"""Conversion of Python values of blobs (mappings, Rows, Arrow scalars, tuples) to Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import pyarrow as pa

from hudi_vector.blobs.struct import BLOB_TYPE, OUT_OF_LINE, REFERENCE_TYPE
from hudi_vector.errors import InvalidBlobError, number_of

__all__ = ["blob_rows"]

_FORMS = "give a struct with the fields type, data and reference, or (path, offset, length)"


def blob_rows(values: Iterable[Any]) -> pa.StructArray:
    """Return an array of `hudi_vector.blobs.struct.BLOB_TYPE` made from Python values.

    A value is None, a mapping, Row or Arrow scalar with the fields of the struct, or ``(path, offset, length)`` with
    None for a missing offset or length. Raises InvalidBlobError for any other value.

    Example:
        >>> blob_rows([("/videos/a.mp4", 0, 10)])[0]["type"].as_py()
        'OUT_OF_LINE'
    """
    try:
        return pa.array([_struct(value) for value in values], BLOB_TYPE)
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise InvalidBlobError(f"a blob has a field of the wrong type: {problem}") from problem


def _struct(value: Any) -> dict[str, Any] | None:
    if isinstance(value, pa.StructScalar):
        value = value.as_py()
    if value is None:
        return None
    # Spark's Row is a subclass of tuple that knows its field names; only plain tuples are places.
    if type(value) is tuple:
        return _of_place(value)
    try:
        struct = {name: value[name] for name in BLOB_TYPE.names}
        if struct["reference"] is not None:
            struct["reference"] = _reference(*(struct["reference"][name] for name in REFERENCE_TYPE.names))
    except InvalidBlobError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise InvalidBlobError(f"a value of the type {type(value).__name__} is no blob; {_FORMS}") from problem
    if isinstance(struct["data"], (bytearray, memoryview)):
        struct["data"] = bytes(struct["data"])
    return struct


def _of_place(place: tuple[Any, ...]) -> dict[str, Any]:
    if len(place) != 3:
        raise InvalidBlobError(f"a tuple of {number_of(len(place), 'value')} is no blob; {_FORMS}")
    return {"type": OUT_OF_LINE, "data": None, "reference": _reference(*place, False)}


def _reference(path: Any, offset: Any, length: Any, managed: Any) -> dict[str, Any]:
    # Arrow would silently truncate a float's fraction, and floats above 2**53 are not exact.
    for name, value in (("offset", offset), ("length", length)):
        if value is not None and not isinstance(value, Integral):
            raise InvalidBlobError(
                f"a blob's {name} is {value!r}, a {type(value).__name__}; give a whole number of bytes"
            )
    return {"external_path": path, "offset": offset, "length": length, "managed": managed}
