"""The nodes of predicates: small frozen dataclasses of names, Arrow types and plain values.

Nodes are pickled for executors and compared by value, so they hold no arrays and no Spark objects. Values of literals
are plain: ``bool``, ``int``, ``float``, ``Decimal``, ``str``, ``bytes`` or ``None``, with dates as ``int`` in days and
timestamps as ``int`` in microseconds. The meaning of nodes is defined in `hudi_vector.read.predicate.evaluate` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hudi_vector.errors import InvalidFilterError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FALSE",
    "NULL",
    "TRUE",
    "And",
    "Arithmetic",
    "CaseWhen",
    "Cast",
    "ChangeCase",
    "Coalesce",
    "Column",
    "Compare",
    "In",
    "IsNan",
    "IsNull",
    "Length",
    "Like",
    "Literal",
    "LocalTimestamp",
    "Match",
    "Not",
    "Or",
    "Predicate",
    "conjunction",
    "disjunction",
    "is_comparable",
    "like_tokens",
    "walk",
]

_BOOLEAN = pa.bool_()


@dataclass(frozen=True)
class Predicate:
    """One node of a predicate; a node with a boolean result can be a filter."""

    def children(self) -> tuple[Predicate, ...]:
        """Return the operands in order."""
        return ()

    def result_type(self) -> pa.DataType:
        """Return the Arrow type of the result: ``bool`` for conditions, another type for the values they compare."""
        return _BOOLEAN


@dataclass(frozen=True)
class Column(Predicate):
    """A top-level column, or the field at ``path`` in a struct column."""

    name: str
    type: pa.DataType
    path: tuple[str, ...] = ()

    def result_type(self) -> pa.DataType:
        """Return the type of the column or field."""
        return self.type


@dataclass(frozen=True)
class Literal(Predicate):
    """A constant of an Arrow type; ``None`` is NULL."""

    value: object
    type: pa.DataType

    def result_type(self) -> pa.DataType:
        """Return the type of the constant."""
        return self.type


@dataclass(frozen=True)
class LocalTimestamp(Predicate):
    """A wall-clock time in microseconds, which becomes an instant in the time zone passed to `evaluate`."""

    micros: int

    def result_type(self) -> pa.DataType:
        """Return the type of instants."""
        return pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Compare(Predicate):
    """A comparison ``left op right`` of two values of one type; op is one of ``= <=> < <= > >=``."""

    op: str
    left: Predicate
    right: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Return both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class And(Predicate):
    """A conjunction of two or more terms."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Predicate, ...]:
        """Return the terms."""
        return self.terms


@dataclass(frozen=True)
class Or(Predicate):
    """A disjunction of two or more terms."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Predicate, ...]:
        """Return the terms."""
        return self.terms


@dataclass(frozen=True)
class _Unary(Predicate):
    term: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Return the operand."""
        return (self.term,)


@dataclass(frozen=True)
class Not(_Unary):
    """A negation; NULL stays NULL."""


@dataclass(frozen=True)
class IsNull(_Unary):
    """A test whether a value is NULL; the result is never NULL."""


@dataclass(frozen=True)
class IsNan(_Unary):
    """A test whether a floating-point value is NaN; false for NULL."""


@dataclass(frozen=True)
class In(_Unary):
    """A test whether a value equals one of several literals of its type."""

    values: tuple[Literal, ...]


@dataclass(frozen=True)
class Match(_Unary):
    """A test of text or bytes against a constant; ``kind`` is ``starts``, ``ends`` or ``contains``."""

    kind: str
    pattern: str | bytes


@dataclass(frozen=True)
class Like(_Unary):
    """SQL's LIKE: ``_`` matches one code point (also a line feed), ``%`` any number of code points."""

    pattern: str
    escape: str = "\\"


@dataclass(frozen=True)
class Length(_Unary):
    """The number of code points of a text, or of bytes of a binary value."""

    def result_type(self) -> pa.DataType:
        """Return the type of 32-bit integers."""
        return pa.int32()


