"""Evaluation of predicates on Arrow arrays with the semantics of Spark's WHERE.

There are three truth values. NaN equals NaN and is larger than every other number; -0.0 equals 0.0. Texts are compared
as UTF-8 bytes, and bytes as unsigned numbers. Integers wrap around as in Java.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.errors import UnknownColumnError
from hudi_vector.read.predicate.nodes import (
    And,
    Arithmetic,
    CaseWhen,
    Cast,
    ChangeCase,
    Coalesce,
    Column,
    Compare,
    In,
    IsNan,
    IsNull,
    Length,
    Like,
    Literal,
    LocalTimestamp,
    Match,
    Not,
    Or,
    Predicate,
    like_tokens,
)
from hudi_vector.read.predicate.zone import in_micros, instant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["evaluate"]

_DAY = 86_400_000_000  # microseconds
_INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class _Rows:
    batch: pa.RecordBatch | pa.Table
    zone: str


def evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table, zone: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that Spark's ``WHERE`` would keep; NULL counts as false.

    `batch` must have the columns of the condition, else UnknownColumnError is raised; columns with another physical
    type than in the table are converted. `zone` is the session time zone for wall-clock times in the condition.

    Example:
        >>> rows = pa.record_batch({"x": [1.0, float("nan"), None]})
        >>> evaluate(Compare(">", Column("x", pa.float64()), Literal(2.0, pa.float64())), rows, "UTC").tolist()
        [False, True, False]
    """
    result = _value(predicate, _Rows(batch, zone))
    if isinstance(result, pa.Scalar):
        return np.full(batch.num_rows, result.as_py() is True)
    return _mask(pc.fill_null(result, False) if result.null_count else result)


def _mask(found: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return truth values without NULL as a mask; Arrow's own conversion takes some times as long."""
    if not len(found):
        return np.empty(0, np.bool_)
    bits = np.frombuffer(found.buffers()[1], np.uint8)
    there = np.unpackbits(bits, count=found.offset + len(found), bitorder="little")[found.offset :]
    return there.view(np.bool_)


def _value(node: Predicate, rows: _Rows) -> Any:
    """Return an array with one value per row, or a scalar for all rows."""
    return _MEANINGS[type(node)](node, rows)


def _column(node: Column, rows: _Rows) -> Any:
    names = rows.batch.schema.names
    if node.name not in names:
        raise UnknownColumnError.of(node.name, names, "the rows to filter")
    array = rows.batch.column(names.index(node.name))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    for field in node.path:
        array = pc.struct_field(array, [field])
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == node.type or pa.types.is_nested(node.type) or _is_large_form(array.type, node.type):
        return array
    return in_micros(array).cast(node.type, safe=not pa.types.is_timestamp(node.type))


def _is_large_form(found: pa.DataType, wanted: pa.DataType) -> bool:
    return (found, wanted) in ((pa.large_string(), pa.string()), (pa.large_binary(), pa.binary()))


def _literal(node: Literal, _: _Rows) -> Any:
    return pa.scalar(node.value, node.type)


def _local_timestamp(node: LocalTimestamp, rows: _Rows) -> Any:
    return pa.scalar(instant(node.micros, rows.zone), _INSTANT)


def _compare(node: Compare, rows: _Rows) -> Any:
    left, right = _value(node.left, rows), _value(node.right, rows)
    order = _FLOAT_ORDER if pa.types.is_floating(node.left.result_type()) else _ORDER
    if node.op != "<=>":
        return order[node.op](left, right)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.coalesce(order["="](left, right), pa.scalar(False)), both_null)


_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _is_number(side: Any) -> bool:
    """Return True for a constant that is neither NULL nor NaN: with it, fewer cases are left to compare."""
    return isinstance(side, pa.Scalar) and side.is_valid and not math.isnan(side.as_py())


def _float_equal(left: Any, right: Any) -> Any:
    if _is_number(left) or _is_number(right):
        return pc.equal(left, right)
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _float_less(left: Any, right: Any) -> Any:
    if _is_number(right):
        return pc.less(left, right)
    if _is_number(left):
        return pc.or_(pc.less(left, right), pc.is_nan(right))
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


_FLOAT_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "=": _float_equal,
    "<": _float_less,
    "<=": lambda left, right: pc.invert(_float_less(right, left)),
    ">": lambda left, right: _float_less(right, left),
    ">=": lambda left, right: pc.invert(_float_less(left, right)),
}


def _and(node: And, rows: _Rows) -> Any:
    return reduce(pc.and_kleene, (_value(term, rows) for term in node.terms))


def _or(node: Or, rows: _Rows) -> Any:
    return reduce(pc.or_kleene, (_value(term, rows) for term in node.terms))


def _not(node: Not, rows: _Rows) -> Any:
    return pc.invert(_value(node.term, rows))


def _is_null(node: IsNull, rows: _Rows) -> Any:
    return pc.is_null(_value(node.term, rows))


def _is_nan(node: IsNan, rows: _Rows) -> Any:
    return pc.coalesce(pc.is_nan(_value(node.term, rows)), pa.scalar(False))


