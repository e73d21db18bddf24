"""The vector column that a search reads, and the columns that it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, ByteType, DataType, DoubleType, FloatType, StructField, StructType

from hudi_vector import options
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError, UnsupportedTableError
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import HUDI_TYPE, VectorType
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.spark.resolve import Target

__all__ = [
    "DISTANCE",
    "HUDI_DISTANCE",
    "IN_PYTHON",
    "IN_SQL",
    "RANK",
    "Shown",
    "is_meta",
    "require_no_clash",
    "shown_in_sql",
    "vector_column",
]

DISTANCE, HUDI_DISTANCE, RANK = "_distance", "_hudi_distance", "_rank"


@dataclass(frozen=True)
class Shown:
    """The distance columns that a search shows without being asked, and whether it shows Hudi's meta columns."""

    distances: tuple[str, ...] = (DISTANCE,)
    meta: bool = True

    def parted(self, fields: Sequence[StructField]) -> tuple[list[StructField], list[StructField]]:
        """Return the columns of a table that are shown, and those that have to be named."""
        hidden = [] if self.meta else [field for field in fields if is_meta(field.name)]
        named = [StructField(field.name, field.dataType, field.nullable) for field in hidden]
        return [field for field in fields if field not in hidden], named


IN_SQL, IN_PYTHON = Shown(), Shown(meta=False)


def is_meta(name: str) -> bool:
    """Return True for a column that Hudi adds to the rows of a table, such as ``_hoodie_commit_time``."""
    return name.startswith("_hoodie_")


def shown_in_sql(spark: SparkSession) -> Shown:
    """Return the columns that ``SELECT *`` of a SQL search shows, with the distances of the session's setting."""
    wanted = options.DISTANCE_COLUMNS.read(session_settings(spark))
    return Shown((DISTANCE, HUDI_DISTANCE) if wanted == "both" else (wanted,))


def vector_column(schema: StructType, name: str, table: str, dimension: int | None) -> VectorColumn:
    """Return the searched column; its name matches in any case, an exact match first.

    `dimension` is the length of the query, which an array column gets as its dimension (0 if None); a VECTOR column has
    its own. Raises UnknownColumnError, naming `table`, if there is no such column, InvalidTypeError if it is neither a
    VECTOR nor an array of FLOAT, DOUBLE or TINYINT, UnsupportedTableError if there are no columns at all.
    """
    matching = [field for field in schema.fields if field.name == name] or [
        field for field in schema.fields if field.name.lower() == name.lower()
    ]
    if not schema.fields:
        raise UnsupportedTableError(f"'{table}' has no commit yet and no columns; write to it first")
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
    """Raise InvalidArgumentError if the target has a column, in any case, with one of the names that a search adds."""
    lower = {field.name.lower() for field in target.schema.fields}
    for name in names:
        if name.lower() in lower:
            raise InvalidArgumentError(
                f"'{target.label}' has a column '{name}', the name of a column that the search adds; "
                "search a view that gives it another name"
            )
