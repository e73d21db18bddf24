"""The pure form of a filter: small frozen nodes made of names, Arrow types and plain values.

Nodes are pickled to executors and compared by value, so they hold no arrays and no Spark objects. Values of
literals are plain: ``int`` for dates (days) and timestamps (microseconds), ``Decimal``, ``str``, ``bytes``,
``float``, ``bool`` or ``None``. What nodes mean is written down in `predicate_eval`, and nowhere else.
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
    """One node of the form; a node whose result is a boolean can be a filter."""

    def children(self) -> tuple[Predicate, ...]:
        """The nodes this one is made of.

        Returns:
            Its operands, in order.
        """
        return ()

    def result_type(self) -> pa.DataType:
        """The Arrow type of the node's values.

        Returns:
            ``bool`` for conditions, another type for the values they compare.
        """
        return _BOOLEAN


@dataclass(frozen=True)
class Column(Predicate):
    """A top-level column, or the field of a struct column that ``path`` leads to."""

    name: str
    type: pa.DataType
    path: tuple[str, ...] = ()

    def result_type(self) -> pa.DataType:
        """The type of the column or field."""
        return self.type


@dataclass(frozen=True)
class Literal(Predicate):
    """A constant of an Arrow type; ``None`` is NULL."""

    value: object
    type: pa.DataType

    def result_type(self) -> pa.DataType:
        """The type of the constant."""
        return self.type


@dataclass(frozen=True)
class LocalTimestamp(Predicate):
    """A wall-clock time, which becomes an instant in the zone that `evaluate` is given."""

    micros: int

    def result_type(self) -> pa.DataType:
        """An instant."""
        return pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Compare(Predicate):
    """``left op right`` of two values of one type; op is one of ``= <=> < <= > >=``."""

    op: str
    left: Predicate
    right: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class And(Predicate):
    """All terms; two or more."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Predicate, ...]:
        """The terms."""
        return self.terms


@dataclass(frozen=True)
class Or(Predicate):
    """Any term; two or more."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Predicate, ...]:
        """The terms."""
        return self.terms


@dataclass(frozen=True)
class _Unary(Predicate):
    term: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """The operand."""
        return (self.term,)


@dataclass(frozen=True)
class Not(_Unary):
    """The other truth value; NULL stays NULL."""


@dataclass(frozen=True)
class IsNull(_Unary):
    """Whether a value is NULL; never NULL itself."""


@dataclass(frozen=True)
class IsNan(_Unary):
    """Whether a floating-point value is NaN; false for NULL."""


@dataclass(frozen=True)
class In(_Unary):
    """Whether a value equals one of several literals of its type."""

    values: tuple[Literal, ...]


@dataclass(frozen=True)
class Match(_Unary):
    """Whether text or bytes ``starts`` with, ``ends`` with or ``contains`` a constant."""

    kind: str
    pattern: str | bytes


@dataclass(frozen=True)
class Like(_Unary):
    """SQL's LIKE: ``_`` is one code point (a line feed too), ``%`` any number of them."""

    pattern: str
    escape: str = "\\"


@dataclass(frozen=True)
class Length(_Unary):
    """Code points of a text, bytes of a binary value."""

    def result_type(self) -> pa.DataType:
        """A 32-bit integer."""
        return pa.int32()


@dataclass(frozen=True)
class ChangeCase(_Unary):
    """A text in upper or lower case, by Unicode's full case mapping."""

    upper: bool

    def result_type(self) -> pa.DataType:
        """A text."""
        return pa.string()


@dataclass(frozen=True)
class Cast(_Unary):
    """A conversion that cannot fail; ``offset`` are the microseconds a fixed session zone is ahead of UTC."""

    type: pa.DataType
    offset: int = 0

    def result_type(self) -> pa.DataType:
        """The type converted to."""
        return self.type


@dataclass(frozen=True)
class Arithmetic(Predicate):
    """``left op right`` of two numbers of one type; op is one of ``+ - * %``; integers wrap around."""

    op: str
    left: Predicate
    right: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Both sides."""
        return (self.left, self.right)

    def result_type(self) -> pa.DataType:
        """The type of both sides."""
        return self.left.result_type()


@dataclass(frozen=True)
class Coalesce(Predicate):
    """The first value that is not NULL."""

    terms: tuple[Predicate, ...]

    def children(self) -> tuple[Predicate, ...]:
        """The values, in order."""
        return self.terms

    def result_type(self) -> pa.DataType:
        """The type of all values."""
        return self.terms[0].result_type()


@dataclass(frozen=True)
class CaseWhen(Predicate):
    """The value beside the first condition that is true, else the last value."""

    branches: tuple[tuple[Predicate, Predicate], ...]
    otherwise: Predicate

    def children(self) -> tuple[Predicate, ...]:
        """Conditions and values in turn, then the last value."""
        return (*(node for branch in self.branches for node in branch), self.otherwise)

    def result_type(self) -> pa.DataType:
        """The type of all values."""
        return self.otherwise.result_type()


TRUE = Literal(True, _BOOLEAN)
FALSE = Literal(False, _BOOLEAN)
NULL = Literal(None, _BOOLEAN)


def walk(predicate: Predicate) -> Iterator[Predicate]:
    """Every node, a parent before its children.

    Args:
        predicate: Where to start.

    Yields:
        The node itself, then those below it.

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
    """The terms joined by AND, nested ones made flat.

    Args:
        terms: Conditions; none stand for TRUE.

    Returns:
        One condition.
    """
    flat = [node for term in terms for node in (term.terms if isinstance(term, And) else (term,))]
    return And(tuple(flat)) if len(flat) > 1 else flat[0] if flat else TRUE


def disjunction(terms: list[Predicate]) -> Predicate:
    """The terms joined by OR, nested ones made flat.

    Args:
        terms: Conditions; none stand for FALSE.

    Returns:
        One condition.
    """
    flat = [node for term in terms for node in (term.terms if isinstance(term, Or) else (term,))]
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else FALSE


def is_comparable(data_type: pa.DataType) -> bool:
    """Whether values of this type can be compared in the form: no structs, arrays, maps or intervals.

    Args:
        data_type: An Arrow type.

    Returns:
        True for booleans, signed integers, floats, decimals, texts, bytes, dates and timestamps.

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
    """A LIKE pattern taken apart.

    Args:
        pattern: As written, after the escapes of the string literal.
        escape: One character.

    Returns:
        Literal characters one by one, ``""`` for "any one character", ``None`` for "any characters".

    Raises:
        InvalidFilterError: The escape character stands before something else than ``_``, ``%`` or itself.

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
