"""The output columns of a search for rows that ask, with their Spark fields, and the rule for names that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import DataType, StructField, StructType

from hudi_vector.query.asking.output import Column
from hudi_vector.schema import free_names
from hudi_vector.spark.columns import Shown, is_meta

__all__ = ["Output", "added_output", "columns_of", "hidden_meta", "output_of", "schema_of", "second_side"]


@dataclass(frozen=True)
class Output:
    """An output column and its Spark field."""

    column: Column
    field: StructField


def added_output(name: str, side: str, kind: DataType, nullable: bool = False) -> Output:
    """Return an output column that the search adds; for the side ``added``, the search calls it `name` too."""
    return Output(Column(name, side, name if side == "added" else ""), StructField(name, kind, nullable))


def output_of(field: StructField, side: str, name: str | None = None) -> Output:
    """Return an output column that holds a field of one of the sides, under its own name or `name`."""
    shown = field.name if name is None else name
    return Output(Column(shown, side, field.name), StructField(shown, field.dataType, field.nullable, field.metadata))


def second_side(fields: Sequence[StructField], side: str, first: Sequence[Output], prefix: str | None) -> list[Output]:
    """Return the columns of the other side; a name that `first` takes gets the prefix, or a number if it is None."""
    names = free_names([field.name for field in fields], [output.column.name for output in first], prefix)
    return [output_of(field, side, name) for field, name in zip(fields, names, strict=True)]


def hidden_meta(outputs: Sequence[Output], shown: Shown) -> list[Output]:
    """Return those columns of both sides that are Hudi's, if they are not shown."""
    return [] if shown.meta else [output for output in outputs if is_meta(output.column.source)]


def columns_of(outputs: Sequence[Output]) -> tuple[Column, ...]:
    """Return the columns without their Spark fields."""
    return tuple(output.column for output in outputs)


def schema_of(outputs: Sequence[Output]) -> StructType:
    """Return the Spark schema of output columns."""
    return StructType([output.field for output in outputs])
