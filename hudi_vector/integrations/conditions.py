"""Conditions over the metadata of documents, and their translation to the filter dialect where columns allow it.

A condition is true or false, never NULL: a document without the metadata has ``None``, which equals ``None`` alone and
is neither less nor more than anything.
"""

from __future__ import annotations

import datetime as dt
import math
import operator as op
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hudi_vector.arguments import is_unicode
from hudi_vector.errors import InvalidFilterError, kind_of
from hudi_vector.schema import quoted

__all__ = [
    "Comparison",
    "Condition",
    "Logic",
    "MetadataFilter",
    "Where",
    "comparison_text",
    "literal",
    "one_of_keys",
    "require_characters",
    "require_shallow",
    "split",
    "value_at",
]

FALSE = "FALSE"
_DEEPEST = 100
_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {"<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
_OPERATORS = {
    "$eq": "==",
    "$ne": "!=",
    "$lt": "<",
    "$lte": "<=",
    "$gt": ">",
    "$gte": ">=",
    "$in": "in",
    "$nin": "not in",
    "$exists": "exists",
}
_LISTS = ("$in", "$nin")
_LOGIC = {"$and": "AND", "$or": "OR"}


@dataclass(frozen=True)
class Comparison:
    """A comparison of one piece of metadata with a value; operator is ``==``, ``!=``, ``<`` … or ``[not] in``."""

    field: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Logic:
    """Several conditions joined by ``AND`` or ``OR``; with ``NOT``, none of which all are true together."""

    operator: str
    terms: tuple[Comparison | Logic, ...]


Tree = Comparison | Logic


@dataclass(frozen=True)
class Where:
    """A condition in two parts, both of which must hold.

    `text` is in the filter dialect and is evaluated as every filter is; None for no condition. `accepts` decides by the
    id, text and metadata of each row that passes it; None if `text` says everything. The text of rows is None unless
    `reads_text`.
    """

    text: str | None = None
    accepts: Callable[[str, str | None, dict[str, Any]], bool] | None = None
    reads_text: bool = False


class Condition(Protocol):
    """A filter of another library, which knows what of it the columns of a table can express."""

    def where(self, types: Mapping[str, pa.DataType]) -> Where:
        """Return the condition for a table whose metadata columns have these types."""
        ...


@dataclass(frozen=True)
class MetadataFilter:
    """A condition over metadata, written as a dictionary such as ``{"country": "DE", "price": {"$lt": 10}}``."""

    tree: Tree

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> MetadataFilter:
        """Return the condition that a dictionary describes; raise InvalidFilterError if it describes none."""
        require_shallow(given, _within)
        return cls(require_characters(_tree(given)))

    def where(self, types: Mapping[str, pa.DataType]) -> Where:
        """Return the condition for a table whose metadata columns have these types.

        Raises InvalidFilterError if a column is compared with a value of another type.
        """

        def expressed(leaf: Comparison) -> str | None:
            kind = types.get(leaf.field)
            if kind is None:
                return None
            text = comparison_text(leaf, leaf.field, kind)
            if text is None:
                raise InvalidFilterError(
                    f"the filter compares '{leaf.field}', a column of type {kind}, with {leaf.value!r}; "
                    "give a value of that type"
                )
            return text

        text, is_whole = split(self.tree, expressed)
        return Where(text) if is_whole else Where(text, lambda _id, _text, metadata: matches(self.tree, metadata))


def require_shallow(given: Any, within: Callable[[Any], Iterable[Any]]) -> None:
    """Raise InvalidFilterError if more than 100 conditions are in each other, as in a filter that holds itself.

    `within` returns the conditions that are parts of one.
    """
    waiting = [(given, 1)]
    while waiting:
        one, depth = waiting.pop()
        if depth > _DEEPEST:
            raise InvalidFilterError(
                f"the filter has more than {_DEEPEST} conditions in each other, or holds itself; nest it less"
            )
        waiting += [(inner, depth + 1) for inner in within(one)]


def require_characters(tree: Tree) -> Tree:
    """Return a condition; raise InvalidFilterError if a name or a value in it holds half of a surrogate pair."""
    if isinstance(tree, Logic):
        for term in tree.terms:
            require_characters(term)
        return tree
    listed = tree.value if isinstance(tree.value, list) else [tree.value]
    if not is_unicode(tree.field):
        raise InvalidFilterError(f"the filter names {tree.field!r}, which holds half of a surrogate pair; remove it")
    if not all(is_unicode(value) for value in listed if isinstance(value, str)):
        raise InvalidFilterError(
            f"the filter compares '{tree.field}' with a text that holds half of a surrogate pair; remove it"
        )
    return tree


def one_of_keys(given: Any, known: Sequence[str]) -> str:
    """Return a list of the allowed operators for a message, after the one that was given."""
    return f"unknown operator {given!r}; the operators are {', '.join(known)}"


def split(tree: Tree, expressed: Callable[[Comparison], str | None]) -> tuple[str | None, bool]:
    """Return the part of a condition that the dialect expresses, None if there is none, and whether it is all of it.

    `expressed` returns a comparison in the dialect, or None. Every row that the condition accepts passes the text.
    """
    whole = _text(tree, expressed)
    if whole is not None:
        return whole, True
    terms = tree.terms if isinstance(tree, Logic) and tree.operator == "AND" else ()
    parts = [part for part, _ in (split(term, expressed) for term in terms) if part is not None]
    return (" AND ".join(parts) if parts else None), False


def _text(tree: Tree, expressed: Callable[[Comparison], str | None]) -> str | None:
    """Return a condition in the dialect, None if a part of it cannot be expressed."""
    if isinstance(tree, Comparison):
        return expressed(tree)
    terms = [_text(term, expressed) for term in tree.terms]
    known = [term for term in terms if term is not None]
    if len(known) < len(terms):
        return None
    none, between = ("FALSE", " OR ") if tree.operator == "OR" else ("TRUE", " AND ")
    joined = f"({between.join(known or [none])})"
    return f"(NOT {joined})" if tree.operator == "NOT" else joined


def comparison_text(leaf: Comparison, column: str, kind: pa.DataType) -> str | None:
    """Return a comparison with a column in the filter dialect, never NULL; None if the dialect cannot express it."""
    name = quoted(column)
    if leaf.operator in ("!=", "not in", "exists"):
        opposite = Comparison(leaf.field, "in" if leaf.operator == "not in" else "==", leaf.value)
        if leaf.operator == "exists":
            opposite = Comparison(leaf.field, "==", None)
            if leaf.value is False:
                return f"({name} IS NULL)"
        text = comparison_text(opposite, column, kind)
        return None if text is None else f"(NOT {text})"
    if leaf.operator == "in":
        if not isinstance(leaf.value, list):
            return None
        return _among_text(leaf, column, kind)
    if leaf.value is None:
        return f"({name} IS NULL)" if leaf.operator == "==" else f"({FALSE})"
    value = literal(leaf.value, kind)
    if value is None:
        return None
    if leaf.operator == "==":
        return f"({name} <=> {value})"
    number = f" AND NOT isnan({name})" if pa.types.is_floating(kind) else ""
    return f"({name} IS NOT NULL{number} AND {name} {leaf.operator} {value})"


def _among_text(leaf: Comparison, column: str, kind: pa.DataType) -> str | None:
    """Return the condition that a column has one of several values, never NULL; None if one cannot be expressed.

    One IN is a look-up for each row, where as many comparisons would be made one after the other.
    """
    listed = [literal(value, kind) for value in leaf.value if _is_listed(value, kind)]
    others = [value for value in leaf.value if not _is_listed(value, kind)]
    each = [comparison_text(Comparison(leaf.field, "==", value), column, kind) for value in others]
    constants, terms = [text for text in listed if text is not None], [text for text in each if text is not None]
    if len(constants) + len(terms) < len(leaf.value):
        return None
    name = quoted(column)
    among = [f"({name} IS NOT NULL AND {name} IN ({', '.join(constants)}))"] if constants else []
    return f"({' OR '.join([*among, *terms] or [FALSE])})"


def _is_listed(value: Any, kind: pa.DataType) -> bool:
    """Return True if IN takes the constant of a value, that is, if no column is cast to compare it."""
    if isinstance(value, int) and not isinstance(value, bool) and pa.types.is_integer(kind):
        bits = kind.bit_width - 1
        return bool(pa.types.is_signed_integer(kind)) and -(1 << bits) <= value < 1 << bits
    if isinstance(value, (int, float)):
        return bool(pa.types.is_float64(kind) or pa.types.is_boolean(kind))
    return value is not None


def literal(value: Any, kind: pa.DataType) -> str | None:
    """Return a value as a constant that the dialect compares with a column of a type; None if there is none."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return str(value).upper() if pa.types.is_boolean(kind) else None
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**63 and (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        # A double has no more than 53 bits: beyond them the comparison would round.
        exact = not pa.types.is_floating(kind) or abs(value) <= 2**53
        return str(value) if fits and exact else None
    if isinstance(value, float):
        if not math.isfinite(value) or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            return None
        if pa.types.is_integer(kind) and value.is_integer():
            return literal(int(value), kind)
        return f"{value!r}D"
    if isinstance(value, str) and pa.types.is_string(kind):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return _moment(value, kind)


def _moment(value: Any, kind: pa.DataType) -> str | None:
    """Return a day or a moment, also one given as text in ISO's form, as a constant; without a zone it is UTC."""
    is_day, is_moment = pa.types.is_date(kind), pa.types.is_timestamp(kind)
    if not is_day and not is_moment:
        return None
    try:
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if is_day:
        if isinstance(moment, dt.datetime):
            if moment.tzinfo is not None or moment.time() != dt.time():
                return None
            moment = moment.date()
        return f"DATE '{moment.isoformat()}'" if isinstance(moment, dt.date) else None
    if not isinstance(moment, dt.datetime):
        return None
    utc = moment.replace(tzinfo=dt.timezone.utc) if moment.tzinfo is None else moment
    try:
        utc = utc.astimezone(dt.timezone.utc).replace(tzinfo=None)
    except OverflowError:  # in UTC it is before the year 1, or after 9999
        return None
    return f"TIMESTAMP '{utc.isoformat(sep=' ', timespec='microseconds')}Z'"


def value_at(metadata: Mapping[str, Any], field: str) -> Any:
    """Return the metadata of a name, or within it at a dotted path; None if there is none."""
    if field in metadata:
        return metadata[field]
    found: Any = metadata
    for part in field.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def matches(tree: Tree, metadata: Mapping[str, Any]) -> bool:
    """Decide whether metadata fulfils a condition; values of different kinds are neither equal nor in an order."""
    if isinstance(tree, Logic):
        each = (matches(term, metadata) for term in tree.terms)
        return any(each) if tree.operator == "OR" else all(each) is (tree.operator == "AND")
    value = value_at(metadata, tree.field)
    if tree.operator == "exists":
        return (value is not None) is tree.value
    if tree.operator in ("!=", "not in"):
        return not matches(Comparison(tree.field, "in" if tree.operator == "not in" else "==", tree.value), metadata)
    if tree.operator == "in":
        return any(_equal(value, one) for one in tree.value)
    if tree.operator == "==":
        return _equal(value, tree.value)
    one, other = _comparable(value, tree.value)
    return one is not None and other is not None and _ORDERINGS[tree.operator](one, other)


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, (list, dict)):
        return bool(one == other)
    first, second = _comparable(one, other)
    return first is not None and bool(first == second)


