"""The VECTOR and BLOB logical types: descriptors, Spark and Arrow fields, checks of their values.

The descriptor text follows RFC-99 as Hudi 1.2 writes it into the field metadata ``hudi_type``: ``VECTOR(128)``,
``VECTOR(128, DOUBLE)``, ``VECTOR(128, INT8)``. FLOAT is the default and left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

__all__ = [
    "BLOB",
    "HUDI_TYPE",
    "VectorType",
    "blob_field",
    "blob_struct",
    "free_names",
    "quoted",
    "quoted_if_needed",
    "vector_field",
]

HUDI_TYPE = "hudi_type"
"""The field metadata key under which Hudi stores a logical type."""

BLOB = "BLOB"
"""The descriptor of the BLOB type of RFC-100."""

_DESCRIPTOR = re.compile(r"\s*VECTOR\s*\(\s*(\d+)\s*(?:,\s*(\w+)\s*)?\)\s*", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ELEMENTS = {"float": "float", "double": "double", "int8": "int8", "byte": "int8"}
_DTYPES = {"float": "<f4", "double": "<f8", "int8": "i1"}
_ARROW = {"float": pa.float32(), "double": pa.float64(), "int8": pa.int8()}


@dataclass(frozen=True)
class VectorType:
    """The number of elements of a vector and their type."""

    dimension: int
    element: str = "float"

    def __post_init__(self) -> None:
        if isinstance(self.dimension, bool) or not isinstance(self.dimension, int):
            raise InvalidTypeError(f"the dimension of a vector is a whole number, not {self.dimension!r}")
        if self.dimension < 1:
            raise InvalidArgumentError(f"the dimension of a vector is 1 or more, not {self.dimension}")
        element = _ELEMENTS.get(str(self.element).lower())
        if element is None:
            raise InvalidArgumentError(f"the element type of a vector is float, double or int8, not {self.element!r}")
        object.__setattr__(self, "element", element)

    @classmethod
    def parse(cls, descriptor: str) -> VectorType:
        """Parse a descriptor (``VECTOR(128, DOUBLE)``), in any case; BYTE is a synonym of INT8.

        Raises InvalidArgumentError if the text is not a VECTOR descriptor.

        Example:
            >>> VectorType.parse("VECTOR(3, DOUBLE)")
            VectorType(dimension=3, element='double')
        """
        found = _DESCRIPTOR.fullmatch(descriptor)
        if found is None:
            raise InvalidArgumentError(
                f"{descriptor!r} is no vector type: write VECTOR(n) or VECTOR(n, FLOAT|DOUBLE|INT8)"
            )
        return cls(int(found[1]), found[2] or "float")

    @property
    def descriptor(self) -> str:
        """Return the text that Hudi stores in ``hudi_type``."""
        suffix = "" if self.element == "float" else f", {self.element.upper()}"
        return f"VECTOR({self.dimension}{suffix})"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the little-endian numpy type of one element, as RFC-99 stores it."""
        return np.dtype(_DTYPES[self.element])

    @property
    def width(self) -> int:
        """Return the bytes of one stored vector."""
        return self.dimension * self.dtype.itemsize

    @property
    def arrow_element(self) -> pa.DataType:
        """Return the Arrow type of one element."""
        return _ARROW[self.element]


