"""Translation of Catalyst conditions, as shown by ``toJSON``, to predicates, by an allow-list of nodes.

JSON lists the nodes in pre-order, the order in which ``TreeNode.apply`` numbers them. JSON does not show instants,
bytes, sets, evaluation modes and escape characters faithfully: these are read from the node itself.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_vector.read.predicate.nodes import (
    NULL,
    Arithmetic,
    CaseWhen,
    Cast,
    Coalesce,
    Column,
    Compare,
    In,
    IsNan,
    IsNull,
    Length,
    Like,
    Literal,
    Match,
    Not,
    Predicate,
    conjunction,
    disjunction,
    is_comparable,
    like_tokens,
)
from hudi_vector.read.predicate.zone import fixed_offset

__all__ = ["UntranslatableError", "arrow_type", "translate"]

_INSTANT = pa.timestamp("us", tz="UTC")
_WALL_CLOCK = pa.timestamp("us")
_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": _INSTANT,
    "timestamp_ntz": _WALL_CLOCK,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_REPLACED = "\ufffd"  # Java's strings hold this character in place of bytes that are not UTF-8
_EPOCH = date(1970, 1, 1)


class UntranslatableError(Exception):
    """An error for a node that cannot be translated to a predicate; the message names the node, for ``explain``."""


def arrow_type(described: Any) -> pa.DataType:
    """Return the Arrow type of a Spark type in JSON: a name, or an object for structs and other nested types.

    Arrays, maps, intervals and other types that predicates do not support become Arrow's null type.

    Example:
        >>> arrow_type("decimal(10,2)"), arrow_type({"type": "array"})
        (Decimal128Type(decimal128(10, 2)), DataType(null))
    """
    if isinstance(described, dict):
        if described["type"] != "struct":
            return pa.null()
        return pa.struct([pa.field(field["name"], arrow_type(field["type"])) for field in described["fields"]])
    found = _DECIMAL.fullmatch(described)
    if found is not None:
        return pa.decimal128(int(found[1]), int(found[2]))
    return _TYPES.get(described, pa.null())


def translate(condition: Any, nodes: list[dict[str, Any]], spelled: Callable[[str], str]) -> Predicate:
    """Return a JVM condition as a predicate.

    `nodes` is its parsed ``toJSON``; the names of its columns are replaced by `spelled`, the table's spelling of a
    name. Raises UntranslatableError if a node cannot be translated, InvalidFilterError if a LIKE pattern is wrong.
    """
    # In reverse pre-order, children come before their parent, so deep conditions need no recursion.
    ready: list[Predicate] = []
    for position in range(len(nodes) - 1, -1, -1):
        shown = nodes[position]
        name = shown["class"].rpartition(".")[2]
        children = [ready.pop() for _ in range(shown["num-children"])]
        if name not in _TRANSLATIONS:
            raise UntranslatableError(f"{name} is evaluated by Spark only")
        if name == "AttributeReference":
            shown["name"] = spelled(shown["name"])
        ready.append(_TRANSLATIONS[name](children, shown, partial(condition.apply, position)))
    return ready.pop()


_Fetch = Callable[[], Any]


def _column(_: list[Predicate], shown: dict[str, Any], __: _Fetch) -> Predicate:
    data_type = arrow_type(shown["dataType"])
    if not (is_comparable(data_type) or pa.types.is_struct(data_type)):
        raise UntranslatableError(f"column '{shown['name']}' is of a type that is evaluated by Spark only")
    return Column(shown["name"], data_type)


def _field(children: list[Predicate], shown: dict[str, Any], _: _Fetch) -> Predicate:
    struct = children[0]
    if not isinstance(struct, Column):
        raise UntranslatableError("the field of a computed struct is evaluated by Spark only")
    field = struct.type.field(shown["ordinal"])
    same_name = [other.name for other in struct.type if other.name == field.name]
    if len(same_name) > 1 or not (is_comparable(field.type) or pa.types.is_struct(field.type)):
        raise UntranslatableError(f"field '{field.name}' is of a type that is evaluated by Spark only")
    return Column(struct.name, field.type, (*struct.path, field.name))


def _literal(_: list[Predicate], shown: dict[str, Any], fetch: _Fetch) -> Predicate:
    data_type, text = arrow_type(shown["dataType"]), shown["value"]
    if not is_comparable(data_type):
        raise UntranslatableError(f"a constant of type {shown['dataType']} is evaluated by Spark only")
    if text is None:
        return Literal(None, data_type)
    if pa.types.is_date(data_type) and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return Literal((date.fromisoformat(text) - _EPOCH).days, data_type)
    if pa.types.is_date(data_type) or data_type == _INSTANT or pa.types.is_binary(data_type):
        # JSON shows instants as local times, which repeat when summer time ends, and bytes as an object's address.
        value = fetch().value()
        return Literal(bytes(value) if pa.types.is_binary(data_type) else int(value), data_type)
    return Literal(_parsed(text, data_type), data_type)


def _parsed(text: str, data_type: pa.DataType) -> object:
    if pa.types.is_boolean(data_type):
        return text == "true"
    if pa.types.is_string(data_type):
        if _REPLACED in text:
            raise UntranslatableError("a constant text that may not be UTF-8 is evaluated by Spark only")
        return text
    if pa.types.is_decimal(data_type):
        return Decimal(text)
    return float(text) if pa.types.is_floating(data_type) else int(text)


def _cast(children: list[Predicate], shown: dict[str, Any], _: _Fetch) -> Predicate:
    term, target = children[0], arrow_type(shown["dataType"])
    source = term.result_type()
    if source == target:
        return term
    if _is_widening(source, target):
        return Cast(term, target)
    if pa.types.is_temporal(source) and pa.types.is_temporal(target):
        zoned = _INSTANT in (source, target)
        offset = fixed_offset(shown["timeZoneId"] or "") if zoned else 0
        if offset is not None:
            return Cast(term, target, offset)
    raise UntranslatableError(f"CAST from {source} to {target} is evaluated by Spark only")


_WHOLE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _is_widening(source: pa.DataType, target: pa.DataType) -> bool:
    """Return True if a cast converts every value, to the same result in Java and in Arrow."""
    if pa.types.is_decimal(target):
        if pa.types.is_decimal(source):
            whole, scale = source.precision - source.scale, source.scale
        elif pa.types.is_signed_integer(source):
            whole, scale = _WHOLE_DIGITS[source.bit_width], 0
        else:
            return False
        return bool(target.precision - target.scale >= whole and target.scale >= scale)
    if pa.types.is_signed_integer(source):
        return bool(
            pa.types.is_floating(target) or (pa.types.is_signed_integer(target) and target.bit_width > source.bit_width)
        )
    return bool(source == pa.float32() and target == pa.float64())


def _comparison(op: str) -> Callable[[list[Predicate], dict[str, Any], _Fetch], Predicate]:
    def translated(children: list[Predicate], _: dict[str, Any], __: _Fetch) -> Predicate:
        left, right = children
        if left.result_type() != right.result_type() or not is_comparable(left.result_type()):
            raise UntranslatableError(f"comparing values of type {left.result_type()} is done by Spark only")
        return Compare(op, left, right)

    return translated


def _arithmetic(op: str) -> Callable[[list[Predicate], dict[str, Any], _Fetch], Predicate]:
    def translated(children: list[Predicate], _: dict[str, Any], fetch: _Fetch) -> Predicate:
        left, right = children
        if left.result_type() != right.result_type():
            raise UntranslatableError(f"'{op}' of different types is evaluated by Spark only")
        if pa.types.is_floating(left.result_type()) and op != "%":
            return Arithmetic(op, left, right)
        # JSON lacks the mode: on overflow ANSI fails, LEGACY wraps around, TRY returns NULL.
        if not pa.types.is_integer(left.result_type()) or (op != "%" and fetch().evalMode().toString() != "LEGACY"):
            raise UntranslatableError(f"'{op}' of {left.result_type()} is evaluated by Spark only in this mode")
        if op == "%" and (not isinstance(right, Literal) or right.value in (None, 0, -1)):
            raise UntranslatableError("'%' by something else than a constant is evaluated by Spark only")
        return Arithmetic(op, left, right)

    return translated


def _match(kind: str) -> Callable[[list[Predicate], dict[str, Any], _Fetch], Predicate]:
    def translated(children: list[Predicate], _: dict[str, Any], __: _Fetch) -> Predicate:
        term, pattern = children
        if not isinstance(pattern, Literal):
            raise UntranslatableError("a text searched for that is no constant is evaluated by Spark only")
        if pattern.value is None:
            return NULL
        if not isinstance(pattern.value, str | bytes):
            raise UntranslatableError(f"searching in {term.result_type()} is done by Spark only")
        return Match(term, kind, pattern.value)

    return translated


def _like(children: list[Predicate], _: dict[str, Any], fetch: _Fetch) -> Predicate:
    term, pattern = children
    if not isinstance(pattern, Literal) or not pa.types.is_string(pattern.type):
        raise UntranslatableError("LIKE with a pattern that is no constant is evaluated by Spark only")
    if pattern.value is None:
        return NULL
    escape = str(fetch().escapeChar())  # JSON lacks it
    like_tokens(str(pattern.value), escape)  # raises InvalidFilterError if the pattern is wrong
    return Like(term, str(pattern.value), escape)


def _in(children: list[Predicate], _: dict[str, Any], __: _Fetch) -> Predicate:
    term, options = children[0], children[1:]
    if not is_comparable(term.result_type()) or any(o.result_type() != term.result_type() for o in options):
        raise UntranslatableError(f"IN over values of type {term.result_type()} is evaluated by Spark only")
    literals = tuple(option for option in options if isinstance(option, Literal))
    if len(literals) == len(options):
        return In(term, literals)
    return disjunction([Compare("=", term, option) for option in options])


def _in_set(children: list[Predicate], _: dict[str, Any], fetch: _Fetch) -> Predicate:
    term = children[0]
    data_type = term.result_type()
    if not is_comparable(data_type):
        raise UntranslatableError(f"IN over values of type {data_type} is evaluated by Spark only")
    values = fetch().hset()
    literals = [Literal(None, data_type)] if values.contains(None) else []
    values = getattr(values, "$minus")(None)
    if pa.types.is_binary(data_type):
        iterator = values.iterator()
        while iterator.hasNext():
            literals.append(Literal(bytes(iterator.next()), data_type))
    elif not values.isEmpty():
        # One call instead of one per value; a random separator occurs in no text.
        separator = f"\x1f{uuid.uuid4()}\x1f"
        texts = values.mkString(separator).split(separator)
        literals += [Literal(_parsed(text, data_type), data_type) for text in texts]
    return In(term, tuple(literals))


def _length(children: list[Predicate], _: dict[str, Any], __: _Fetch) -> Predicate:
    data_type = children[0].result_type()
    if not (pa.types.is_string(data_type) or pa.types.is_binary(data_type)):
        raise UntranslatableError(f"length of {data_type} is evaluated by Spark only")
    return Length(children[0])


def _require_alike(values: list[Predicate]) -> None:
    types = {value.result_type() for value in values}
    if len(types) > 1 or not is_comparable(types.pop()):
        raise UntranslatableError("a choice between values of such types is evaluated by Spark only")


def _coalesce(children: list[Predicate], _: dict[str, Any], __: _Fetch) -> Predicate:
    _require_alike(children)
    return Coalesce(tuple(children))


def _case_when(children: list[Predicate], _: dict[str, Any], __: _Fetch) -> Predicate:
    pairs = len(children) // 2
    branches = tuple((children[2 * i], children[2 * i + 1]) for i in range(pairs))
    otherwise = children[-1] if len(children) % 2 else Literal(None, children[1].result_type())
    _require_alike([otherwise, *(value for _, value in branches)])
    return CaseWhen(branches, otherwise)


_TRANSLATIONS: dict[str, Callable[[list[Predicate], dict[str, Any], _Fetch], Predicate]] = {
    "Add": _arithmetic("+"),
    "And": lambda children, _, __: conjunction(children),
    "AttributeReference": _column,
    "CaseWhen": _case_when,
    "Cast": _cast,
    "Coalesce": _coalesce,
    "Contains": _match("contains"),
    "EndsWith": _match("ends"),
    "EqualNullSafe": _comparison("<=>"),
    "EqualTo": _comparison("="),
    "GetStructField": _field,
    "GreaterThan": _comparison(">"),
    "GreaterThanOrEqual": _comparison(">="),
    "If": _case_when,
    "In": _in,
    "InSet": _in_set,
    "IsNaN": lambda children, _, __: IsNan(children[0]),
    "IsNotNull": lambda children, _, __: Not(IsNull(children[0])),
    "IsNull": lambda children, _, __: IsNull(children[0]),
    "Length": _length,
    "LessThan": _comparison("<"),
    "LessThanOrEqual": _comparison("<="),
    "Like": _like,
    "Literal": _literal,
    "Multiply": _arithmetic("*"),
    "Not": lambda children, _, __: Not(children[0]),
    "Or": lambda children, _, __: disjunction(children),
    "Remainder": _arithmetic("%"),
    "StartsWith": _match("starts"),
    "Subtract": _arithmetic("-"),
}