def _in(node: In, rows: _Rows) -> Any:
    values = _value(node.term, rows)
    listed = [literal.value for literal in node.values if literal.value is not None]
    if pa.types.is_floating(node.term.result_type()):
        listed_array = pa.array(listed, node.term.result_type()).to_numpy(zero_copy_only=False)
        found = _is_in_floats(values, listed_array)
    else:
        found = pc.is_in(values, pa.array(listed, node.term.result_type()))
    unknown = pc.is_null(values)
    if len(listed) < len(node.values):  # with a NULL in the list, a value that is not found gives NULL
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _is_in_floats(values: Any, listed: npt.NDArray[Any]) -> Any:
    # Arrow's set lookup treats -0.0 and 0.0 as different values.
    if isinstance(values, pa.Scalar):
        values = pa.array([values.as_py()], values.type)
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    found = np.isin(numbers, listed[~np.isnan(listed)])
    if np.isnan(listed).any():
        found |= np.isnan(numbers)
    return pa.array(found)


def _match(node: Match, rows: _Rows) -> Any:
    return _MATCHES[node.kind](_value(node.term, rows), pattern=node.pattern)


_MATCHES: dict[str, Callable[..., Any]] = {
    "starts": pc.starts_with,
    "ends": pc.ends_with,
    "contains": pc.match_substring,
}


def _like(node: Like, rows: _Rows) -> Any:
    pattern = "".join(
        "(?s:.*)" if token is None else "(?s:.)" if not token else _quoted(token)
        for token in like_tokens(node.pattern, node.escape)
    )
    return pc.match_substring_regex(_value(node.term, rows), pattern=rf"\A{pattern}\z")


def _quoted(character: str) -> str:
    if character.isalnum() or character == "_" or ord(character) > 127:
        return character
    return f"\\x{ord(character):02x}"


def _length(node: Length, rows: _Rows) -> Any:
    measure = pc.utf8_length if pa.types.is_string(node.term.result_type()) else pc.binary_length
    return measure(_value(node.term, rows)).cast(pa.int32())


def _change_case(node: ChangeCase, rows: _Rows) -> Any:
    # Arrow maps one code point to one; Python, like Java, has Unicode's full mapping ("ß" becomes "SS").
    # Each distinct text is mapped only once, which makes Python fast enough.
    texts = _value(node.term, rows)
    if isinstance(texts, pa.Scalar):
        return pa.scalar(_recased(texts.as_py(), node.upper), pa.string())
    encoded = texts.dictionary_encode()
    mapped = pa.array((_recased(text, node.upper) for text in encoded.dictionary.to_pylist()), pa.string())
    return mapped.take(encoded.indices)


def _recased(text: str | None, upper: bool) -> str | None:
    return text if text is None else text.upper() if upper else text.lower()


def _arithmetic(node: Arithmetic, rows: _Rows) -> Any:
    left, right = _value(node.left, rows), _value(node.right, rows)
    return _OPERATIONS[node.op](left, right)


def _remainder(left: Any, right: Any) -> Any:
    """Compute the remainder with the sign of the dividend; NULL where the divisor is 0."""
    divisor = pc.if_else(pc.equal(right, pa.scalar(0, right.type)), pa.scalar(None, right.type), right)
    # Arrow has no remainder, but its integer division truncates towards zero, like Java's.
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "%": _remainder,
}


def _cast(node: Cast, rows: _Rows) -> Any:
    values, source, target = _value(node.term, rows), node.term.result_type(), node.type
    if not (pa.types.is_temporal(source) and pa.types.is_temporal(target)):
        return values.cast(target, safe=not pa.types.is_floating(target))
    micros = values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(source) else values.cast(pa.int64())
    if pa.types.is_date(source):
        micros = pc.multiply(micros, pa.scalar(_DAY))
    # Convert between wall clock and instant; types without a time zone are wall clocks.
    shift = node.offset * ((source == _INSTANT) - (target == _INSTANT))
    micros = pc.add(micros, pa.scalar(shift, pa.int64()))
    if pa.types.is_date(target):
        return _floor_days(micros).cast(pa.date32())
    return micros.cast(target)


def _floor_days(micros: Any) -> Any:
    days = pc.divide(micros, pa.scalar(_DAY))
    cut_upwards = pc.less(micros, pc.multiply(days, pa.scalar(_DAY)))
    return pc.subtract(days, cut_upwards.cast(pa.int64())).cast(pa.int32())


def _coalesce(node: Coalesce, rows: _Rows) -> Any:
    return pc.coalesce(*(_value(term, rows) for term in node.terms))


def _case_when(node: CaseWhen, rows: _Rows) -> Any:
    result = _value(node.otherwise, rows)
    for condition, value in reversed(node.branches):
        holds = pc.coalesce(_value(condition, rows), pa.scalar(False))
        result = pc.if_else(holds, _value(value, rows), result)
    return result


_MEANINGS: dict[type[Predicate], Callable[[Any, _Rows], Any]] = {
    And: _and,
    Arithmetic: _arithmetic,
    CaseWhen: _case_when,
    Cast: _cast,
    ChangeCase: _change_case,
    Coalesce: _coalesce,
    Column: _column,
    Compare: _compare,
    In: _in,
    IsNan: _is_nan,
    IsNull: _is_null,
    Length: _length,
    Like: _like,
    Literal: _literal,
    LocalTimestamp: _local_timestamp,
    Match: _match,
    Not: _not,
    Or: _or,
}
