"""Vector columns as Spark expressions: checks of their values, and the values as Hudi stores them.

The checks use ``array_max``, ``array_min``, ``array_contains`` and casts, which Spark compiles. A lambda over the
elements (``exists``, ``forall``) would be interpreted, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    UserDefinedType,
)

from hudi_vector.errors import InvalidTypeError
from hudi_vector.schema import HUDI_TYPE, VectorType, quoted
from hudi_vector.writing.vectors.binary import decode_binary

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REASONS", "VectorColumn", "as_arrays", "vector_column"]

REASONS = ("NULL vector", "wrong length", "NULL element", "NaN or infinite element", "element out of range")
"""The reasons why a vector is invalid; a vector is counted under the first that applies."""

_SPARK_ELEMENT: dict[str, DataType] = {"float": FloatType(), "double": DoubleType(), "int8": ByteType()}
_FRACTIONS = (FloatType, DoubleType)
_NUMBERS = (*_FRACTIONS, DecimalType, ByteType, ShortType, IntegerType, LongType)
_INFINITY = float("inf")
_FLOAT_OVERFLOW = float(2**128 - 2**103)
"""The smallest double that a cast to float rounds to infinity."""


@dataclass(frozen=True)
class VectorColumn:
    """A column of the DataFrame that will be stored as a vector."""

    name: str
    vector: VectorType
    kind: str
    """The form of the values: ``array``, ``ml`` (a Spark ML vector) or ``binary``."""
    element: DataType
    """The type of an element after the conversion to an array."""
    contains_null: bool
    nullable: bool
    metadata: Mapping[str, object]

    def invalid_because(self) -> Column:
        """Return an expression for the reason why a value is invalid, NULL for valid values.

        The expression expects the column as returned by `as_arrays`.
        """
        array = F.col(quoted(self.name))
        no_vector = F.lit(None) if self.nullable else F.lit(REASONS[0])
        reason = F.when(array.isNull(), no_vector).when(F.size(array) != self.vector.dimension, F.lit(REASONS[1]))
        if self.contains_null:
            # Without a NaN in the array, `array_contains` returns NULL if an element is NULL, else false.
            has_nan = F.array_contains(*_searchable(array, self.element))
            reason = reason.when(has_nan.isNull(), F.lit(REASONS[2]))
        if isinstance(self.element, _FRACTIONS):
            reason = reason.when(~_is_within(array, _INFINITY), F.lit(REASONS[3]))
        unfit = self._out_of_range(array)
        return reason if unfit is None else reason.when(unfit, F.lit(REASONS[4]))

    def as_stored(self, otherwise: Column | None = None) -> Column:
        """Return an expression for the column as Hudi stores it, under the column's name.

        Its elements have the stored type and are never NULL; the field has Hudi's metadata. The expression expects the
        column as returned by `as_arrays`. `otherwise` replaces invalid values; None for NULL.
        """
        element = _SPARK_ELEMENT[self.vector.element]
        array = F.col(quoted(self.name))
        values = array if self.element == element else array.cast(ArrayType(element, self.contains_null))
        if self.contains_null:
            zero = F.lit(0).cast(element)
            values = F.transform(values, lambda number: F.coalesce(number, zero))
        checked = F.when(self.invalid_because().isNull(), values)
        if otherwise is not None:
            checked = checked.otherwise(otherwise.cast(ArrayType(element, False)))
        if not self.nullable:
            # The empty array is never used: it only makes Spark infer NOT NULL. Otherwise Hudi would make the column
            # nullable for good.
            checked = F.coalesce(checked, F.array().cast(ArrayType(element, False)))
        return checked.alias(self.name, metadata={**self.metadata, HUDI_TYPE: self.vector.descriptor})

    def _out_of_range(self, array: Column) -> Column | None:
        if self.vector.element == "int8" and not isinstance(self.element, ByteType):
            beyond = (F.array_max(array) > 127) | (F.array_min(array) < -128)
            if isinstance(self.element, (*_FRACTIONS, DecimalType)):
                there_and_back = array.cast("array<tinyint>").cast(ArrayType(self.element, self.contains_null))
                return F.when(beyond, F.lit(True)).otherwise(there_and_back != array)
            return beyond
        if self.vector.element == "float" and isinstance(self.element, DoubleType):
            return ~_is_within(array, _FLOAT_OVERFLOW)
        return None


def vector_column(field: StructField, vector: VectorType, nullable: bool) -> VectorColumn:
    """Return the description of a column of the DataFrame that will be stored as a vector.

    `nullable` says whether the table accepts rows without a vector. Raises InvalidTypeError if the column's type cannot
    hold vectors.
    """
    kind, element, contains_null = _recognise(field, vector)
    return VectorColumn(field.name, vector, kind, element, contains_null, nullable, field.metadata or {})


def as_arrays(frame: DataFrame, columns: list[VectorColumn]) -> DataFrame:
    """Return the DataFrame with ML vectors and binary columns converted to arrays; the order of columns stays."""
    ml_columns = {column.name: _from_ml(column.name) for column in columns if column.kind == "ml"}
    frame = frame.withColumns(ml_columns) if ml_columns else frame
    widths = {column.name: column.vector for column in columns if column.kind == "binary"}
    return decode_binary(frame, widths) if widths else frame


def _recognise(field: StructField, vector: VectorType) -> tuple[str, DataType, bool]:
    kind = field.dataType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, _NUMBERS):
        return "array", kind.elementType, kind.containsNull
    if isinstance(kind, BinaryType):
        return "binary", _SPARK_ELEMENT[vector.element], False
    if isinstance(kind, UserDefinedType) and kind.scalaUDT().endswith("linalg.VectorUDT"):
        return "ml", DoubleType(), False
    raise InvalidTypeError(
        f"column '{field.name}' is {kind.simpleString()} and cannot be stored as {vector.descriptor}; "
        "give an array of numbers, a Spark ML vector, or the elements' bytes (binary)"
    )


def _from_ml(name: str) -> Column:
    from pyspark.ml.functions import vector_to_array

    column = F.col(quoted(name))
    return F.when(column.isNotNull(), vector_to_array(column, "float64"))


def _searchable(array: Column, element: DataType) -> tuple[Column, Column]:
    """Return an array that can be searched for NaN, and a NaN of its type; cast only if needed, as casts are slow."""
    if isinstance(element, _FRACTIONS):
        return array, F.lit(float("nan")).cast(element)
    return array.cast("array<double>"), F.lit(float("nan"))


def _is_within(array: Column, bound: float) -> Column:
    # Spark orders NaN above infinity, so the maximum reveals it.
    return (F.array_max(array) < bound) & (F.array_min(array) > -bound)