@known_arguments()
def vector_field(name: str, dim: int, element: str = "float", nullable: bool = True) -> StructField:
    """Make a Spark schema field that Hudi stores as ``VECTOR(dim, element)``.

    Args:
        name: The column's name.
        dim: The number of elements of each vector, 1 or more.
        element: The type of the elements: ``"float"``, ``"double"`` or ``"int8"``.
        nullable: Whether a row may have no vector. Elements are never NULL.

    Returns:
        An ``ArrayType`` field without NULL elements, with Hudi's ``hudi_type`` metadata.

    Raises:
        InvalidArgumentError: If the dimension or the element type is not allowed.
        InvalidTypeError: If the dimension is not an integer.
        MissingDependencyError: If pyspark is not installed.

    Example:
        >>> vector_field("embedding", 3).metadata
        {'hudi_type': 'VECTOR(3)'}
    """
    try:
        from pyspark.sql.types import ArrayType, ByteType, DoubleType, FloatType, StructField
    except ImportError as absent:
        raise MissingDependencyError("a Spark field needs pyspark: pip install pyspark") from absent
    vector = VectorType(dim, element)
    types = {"float": FloatType(), "double": DoubleType(), "int8": ByteType()}
    return StructField(
        name, ArrayType(types[vector.element], containsNull=False), nullable, {HUDI_TYPE: vector.descriptor}
    )


def blob_struct() -> StructType:
    """Return RFC-100's struct as a Spark type: ``{type, data, reference{external_path, offset, length, managed}}``.

    Every field is nullable, as in Hudi. Raises MissingDependencyError if pyspark is not installed.

    Example:
        >>> blob_struct().fieldNames()
        ['type', 'data', 'reference']
    """
    try:
        from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField, StructType
    except ImportError as absent:
        raise MissingDependencyError("a Spark type needs pyspark: pip install pyspark") from absent
    reference = StructType(
        [
            StructField("external_path", StringType()),
            StructField("offset", LongType()),
            StructField("length", LongType()),
            StructField("managed", BooleanType()),
        ]
    )
    return StructType(
        [StructField("type", StringType()), StructField("data", BinaryType()), StructField("reference", reference)]
    )


@known_arguments()
def blob_field(name: str, nullable: bool = True) -> StructField:
    """Make a Spark schema field that Hudi stores as ``BLOB``.

    Args:
        name: The column's name.
        nullable: Whether a row may have no blob.

    Returns:
        A struct field with Hudi's ``hudi_type`` metadata.

    Raises:
        MissingDependencyError: If pyspark is not installed.

    Example:
        >>> blob_field("img").metadata
        {'hudi_type': 'BLOB'}
    """
    struct = blob_struct()
    from pyspark.sql.types import StructField

    return StructField(name, struct, nullable, {HUDI_TYPE: BLOB})


def quoted(*names: str) -> str:
    """Return the name of a column, or the path of a nested field, in back-ticks for Spark's expressions and DDL.

    Example:
        >>> quoted("a`b"), quoted("doc", "page.no")
        ('`a``b`', '`doc`.`page.no`')
    """
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def quoted_if_needed(name: str) -> str:
    """Return a column's name for an expression: in back-ticks unless it is a plain word.

    Example:
        >>> quoted_if_needed("price"), quoted_if_needed("list price")
        ('price', '`list price`')
    """
    return name if _WORD.fullmatch(name) else quoted(name)


def free_names(names: Sequence[str], taken: Collection[str], prefix: str | None) -> list[str]:
    """Return the names, each taken one changed until it is free; free names stay as they are.

    With `prefix`, it is put before a taken name as often as needed, and no name is changed to another one of `names`.
    With None, numbers from 0 are put behind it, and a later one of `names` that then is taken is changed too. `names`
    must differ even when case is ignored, and case is ignored in `taken`.

    Example:
        >>> free_names(["id", "q_id", "name"], ["ID"], "q_")
        ['q_q_id', 'q_id', 'name']
        >>> free_names(["id", "name", "id0"], ["ID"], None)
        ['id0', 'name', 'id00']
    """
    used = {name.lower() for name in taken}
    # A free name stays with its column, so no other column may get it by a prefix.
    kept = set() if prefix is None else {name.lower() for name in names} - used
    found = []
    for name in names:
        free, number = name, 0
        while free.lower() in used or (free != name and free.lower() in kept):
            free, number = (f"{name}{number}" if prefix is None else prefix + free), number + 1
        used.add(free.lower())
        found.append(free)
    return found
