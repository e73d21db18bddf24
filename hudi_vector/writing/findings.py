"""A pass over the rows before they are written, which counts invalid vectors by reason and duplicate keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import StringType

from hudi_vector.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, number_of
from hudi_vector.options import INVALID_VECTORS
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.gateway import simple_name
from hudi_vector.spark.catalyst.nested_fields import field_path
from hudi_vector.writing.vectors.columns import REASONS, VectorColumn, as_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Findings", "inspect_rows", "refuse_duplicates", "refuse_invalid", "refusing_invalid"]

_ROWS, _KEPT, _BAD = "__rows", "__kept", "__bad"
_FIRST_BAD, _REPEATED, _FIRST_REPEATED = "__first_bad", "__repeated", "__first_repeated"
_OR_SET = f"or set {INVALID_VECTORS.key} to skip or null"
_HELD = "LocalRelation"  # rows that are part of a plan


@dataclass(frozen=True)
class Findings:
    """The results of the pass.

    `rows` and `invalid_rows` count rows, `invalid` counts invalid vectors by column and reason, `duplicate_keys` counts
    keys that occur more than once. `first_invalid` and `first_duplicate` name the smallest such key, None if there is
    none.
    """

    rows: int
    invalid_rows: int = 0
    invalid: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    first_invalid: str | None = None
    duplicate_keys: int = 0
    first_duplicate: str | None = None

    @property
    def described(self) -> str:
        """Return the invalid vectors in words, for example ``'emb': 2 with wrong length``."""
        return "; ".join(
            f"'{column}': " + ", ".join(f"{count} with {reason}" for reason, count in counts.items())
            for column, counts in self.invalid.items()
        )


def inspect_rows(
    frame: DataFrame,
    columns: list[VectorColumn],
    key: tuple[str, ...],
    unique_by: tuple[str, ...] | None,
    skips_invalid: bool,
) -> Findings:
    """Check the key and the vectors of every row in one pass; other columns are not read.

    Rows that are part of the plan, as few rows from Python are, need no job if all their vectors are valid.

    Args:
        frame: The DataFrame to be written.
        columns: Its vector columns.
        key: The record key, which names the first invalid or duplicate row.
        unique_by: The columns that identify a row, including the record key; None to ignore duplicates.
        skips_invalid: Whether rows with an invalid vector are left out, so that they cannot be duplicates.
    """
    identity = unique_by or key
    # A nested key (a.b) would lose its struct in the projection, so keys are renamed.
    keys = {name: F.col(f"__key{place}") for place, name in enumerate(identity)}
    narrow = frame.select(
        *[F.col(quoted(*field_path(frame.schema, name))).alias(f"__key{place}") for place, name in enumerate(identity)],
        *[F.col(quoted(column.name)) for column in columns],
    )
    reasons = as_arrays(narrow, columns).select(
        *keys.values(), *[column.invalid_because().alias(f"__why{place}") for place, column in enumerate(columns)]
    )
    bad = reduce(or_, [F.col(f"__why{place}").isNotNull() for place in range(len(columns))], F.lit(False))
    rows = _number_if_valid(narrow, reasons.where(bad)) if unique_by is None else None
    if rows is not None:
        return Findings(rows)
    offender = F.struct(*[keys[name] for name in key])
    flags, counted, repeated = _flags(columns, bad), reasons, []
    if unique_by is not None:
        flags[_KEPT] = _as_count(~bad if skips_invalid else F.lit(True))
        counted = reasons.groupBy(*keys.values()).agg(*[F.sum(flag).alias(name) for name, flag in flags.items()])
        flags = {name: F.col(name) for name in flags}
        is_repeated = flags[_KEPT] > 1
        repeated = [
            F.sum(_as_count(is_repeated)).alias(_REPEATED),
            F.min(F.when(is_repeated, offender)).alias(_FIRST_REPEATED),
        ]
    totals = counted.agg(
        *[F.sum(flag).alias(name) for name, flag in flags.items()],
        F.min(F.when(flags[_BAD] > 0, offender)).alias(_FIRST_BAD),
        *repeated,
    ).collect()[0]  # an aggregation without groups always has one row
    return _findings(totals.asDict(), columns, key)


def refusing_invalid(frame: DataFrame, columns: list[VectorColumn], key: tuple[str, ...]) -> DataFrame:
    """Return the DataFrame with a check: a task fails at its first row with an invalid array, before it uses that row.

    The error is that of `refuse_invalid`, without numbers of rows. Vectors in other forms than arrays are not checked.
    """
    is_valid = F.lit(True)
    named = F.concat_ws(", ", *[F.concat(F.lit(f"{name} = "), _shown(frame, name)) for name in key])
    for column in columns:
        if column.kind != "array":
            continue
        why = column.invalid_because()
        error = F.when(why == REASONS[1], DimensionMismatchError.__name__).otherwise(InvalidVectorError.__name__)
        said = F.concat(
            F.lit(f"{DimensionMismatchError.__module__}."),
            error,
            F.lit(f": nothing was written: a row holds an invalid vector ('{column.name}': "),
            why,
            F.lit("), at "),
            named,
            F.lit(f"; correct it, {_OR_SET}"),
        )
        is_valid = is_valid & F.when(why.isNotNull(), F.raise_error(said).isNull()).otherwise(True)
    return frame.where(is_valid)


def refuse_invalid(findings: Findings) -> None:
    """Raise if a vector is invalid: DimensionMismatchError if all have the wrong length, else InvalidVectorError."""
    if not findings.invalid_rows:
        return
    only_lengths = all(set(counts) == {REASONS[1]} for counts in findings.invalid.values())
    error = DimensionMismatchError if only_lengths else InvalidVectorError
    rows = number_of(findings.rows, "row holds", "rows hold")
    raise error(
        f"nothing was written: {findings.invalid_rows} of {rows} an invalid vector "
        f"({findings.described}), the first at {findings.first_invalid}; "
        f"correct them, {_OR_SET}"
    )


def refuse_duplicates(findings: Findings, operation: str, policy_key: str) -> None:
    """Raise InvalidArgumentError if a key occurs twice in the DataFrame.

    The message names the operation, which would store both rows, and `policy_key`, the setting that allows this.
    """
    if findings.duplicate_keys:
        raise InvalidArgumentError(
            f"nothing was written: {number_of(findings.duplicate_keys, 'record key occurs', 'record keys occur')} "
            "more than once in the DataFrame, the "
            f"first is {findings.first_duplicate}, and operation '{operation}' would store each row; "
            f"drop the duplicates, use operation 'upsert', or set {policy_key} to drop or none"
        )


def _shown(frame: DataFrame, name: str) -> Column:
    """Return a part of the key as text, in quotes if it is text."""
    path = field_path(frame.schema, name)
    value, kind = F.col(quoted(*path)), frame.select(F.col(quoted(*path))).schema[0].dataType
    text = F.coalesce(value.cast("string"), F.lit("None"))
    return F.concat(F.lit("'"), text, F.lit("'")) if isinstance(kind, StringType) else text


def _number_if_valid(rows: DataFrame, invalid: DataFrame) -> int | None:
    """Return how many rows there are if they are part of the plan and none of them is among `invalid`, else None.

    Spark computes what is selected of such rows while it plans, without the jobs that take most of the time of a check.
    """
    planned = rows._jdf.queryExecution()
    if simple_name(planned.analyzed().collectLeaves().head()) != _HELD:
        return None
    held, left = planned.optimizedPlan(), invalid._jdf.queryExecution().optimizedPlan()
    if simple_name(held) != _HELD or simple_name(left) != _HELD or left.data().nonEmpty():
        return None
    return int(held.data().size())


def _flags(columns: list[VectorColumn], bad: Column) -> dict[str, Column]:
    flags = {_ROWS: F.lit(1), _BAD: _as_count(bad)}
    for place in range(len(columns)):
        why = F.col(f"__why{place}")
        for number, reason in enumerate(REASONS):
            flags[f"__n{place}_{number}"] = _as_count(why.eqNullSafe(reason))
    return flags


def _as_count(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)


def _findings(totals: Mapping[str, Any], columns: list[VectorColumn], key: tuple[str, ...]) -> Findings:
    invalid = {}
    for place, column in enumerate(columns):
        counts = {reason: int(totals[f"__n{place}_{number}"] or 0) for number, reason in enumerate(REASONS)}
        found = {reason: count for reason, count in counts.items() if count}
        if found:
            invalid[column.name] = found
    return Findings(
        rows=int(totals[_ROWS] or 0),
        invalid_rows=int(totals[_BAD] or 0),
        invalid=invalid,
        first_invalid=_named(key, totals[_FIRST_BAD]),
        duplicate_keys=int(totals.get(_REPEATED) or 0),
        first_duplicate=_named(key, totals.get(_FIRST_REPEATED)),
    )


def _named(key: tuple[str, ...], values: Row | None) -> str | None:
    if values is None:
        return None
    return ", ".join(f"{name} = {value!r}" for name, value in zip(key, values, strict=True))
