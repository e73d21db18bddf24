"""The columns of a search: the one that is searched, and those a search adds."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, ByteType, DataType, DoubleType, FloatType, StructType

from hudi_vector import options
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import HUDI_TYPE, VectorType
from hudi_vector.spark.resolve import Target

__all__ = ["DISTANCE", "HUDI_DISTANCE", "RANK", "require_no_clash", "shown_distances", "vector_column"]

DISTANCE, HUDI_DISTANCE, RANK = "_distance", "_hudi_distance", "_rank"


def shown_distances(spark: SparkSession) -> tuple[str, ...]:
    """Return the columns of the distance that ``SELECT *`` of a SQL function shows, as the session sets it."""
    wanted = options.DISTANCE_COLUMNS.in_session(spark)
    return (DISTANCE, HUDI_DISTANCE) if wanted == "both" else (wanted,)


def vector_column(schema: StructType, name: str, table: str, dimension: int | None) -> VectorColumn:
    """The searched column, as the schema describes it.

    Args:
        schema: The table's columns.
        name: The column's name, in any case.
        table: How messages name the table.
        dimension: The query's length, for an array column that does not say its own.

    Raises:
        UnknownColumnError: There is no such column.
        InvalidTypeError: It is no VECTOR and no array of FLOAT, DOUBLE or TINYINT.
    """
    matching = [field for field in schema.fields if field.name == name] or [
        field for field in schema.fields if field.name.lower() == name.lower()
    ]
    if not matching:
        raise UnknownColumnError.of(name, schema.fieldNames(), table)
    field = matching[0]
    descriptor = str(field.metadata.get(HUDI_TYPE, ""))
    if descriptor.upper().startswith("VECTOR"):
        vector = VectorType.parse(descriptor)
        return VectorColumn(field.name, vector.dimension, vector.element, is_vector=True)
    elements: dict[type[DataType], str] = {FloatType: "float", DoubleType: "double", ByteType: "int8"}
    element = elements.get(type(field.dataType.elementType)) if isinstance(field.dataType, ArrayType) else None
    if element is None:
        raise InvalidTypeError(
            f"column '{field.name}' of '{table}' is {field.dataType.simpleString().upper()}; a search needs a VECTOR "
            "or an array of FLOAT, DOUBLE or TINYINT"
        )
    return VectorColumn(field.name, dimension or 0, element, is_vector=False)


def require_no_clash(target: Target, names: Sequence[str]) -> None:
    """Refuse tables with columns of the names a search adds.

    Raises:
        InvalidArgumentError: There is such a column.
    """
    lower = {field.name.lower() for field in target.schema.fields}
    for name in names:
        if name.lower() in lower:
            raise InvalidArgumentError(
                f"'{target.label}' has a column '{name}', the name of a column that the search adds; "
                "search a view that gives it another name"
            )