@dataclass(frozen=True)
class ChangeCase(_Unary):
    """A text in upper or lower case, by Unicode's full case mapping."""

    upper: bool

    def result_type(self) -> pa.DataType:
        """Return the type of texts."""
        return pa.string()


@dataclass(frozen=True)
class Cast(_Unary):
    """A conversion that cannot fail; ``offset`` is how many microseconds a fixed session time zone is ahead of UTC."""

    type: pa.DataType
    offset: int = 0

    def result_type(self) -> pa.DataType:
        """Return the target type."""
        return self.type


@dataclass(frozen=True)
class Arithmetic(Predicate):
    """An operation ``left op right`` of two numbers of one type; op is one of ``+ - * %``; integers wrap around."""

    op: str
    left: Predicate
    right: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Return both sides."""
        return (self.left, self.right)

    def result_type(self) -> pa.DataType:
        """Return the type of both sides."""
        return self.left.result_type()


@dataclass(frozen=True)
class Coalesce(Predicate):
    """The first value that is not NULL."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Predicate, ...]:
        """Return the values in order."""
        return self.terms

    def result_type(self) -> pa.DataType:
        """Return the type of all values."""
        return self.terms[0].result_type()


@dataclass(frozen=True)
class CaseWhen(Predicate):
    """The value of the first branch (condition, value) whose condition is true, else the value ``otherwise``."""

    branches: tuple[tuple[Predicate, Predicate], ...]
    otherwise: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Return conditions and values in turn, then ``otherwise``."""
        return (*(node for branch in self.branches for node in branch), self.otherwise)

    def result_type(self) -> pa.DataType:
        """Return the type of all values."""
        return self.otherwise.result_type()


TRUE = Literal(True, _BOOLEAN)
FALSE = Literal(False, _BOOLEAN)
NULL = Literal(None, _BOOLEAN)


def walk(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the node and all nodes below it, a parent before its children.

    Example:
        >>> [type(node).__name__ for node in walk(Not(TRUE))]
        ['Not', 'Literal']
    """
    pending = [predicate]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children()))


def conjunction(terms: list[Predicate]) -> Predicate:
    """Join conditions by AND and flatten nested ANDs; no conditions give TRUE."""
    flat = [node for term in terms for node in (term.terms if isinstance(term, And) else (term,))]
    return And(tuple(flat)) if len(flat) > 1 else flat[0] if flat else TRUE


def disjunction(terms: list[Predicate]) -> Predicate:
    """Join conditions by OR and flatten nested ORs; no conditions give FALSE."""
    flat = [node for term in terms for node in (term.terms if isinstance(term, Or) else (term,))]
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else FALSE


def is_comparable(data_type: pa.DataType) -> bool:
    """Return True if predicates can compare values of an Arrow type.

    These types are booleans, signed integers, 32- and 64-bit floats, 128-bit decimals, texts, bytes, dates in days, and
    timestamps in microseconds, without time zone or in UTC.

    Example:
        >>> is_comparable(pa.int8()), is_comparable(pa.list_(pa.int8()))
        (True, False)
    """
    return (
        pa.types.is_boolean(data_type)
        or pa.types.is_signed_integer(data_type)
        or data_type in (pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
        or data_type in (pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
        or pa.types.is_decimal128(data_type)
    )


def like_tokens(pattern: str, escape: str) -> list[str | None]:
    """Split a LIKE pattern into literal characters, ``""`` for any one character, and ``None`` for any characters.

    The escapes of the string literal are already resolved in `pattern`; `escape` is one character. Raises
    InvalidFilterError unless each escape character is followed by ``_``, ``%`` or itself.

    Example:
        >>> like_tokens("a_%!%", "!")
        ['a', '', None, '%']
    """
    tokens: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("_", "%", escape):
                raise InvalidFilterError(
                    f"the LIKE pattern {pattern!r} has the escape character {escape!r} before something else than "
                    f"_, % or {escape!r}; write it twice to mean itself"
                )
            tokens.append(escaped)
        else:
            tokens.append(None if character == "%" else "" if character == "_" else character)
    return tokens
