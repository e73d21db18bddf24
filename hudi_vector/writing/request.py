"""The arguments of a `write` call, normalised and checked without a look at the table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.options import require_known
from hudi_vector.schema import VectorType
from hudi_vector.storage import path_text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OPERATIONS", "TABLE_TYPES", "BlobSpecs", "VectorSpec", "WriteRequest", "vector_type", "write_request"]

V = TypeVar("V")

VectorSpec = int | tuple[int, str] | str | VectorType
"""The description of a vector column: ``128``, ``(128, "double")``, ``"VECTOR(128, INT8)"`` or a `VectorType`."""

BlobSpecs = Mapping[str, Mapping[str, object]]
"""The settings of blob columns by dotted path."""

OPERATIONS = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table")
TABLE_TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}

_CDC = "hoodie.table.cdc.enabled"

# Hudi stores the schema in Avro, where the size of a fixed field is a Java int.
_MAX_WIDTH = 2**31 - 1

# Options that have the same meaning as an argument; they are refused, so that the two cannot contradict each other.
_ARGUMENT_OF = {
    "path": "table",
    "hoodie.datasource.write.operation": "operation",
    "hoodie.datasource.write.recordkey.field": "record_key",
    "hoodie.table.recordkey.fields": "record_key",
    "hoodie.datasource.write.partitionpath.field": "partition_by",
    "hoodie.table.partition.fields": "partition_by",
    "hoodie.table.ordering.fields": "ordering",
    "hoodie.table.precombine.field": "ordering",
    "hoodie.datasource.write.precombine.field": "ordering",
    "hoodie.datasource.write.table.type": "table_type",
    "hoodie.table.type": "table_type",
}


@dataclass(frozen=True)
class WriteRequest:
    """The arguments of one `write` call; None if not given."""

    table: str
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] | None
    ordering: tuple[str, ...] | None
    table_type: str | None
    operation: str
    vectors: Mapping[str, VectorType]
    blobs: BlobSpecs
    options: Mapping[str, str]
    sort_by: tuple[str, ...]


def write_request(
    table: str | os.PathLike[str],
    *,
    record_key: str | Iterable[str],
    partition_by: str | Iterable[str] | None = None,
    ordering: str | Iterable[str] | None = None,
    table_type: str | None = None,
    operation: str = "upsert",
    vectors: Mapping[str, VectorSpec] | None = None,
    blobs: Iterable[str] | BlobSpecs | None = None,
    options: Mapping[str, object] | None = None,
    sort_by: str | Iterable[str] | None = None,
) -> WriteRequest:
    """Return the arguments of `write` in normalised form.

    `table` is a path with or without a scheme, or a catalog name; all other arguments are as for `hudi_vector.write`.
    Raises InvalidArgumentError if a value is not allowed, InvalidTypeError if it has the wrong type.

    Example:
        >>> write_request("/tables/a", record_key="id", vectors={"emb": 3}).vectors
        {'emb': VectorType(dimension=3, element='float')}
    """
    table = path_text(table)
    if not isinstance(table, str) or not table.strip():
        raise InvalidTypeError(f"table is a path or a catalog name, not {table!r}")
    keys = _names("record_key", record_key)
    if not keys:
        raise InvalidArgumentError("record_key is empty; name the column, or the columns, that identify a row")
    request = WriteRequest(
        table=table.strip(),
        record_key=keys,
        partition_by=None if partition_by is None else _names("partition_by", partition_by),
        ordering=None if ordering is None else _names("ordering", ordering),
        table_type=None if table_type is None else _table_type(table_type),
        operation=_one_of("operation", operation, OPERATIONS),
        vectors={name: vector_type(name, spec) for name, spec in _mapping("vectors", vectors).items()},
        blobs=blob_specs(blobs),
        options=_options(_mapping("options", options)),
        sort_by=() if sort_by is None else _names("sort_by", sort_by),
    )
    if request.sort_by and request.operation != "bulk_insert":
        raise InvalidArgumentError(
            f"sort_by is for operation 'bulk_insert' and cannot be used with '{request.operation}'; leave it out"
        )
    if request.vectors and request.options.get(_CDC, "").strip().lower() == "true":
        raise InvalidArgumentError(
            f"{_CDC} = true keeps whole rows inside others, where Hudi 1.2 takes no VECTOR column: the table could be "
            "written once, and never again; leave it out"
        )
    return request


def blob_specs(blobs: Iterable[str] | BlobSpecs | None) -> BlobSpecs:
    """Return the settings of blob columns by dotted path, empty for columns that were only named.

    Raises InvalidTypeError if `blobs` is neither a list of paths nor a mapping from paths to settings.

    Example:
        >>> blob_specs(["img"])
        {'img': {}}
    """
    if blobs is None:
        return {}
    if isinstance(blobs, Mapping):
        for path, settings in blobs.items():
            if not isinstance(path, str) or not isinstance(settings, Mapping):
                raise InvalidTypeError(f"blobs[{path!r}] = {settings!r} is not allowed: give a mapping of settings")
        return {path.strip(): dict(settings) for path, settings in blobs.items()}
    return {name: {} for name in _names("blobs", blobs)}


def vector_type(column: str, spec: VectorSpec) -> VectorType:
    """Return the vector type that a value of the argument `vectors` describes.

    `spec` is a dimension, a dimension with an element type, a descriptor, or a `VectorType`. Raises
    InvalidArgumentError if the dimension or the element type is not allowed, InvalidTypeError if `spec` has another
    form.

    Example:
        >>> vector_type("emb", (128, "double")).descriptor
        'VECTOR(128, DOUBLE)'
    """
    if isinstance(spec, VectorType):
        found = spec
    elif isinstance(spec, str):
        found = VectorType.parse(spec)
    elif isinstance(spec, int) and not isinstance(spec, bool):
        found = VectorType(spec)
    elif isinstance(spec, (tuple, list)) and len(spec) == 2:
        found = VectorType(*spec)
    else:
        raise InvalidTypeError(
            f"vectors[{column!r}] = {spec!r} describes no vector: "
            "give 128, (128, 'double'), 'VECTOR(128, INT8)' or a VectorType"
        )
    if found.width > _MAX_WIDTH:
        raise InvalidArgumentError(
            f"column '{column}' would be {found.descriptor}, {found.width} bytes a vector; "
            f"Hudi allows {_MAX_WIDTH // found.dtype.itemsize} elements of {found.element.upper()}"
        )
    return found


def _names(argument: str, value: str | Iterable[str]) -> tuple[str, ...]:
    # Hudi separates several names by commas.
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"{argument} is a column name or a list of them, not {value!r}")
    tidy = tuple(name.strip() for name in names if name.strip())
    repeated = next((name for name in tidy if tidy.count(name) > 1), None)
    if repeated is not None:
        raise InvalidArgumentError(f"{argument} names column '{repeated}' more than once; name it once")
    return tidy


def _mapping(argument: str, value: Mapping[str, V] | None) -> Mapping[str, V]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidTypeError(f"{argument} is a mapping by name, such as {{'a': 1}}, not {value!r}")
    return value or {}


def _one_of(argument: str, value: object, allowed: tuple[str, ...]) -> str:
    found = value.strip().lower() if isinstance(value, str) else None
    if found not in allowed:
        raise InvalidArgumentError(f"{argument} = {value!r} is not allowed: give one of {', '.join(allowed)}")
    return found


def _table_type(value: object) -> str:
    """Return the short name of a table type, which may be given by its long one."""
    short = {long.lower(): short for short, long in TABLE_TYPES.items()}
    named = short.get(value.strip().lower(), value) if isinstance(value, str) else value
    return _one_of("table_type", named, tuple(TABLE_TYPES))


def _options(options: Mapping[str, object]) -> dict[str, str]:
    for key in options:
        if key in _ARGUMENT_OF:
            raise InvalidArgumentError(f"options holds '{key}'; use the argument {_ARGUMENT_OF[key]} instead")
    require_known(options, any_case=True)
    return {key: _text(value) for key, value in options.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
