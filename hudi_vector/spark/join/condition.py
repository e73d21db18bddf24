"""A join's condition: Spark parses and analyses it over the columns of both sides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from hudi_vector.arguments import as_text, checked_names
from hudi_vector.errors import InvalidArgumentError, InvalidFilterError, InvalidTypeError, UnknownColumnError
from hudi_vector.query.join.conditions import ANY_PAIR, LEFT, RIGHT, JoinCondition, same_row, split
from hudi_vector.read.predicate.nodes import is_comparable
from hudi_vector.schema import quoted_if_needed
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.predicates import analyse_filter
from hudi_vector.spark.join.left import LeftSide

__all__ = ["Asked", "asked_condition", "excluded", "self_pairs"]

_KEYS = ("_hoodie_record_key", "_hoodie_partition_path")


@dataclass(frozen=True)
class Asked:
    """A condition as it was given and as it is understood.

    `by_spark` is why only Spark can evaluate it; it is then in `text` alone, and over the right side alone where
    `right_only` says so.
    """

    text: str | None = None
    condition: JoinCondition = ANY_PAIR
    by_spark: str = ""
    right_only: bool = False


def asked_condition(spark: SparkSession, left: LeftSide, right: StructType, right_label: str, text: object) -> Asked:
    """Understand a condition.

    Args:
        spark: The session.
        left: The left side.
        right: The right side's columns.
        right_label: How messages name the right side.
        text: A condition over both sides, or None.

    Returns:
        The condition.

    Raises:
        InvalidTypeError: It is no text.
        InvalidFilterError: It is no condition, or a name in it could be of both sides.
        UnknownColumnError: It names a column that is not there.
    """
    given = as_text(text, "condition", allow_null=True)
    if given is None:
        return Asked()
    taken = next((name for name in right.names if name.lower() in (LEFT, RIGHT)), None)
    if taken is not None:
        side = "left" if taken.lower() == LEFT else "right"
        raise InvalidFilterError(
            f"the right side '{right_label}' has a column '{taken}', and in a condition that names the {side} side; "
            "give the column another name"
        )
    sides = [StructField(LEFT, _bare(left.schema), False), StructField(RIGHT, _bare(right), False)]
    both = StructType([*_bare(right).fields, *sides])
    names = left.schema.names
    try:
        found = analyse_filter(spark, both, given, right_label)
    except UnknownColumnError as unknown:
        raise _hinted(unknown, given, names) from None
    if found.predicate is not None:
        return Asked(given, split(found.predicate, given, names))
    clash = next((name for name in found.columns if name.lower() in {n.lower() for n in names}), None)
    if clash is not None:
        raise InvalidFilterError(
            f"the condition {given!r} names '{clash}', a column of both sides; write r.{quoted_if_needed(clash)} for "
            f"that of the right side or l.{quoted_if_needed(clash)} for that of the left"
        )
    return Asked(given, ANY_PAIR, found.reason or "", right_only=LEFT not in found.columns)


def _bare(schema: StructType) -> StructType:
    """The columns without what Hudi notes of them."""
    return StructType([StructField(f.name, f.dataType, True) for f in schema.fields])


def _hinted(unknown: UnknownColumnError, text: str, left: Sequence[str]) -> UnknownColumnError:
    found = re.match(r"column '([^']+)'", str(unknown))
    name = found[1] if found else ""
    if name.lower() not in {column.lower() for column in left}:
        return unknown
    return UnknownColumnError(
        f"the condition {text!r} names '{name}', which is a column of the left side only; write "
        f"l.{quoted_if_needed(name)}"
    )


def self_pairs(
    left: LeftSide, right: StructType, right_label: str, key_fields: Sequence[str], asked: object
) -> list[str]:
    """The columns by which a left row is told to be the same as a right row.

    Args:
        left: The left side.
        right: The right side's columns.
        right_label: How messages name it.
        key_fields: The record key's columns where the right side is a Hudi table that is read directly.
        asked: What ``exclude_self`` was given: a column's name, several, True for the record key; or None or False.

    Returns:
        The columns, of both sides; none where nothing is to be excluded.

    Raises:
        InvalidArgumentError: The sides have no record key.
        UnknownColumnError: A side lacks a column.
        InvalidTypeError: The columns cannot be compared.
    """
    if asked is None or asked is False:
        return []
    if asked is True:
        names = _key_columns(left.schema, right, key_fields)
        if not names:
            raise InvalidArgumentError(
                "exclude_self=True goes by the record key of a Hudi table, which one of the sides does not have among "
                "its columns; name the column or columns that tell rows apart"
            )
    else:
        names = list(checked_names([asked] if isinstance(asked, str) else asked) or ())
    if not names:
        raise InvalidArgumentError("exclude_self is an empty list; name the column or columns that tell rows apart")
    for name in names:
        for schema, label in ((left.schema, left.label), (right, right_label)):
            if name not in schema.names:
                raise UnknownColumnError.of(name, schema.names, label)
        kinds = [arrow_fields(StructType([schema[name]]))[0].type for schema in (left.schema, right)]
        if kinds[0] != kinds[1] or not is_comparable(kinds[0]):
            shown = [schema[name].dataType.simpleString() for schema in (left.schema, right)]
            raise InvalidTypeError(
                f"exclude_self compares '{name}' of both sides, which is {shown[0]} on the left and {shown[1]} on the "
                "right; name columns of one type that can be compared"
            )
    return names


def _key_columns(left: StructType, right: StructType, key_fields: Sequence[str]) -> list[str]:
    for names in (_KEYS, key_fields):
        if names and all(name in schema.names for name in names for schema in (left, right)):
            return list(names)
    return []


def excluded(condition: JoinCondition, names: Sequence[str], right: StructType) -> JoinCondition:
    """A condition that also leaves out the pairs of a row with itself.

    Args:
        condition: A condition.
        names: The columns by which a row is told to be the same.
        right: The right side's columns.

    Returns:
        The condition.
    """
    if not names:
        return condition
    kinds = arrow_fields(StructType([right[name] for name in names]))
    return condition.and_not(same_row([(f.name, f.name, f.type) for f in kinds]))
