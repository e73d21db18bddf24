"""Type coercion of the constants in a filter text, like Spark's; subtle conversions are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa

from hudi_vector.errors import InvalidFilterError
from hudi_vector.read.predicate.nodes import (
    FALSE,
    NULL,
    TRUE,
    Cast,
    Compare,
    In,
    Literal,
    LocalTimestamp,
    Predicate,
    disjunction,
    is_comparable,
)
from hudi_vector.read.predicate.show import to_text
from hudi_vector.read.predicate.zone import fixed_offset

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Constant", "compared", "digits_of", "listed", "parse_date", "parse_timestamp"]

_INSTANT = pa.timestamp("us", tz="UTC")
_WALL_CLOCK = pa.timestamp("us")
_EPOCH = datetime(1970, 1, 1)  # a wall clock
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_MIRRORED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


_Pair: TypeAlias = "tuple[Predicate, Predicate]"


@dataclass(frozen=True)
class Constant:
    """A constant that is not yet converted to the type of a column.

    ``kind`` is ``null``, ``boolean``, ``integer``, ``decimal``, ``double``, ``string``, ``binary``, ``date``,
    ``timestamp`` or ``timestamp_ntz``; the values of the last three are texts.
    """

    kind: str
    value: Any


def compared(op: str, left: Predicate | Constant, right: Predicate | Constant) -> Predicate:
    """Return a comparison with both sides converted to one type; op is one of ``= <=> < <= > >=``.

    Two constants are compared at once, which gives TRUE, FALSE or NULL. Raises InvalidFilterError if the types cannot
    be compared, or only after a conversion that depends on Spark's settings.
    """
    if isinstance(left, Constant):
        if isinstance(right, Constant):
            return _folded(op, left, right)
        left, right, op = right, left, _MIRRORED[op]
    if isinstance(right, Constant):
        return Compare(op, *_typed(left, right))
    return Compare(op, *_unified(left, right))


def listed(term: Predicate, constants: list[Constant]) -> Predicate:
    """Return the condition that a term is in a list of constants.

    Raises InvalidFilterError if a constant does not have the type of the term, because Spark would convert the column.
    """
    literals = []
    for constant in constants:
        if pa.types.is_timestamp(term.result_type()) and constant.kind == "string":
            _refuse(term, constant, "in an IN list Spark compares them as texts; write TIMESTAMP '…'")
        same, literal = _typed(term, constant)
        if same != term or not isinstance(literal, Literal | LocalTimestamp):
            _refuse(term, constant, "in an IN list give values of the column's own type")
        literals.append(literal)
    if all(isinstance(literal, Literal) for literal in literals):
        return In(term, tuple(literal for literal in literals if isinstance(literal, Literal)))
    return disjunction([Compare("=", term, literal) for literal in literals])


def _folded(op: str, left: Constant, right: Constant) -> Predicate:
    """Compare two constants; raise InvalidFilterError if their values alone do not decide the result."""
    numbers = {"integer", "decimal"}
    if "null" in (left.kind, right.kind):
        return NULL if op != "<=>" else TRUE if left.kind == right.kind else FALSE
    if left.kind != right.kind and not {left.kind, right.kind} <= numbers:
        raise InvalidFilterError(f"constants of types {left.kind} and {right.kind} are compared; compare a column")
    if left.kind not in {*numbers, "string", "binary", "boolean"}:
        raise InvalidFilterError(f"two constants of type {left.kind} are compared; compare a column with a constant")
    a, b = (side.value.encode() if left.kind == "string" else side.value for side in (left, right))
    holds = {"=": a == b, "<=>": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
    return TRUE if holds else FALSE


def _typed(term: Predicate, constant: Constant) -> _Pair:
    """Return the term, under a cast if needed, and the constant as a literal of the same type.

    Raises InvalidFilterError if the two cannot be compared, or only by a conversion that filter texts refuse.
    """
    data_type = term.result_type()
    if not is_comparable(data_type):
        raise InvalidFilterError(f"'{to_text(term)}' is of type {data_type}, which a filter cannot compare")
    if constant.kind == "null":
        return term, Literal(None, data_type)
    for is_of_kind, with_numbers in _NUMBERS:
        if is_of_kind(data_type):
            return with_numbers(term, constant)
    if pa.types.is_timestamp(data_type):
        return term, _timestamp_literal(term, constant)
    if pa.types.is_date(data_type) and constant.kind in ("date", "string"):
        days = parse_date(constant.value)
        return term, Literal(days, data_type) if days is not None else _refuse(term, constant, "write 'yyyy-MM-dd'")
    own = {"bool": "boolean", "string": "string", "binary": "binary"}.get(str(data_type))
    if constant.kind != own:
        _refuse(term, constant, "Spark would convert one of them; write a constant of the column's type")
    return term, Literal(constant.value, data_type)


def _with_integers(term: Predicate, constant: Constant) -> _Pair:
    data_type, value = term.result_type(), constant.value
    if constant.kind == "integer":
        if _fits(value, data_type.bit_width):
            return term, Literal(value, data_type)
        if _fits(value, 64):
            return Cast(term, pa.int64()), Literal(value, pa.int64())
        _refuse(term, constant, "the number is beyond 64 bits")
    if constant.kind == "decimal":
        whole, scale = digits_of(value)
        if whole > 20 or scale > 18:
            _refuse(term, constant, "the number has too many digits")
        wide = pa.decimal128(20 + scale, scale)
        return Cast(term, wide), Literal(value, wide)
    if constant.kind == "double":
        return Cast(term, pa.float64()), Literal(value, pa.float64())
    return _refuse(term, constant, "Spark would convert one of them; write a number")


def _with_floats(term: Predicate, constant: Constant) -> _Pair:
    if constant.kind not in ("integer", "decimal", "double"):
        _refuse(term, constant, "Spark would convert one of them; write a number")
    value = float(constant.value)
    if term.result_type() == pa.float64():
        return term, Literal(value, pa.float64())
    if constant.kind == "integer":
        # Spark's ANSI setting decides between float and double, so the number must be the same in both.
        if abs(value) > 3e38 or int(np.float32(value)) != constant.value:
            _refuse(term, constant, "the number is not exact as a float; write it with a decimal point")
        return term, Literal(value, pa.float32())
    return Cast(term, pa.float64()), Literal(value, pa.float64())


def _with_decimals(term: Predicate, constant: Constant) -> _Pair:
    data_type = term.result_type()
    if constant.kind not in ("integer", "decimal"):
        _refuse(term, constant, "Spark would convert one of them; write a number without an exponent")
    value = Decimal(constant.value)
    whole, scale = digits_of(value)
    whole, scale = max(whole, data_type.precision - data_type.scale), max(scale, data_type.scale)
    if whole + scale > 38:
        _refuse(term, constant, "together they need more than 38 digits")
    wide = pa.decimal128(whole + scale, scale)
    if whole + scale == data_type.precision and scale == data_type.scale:
        return term, Literal(value, data_type)
    return Cast(term, wide), Literal(value, wide)


_NUMBERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Predicate, Constant], _Pair]], ...] = (
    (pa.types.is_integer, _with_integers),
    (pa.types.is_floating, _with_floats),
    (pa.types.is_decimal, _with_decimals),
)


def _timestamp_literal(term: Predicate, constant: Constant) -> Predicate:
    zoned = term.result_type() == _INSTANT
    if constant.kind not in ("string", "timestamp" if zoned else "timestamp_ntz"):
        _refuse(term, constant, f"write {'TIMESTAMP' if zoned else 'TIMESTAMP_NTZ'} '…'")
    parsed = parse_timestamp(constant.value)
    if parsed is None or (parsed[1] is not None and not zoned):
        _refuse(term, constant, "write 'yyyy-MM-dd HH:mm:ss'")
    micros, offset = parsed
    if not zoned:
        return Literal(micros, _WALL_CLOCK)
    return LocalTimestamp(micros) if offset is None else Literal(micros - offset, _INSTANT)


def _unified(left: Predicate, right: Predicate) -> _Pair:
    a, b = left.result_type(), right.result_type()
    if a == b and is_comparable(a):
        return left, right
    wide = None
    if pa.types.is_signed_integer(a) and pa.types.is_signed_integer(b):
        wide = max(a, b, key=lambda data_type: data_type.bit_width)
    elif {str(a), str(b)} == {"float", "double"} or _is_double_and_integer(a, b) or _is_double_and_integer(b, a):
        wide = pa.float64()
    if wide is None:
        raise InvalidFilterError(
            f"'{to_text(left)}' ({a}) and '{to_text(right)}' ({b}) are of types that a filter does not compare"
        )
    return (left if a == wide else Cast(left, wide)), (right if b == wide else Cast(right, wide))


def _is_double_and_integer(a: pa.DataType, b: pa.DataType) -> bool:
    return bool(a == pa.float64() and pa.types.is_signed_integer(b))


def parse_date(text: str) -> int | None:
    """Return the days since the epoch of a date ``yyyy-MM-dd``; None for any other text.

    Example:
        >>> parse_date("1970-01-02"), parse_date("1970-1-2")
        (1, None)
    """
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is None:
        return None
    try:
        return (date.fromisoformat(text) - _EPOCH.date()).days
    except ValueError:
        return None


def parse_timestamp(text: str) -> tuple[int, int | None] | None:
    """Return wall clock and offset of ``yyyy-MM-dd[ HH:mm:ss[.ffffff][Z|+HH:mm]]``; None for any other text.

    A ``T`` may replace the space. The wall clock is in microseconds since 1970-01-01 00:00:00 on that clock. The offset
    is how many microseconds the clock is ahead of UTC; None if no zone is given.

    Example:
        >>> parse_timestamp("1970-01-01 00:00:01+01:00")
        (1000000, 3600000000)
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    offset = None if zone is None else fixed_offset(zone)
    if zone is not None and offset is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{day} {clock or '00:00:00'}")
    except ValueError:
        return None
    micros = (moment - _EPOCH) // timedelta(microseconds=1) + int((fraction or "").ljust(6, "0"))
    return micros, offset


def _fits(value: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def digits_of(value: Decimal) -> tuple[int, int]:
    """Return the number of digits before and after the decimal point."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return max(len(digits) + int(exponent), 0), scale


def _refuse(term: Predicate, constant: Constant, advice: str) -> NoReturn:
    raise InvalidFilterError(
        f"'{to_text(term)}' is of type {term.result_type()} and is compared with the {constant.kind} "
        f"{constant.value!s}; {advice}"
    )