def _comparable(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two values as the dialect compares them, (None, None) if it does not."""
    for kind in (bool, (int, float), str):
        if isinstance(one, kind) and isinstance(other, kind) and isinstance(one, bool) is isinstance(other, bool):
            return one, other
    if isinstance(one, dt.date):
        is_moment = isinstance(one, dt.datetime)
        kind = pa.timestamp("us", "UTC") if is_moment else pa.date32()
        texts = _moment(one, kind), _moment(other, kind)
        return texts if None not in texts else (None, None)
    return None, None


def _tree(given: Any) -> Tree:
    if not isinstance(given, Mapping):
        raise InvalidFilterError(
            f"a filter is text such as \"price < 10\", or a dictionary such as {{'price': {{'$lt': 10}}}}, "
            f"not {kind_of(given)}"
        )
    terms = [_term(key, value) for key, value in given.items()]
    return terms[0] if len(terms) == 1 else Logic("AND", tuple(terms))


def _within(given: Any) -> Iterable[Any]:
    """Yield the filters that a filter joins or denies."""
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if key == "$not":
            yield value
        elif key in _LOGIC and isinstance(value, (list, tuple)):
            yield from value


def _term(key: Any, value: Any) -> Tree:
    if key in _LOGIC:
        if not isinstance(value, (list, tuple)) or not value:
            raise InvalidFilterError(f"'{key}' takes a list of filters, not {value!r}")
        return Logic(_LOGIC[key], tuple(_tree(one) for one in value))
    if key == "$not":
        return Logic("NOT", (_tree(value),))
    if not isinstance(key, str) or key.startswith("$"):
        raise InvalidFilterError(f"the filter has the {one_of_keys(key, ('$and', '$or', '$not'))} outside of a name")
    if not isinstance(value, Mapping):
        return _comparison(key, "$eq", value)
    if not value:
        raise InvalidFilterError(f"the filter says nothing of '{key}'; give a value, or {{'$lt': value}}")
    terms = tuple(_comparison(key, name, one) for name, one in value.items())
    return terms[0] if len(terms) == 1 else Logic("AND", terms)


def _comparison(field: str, name: Any, value: Any) -> Comparison:
    if name not in _OPERATORS:
        raise InvalidFilterError(f"the filter has for '{field}' the {one_of_keys(name, tuple(_OPERATORS))}")
    if name in _LISTS and not isinstance(value, (list, tuple, set)):
        raise InvalidFilterError(f"'{name}' of '{field}' takes a list of values, not {value!r}")
    if name == "$exists" and not isinstance(value, bool):
        raise InvalidFilterError(f"'$exists' of '{field}' takes True or False, not {value!r}")
    if isinstance(value, np.ndarray):
        raise InvalidFilterError(f"'{name}' of '{field}' takes no array; give one value, or {{'$in': values}}")
    listed = [one.item() if isinstance(one, np.generic) else one for one in ([value] if name not in _LISTS else value)]
    return Comparison(field, _OPERATORS[name], listed if name in _LISTS else listed[0])
