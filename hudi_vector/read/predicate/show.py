"""Predicates as SQL text for ``explain`` and messages."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

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
)
from hudi_vector.schema import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["to_text"]

_SHOWN = 20  # values of an IN list
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EPOCH = datetime(1970, 1, 1)


def to_text(predicate: Predicate) -> str:
    """Return a predicate as one line of SQL, with long IN lists shortened.

    Example:
        >>> to_text(Not(Compare("=", Column("x", pa.int64()), Literal(1, pa.int64()))))
        'x <> 1'
    """
    return _PRINTERS[type(predicate)](predicate)


def _nested(node: Predicate) -> str:
    """Return the text of an operand, in parentheses if it needs them."""
    text = to_text(node)
    return f"({text})" if isinstance(node, And | Or | Not | Compare | Arithmetic | In | Like | IsNull) else text


def _column(node: Column) -> str:
    return ".".join(_name(part) for part in (node.name, *node.path))


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def _literal(node: Literal) -> str:
    value: Any = node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if pa.types.is_date(node.type):
        return f"DATE '{_moment(value * 86_400_000_000)[:-9]}'"
    if pa.types.is_timestamp(node.type):
        return f"TIMESTAMP '{_moment(value)}Z'" if node.type.tz else f"TIMESTAMP_NTZ '{_moment(value)}'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _moment(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ")
    except OverflowError:
        return f"1970-01-01 00:00:00 + {micros // 1_000_000} s 00:00:00"


def _in(node: In) -> str:
    shown = ", ".join(_literal(value) for value in node.values[:_SHOWN])
    rest = len(node.values) - _SHOWN
    return f"{_nested(node.term)} IN ({shown}{f', … {rest} more' if rest > 0 else ''})"


def _not(node: Not) -> str:
    inner = node.term
    if isinstance(inner, IsNull):
        return f"{_nested(inner.term)} IS NOT NULL"
    if isinstance(inner, Compare) and inner.op == "=":
        return f"{_nested(inner.left)} <> {_nested(inner.right)}"
    return f"NOT {_nested(inner)}"


def _like(node: Like) -> str:
    escape = "" if node.escape == "\\" else f" ESCAPE {_quoted(node.escape)}"
    return f"{_nested(node.term)} LIKE {_quoted(node.pattern)}{escape}"


def _match(node: Match) -> str:
    function = {"starts": "startswith", "ends": "endswith", "contains": "contains"}[node.kind]
    pattern = f"X'{node.pattern.hex().upper()}'" if isinstance(node.pattern, bytes) else _quoted(node.pattern)
    return f"{function}({to_text(node.term)}, {pattern})"


def _case_when(node: CaseWhen) -> str:
    branches = " ".join(f"WHEN {to_text(condition)} THEN {to_text(value)}" for condition, value in node.branches)
    return f"CASE {branches} ELSE {to_text(node.otherwise)} END"


_PRINTERS: dict[type[Predicate], Callable[[Any], str]] = {
    And: lambda node: " AND ".join(_nested(term) if isinstance(term, Or) else to_text(term) for term in node.terms),
    Arithmetic: lambda node: f"{_nested(node.left)} {node.op} {_nested(node.right)}",
    CaseWhen: _case_when,
    Cast: lambda node: f"CAST({to_text(node.term)} AS {node.type})",
    ChangeCase: lambda node: f"{'upper' if node.upper else 'lower'}({to_text(node.term)})",
    Coalesce: lambda node: f"coalesce({', '.join(to_text(term) for term in node.terms)})",
    Column: _column,
    Compare: lambda node: f"{_nested(node.left)} {node.op} {_nested(node.right)}",
    In: _in,
    IsNan: lambda node: f"isnan({to_text(node.term)})",
    IsNull: lambda node: f"{_nested(node.term)} IS NULL",
    Length: lambda node: f"length({to_text(node.term)})",
    Like: _like,
    Literal: _literal,
    LocalTimestamp: lambda node: f"TIMESTAMP '{_moment(node.micros)}'",
    Match: _match,
    Not: _not,
    Or: lambda node: " OR ".join(_nested(term) if isinstance(term, And) else to_text(term) for term in node.terms),
}
