"""The output columns of a streaming search: the stream's, the table's, and those that the search adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, IntegerType, StructField, TimestampNTZType, TimestampType

from hudi_vector.arguments import as_text
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnknownColumnError
from hudi_vector.query.asking.output import Column
from hudi_vector.spark.columns import DISTANCE, RANK
from hudi_vector.spark.search.output import Output, added_output, output_of, second_side

__all__ = [
    "CLASHES",
    "JOINS",
    "SCORE",
    "chosen",
    "event_column",
    "outputs_of",
    "rowtime",
    "without_watermark",
]

SCORE, ROWTIME = "score", "rowtime"
_PREFIX = "_hudi_search_"
CLASHES = ("prefix", "suffix")
JOINS = ("inner", "left_outer")
_WATERMARK = "spark.watermarkDelayMs"


def event_column(stream: DataFrame, name: Any) -> StructField | None:
    """Return the stream's column of event times, or None if `name` is None; `name` may be in any case.

    Raises UnknownColumnError if there is no such column, InvalidTypeError if it is not a TIMESTAMP, and
    InvalidArgumentError if the stream is a streaming DataFrame and the column has no watermark.
    """
    text = as_text(name, "on_time", allow_null=True)
    if text is None:
        return None
    [field] = chosen(stream.schema.fields, [text], "the stream")
    if not isinstance(field.dataType, (TimestampType, TimestampNTZType)):
        raise InvalidTypeError(
            f"on_time takes a TIMESTAMP, and the stream's column '{field.name}' is "
            f"{field.dataType.simpleString().upper()}; cast it"
        )
    if stream.isStreaming and _WATERMARK not in field.metadata:
        raise InvalidArgumentError(
            f"on_time takes the stream's event time, and its column '{field.name}' has no watermark; call "
            f"withWatermark('{field.name}', …) before"
        )
    return field


def rowtime(time: StructField | None) -> list[tuple[StructField, str]]:
    """Return the added output column of event times with its source; [] without a time or if the name is taken."""
    if time is None or time.name.lower() == ROWTIME:
        return []
    return [(StructField(ROWTIME, time.dataType, True, time.metadata), time.name)]


def without_watermark(stream: Sequence[StructField], time: StructField | None) -> list[StructField]:
    """Return the stream's columns; if `rowtime` carries the watermark, its source column loses it.

    Spark's stateful operators accept a single watermark only.
    """
    if not rowtime(time):
        return list(stream)
    assert time is not None
    metadata = {key: value for key, value in time.metadata.items() if key != _WATERMARK}
    plain = StructField(time.name, time.dataType, time.nullable, metadata)
    return [plain if field.name == time.name else field for field in stream]


def chosen(table: Sequence[StructField], names: Sequence[str] | None, label: str) -> list[StructField]:
    """Return the fields of the given names, in that order and without repetition; None for all fields.

    Names match exactly or, failing that, ignoring case. `label` is the table's name in messages. Raises
    UnknownColumnError if there is no such column.
    """
    if names is None:
        return list(table)
    exact = {field.name: field for field in table}
    folded = {field.name.lower(): field for field in table}
    found = []
    for name in names:
        field = exact.get(name) or folded.get(name.lower())
        if field is None:
            raise UnknownColumnError.of(name, exact, label)
        if field not in found:
            found.append(field)
    return found


def outputs_of(
    stream: Sequence[StructField],
    table: Sequence[StructField],
    clash: str,
    outer: bool,
    added: Sequence[tuple[StructField, str]] = (),
    groups: Sequence[str] = (),
) -> tuple[Output, ...]:
    """Return the columns of the result: the stream's, the table's, those that the search adds, and those in `added`.

    `clash` is ``prefix`` or ``suffix`` and says how table columns are renamed whose names are taken; `outer` makes the
    search's columns nullable. `added` holds fields with the column of the asking row that each shows; `groups` are the
    columns that a search for groups adds. Raises InvalidArgumentError if the stream has a column with the name of an
    added column.
    """
    behind = [
        added_output(SCORE, "added", DoubleType(), outer),
        added_output(DISTANCE, "distance", DoubleType(), outer),
        added_output(RANK, "rank", IntegerType(), outer),
        *(added_output(name, "added", IntegerType(), outer) for name in groups),
        *(Output(Column(field.name, "query", source), field) for field, source in added),
    ]
    taken = {output.column.name.lower() for output in behind}
    for field in stream:
        if field.name.lower() in taken:
            raise InvalidArgumentError(
                f"the stream has a column '{field.name}', the name of a column that the search adds; rename it first"
            )
    first = [output_of(field, "query") for field in stream]
    # Spark marks columns that ``SELECT *`` omits; the result shows them.
    plain = [
        StructField(f.name, f.dataType, True, {key: v for key, v in f.metadata.items() if key != "__metadata_col"})
        for f in table
    ]
    return (*first, *second_side(plain, "corpus", [*behind, *first], _PREFIX if clash == "prefix" else None), *behind)
