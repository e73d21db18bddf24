"""The condition of a join, which Spark parses and analyses over the columns of both sides."""

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
    """A condition as it was given, in `text`, and as translated, in `condition`.

    `by_spark` says why only Spark can evaluate the condition, and is empty otherwise; the condition is then in `text`
    alone. `right_only` says that such a condition names no column of the left side.
    """

    text: str | None = None
    condition: JoinCondition = ANY_PAIR
    by_spark: str = ""
    right_only: bool = False


def asked_condition(spark: SparkSession, left: LeftSide, right: StructType, right_label: str, text: object) -> Asked:
    """Analyse a condition over both sides, or None, and translate it if possible.

    Raises InvalidTypeError if it is not a text, InvalidFilterError if it is not a valid condition, the right side has a
    column ``l`` or ``r``, or a bare name could belong to both sides, UnknownColumnError if it names a column that does
    not exist.
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
    """Return the columns without their metadata, all nullable."""
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
    """Return the columns of both sides whose equality identifies the same row, empty if no pairs are excluded.

    Args:
        left: The left side.
        right: The right side's columns.
        right_label: The name of the right side in messages.
        key_fields: The columns of the record key if the right side is a Hudi table that is read directly, else empty.
        asked: The argument ``exclude_self``: the name of a column, several names, True for the record key, or None or
            False.

    Raises:
        InvalidArgumentError: The sides have no record key, or the list of names is empty.
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
    """Return a condition that also excludes pairs of a row with itself, whose columns `names` are equal.

    `right` are the right side's columns. Without names, the condition is returned unchanged.
    """
    if not names:
        return condition
    kinds = arrow_fields(StructType([right[name] for name in names]))
    return condition.and_not(same_row([(f.name, f.name, f.type) for f in kinds]))
