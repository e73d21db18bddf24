"""The parser of filter texts, a small dialect of SQL that works without Spark.

An accepted text has the same meaning as in Spark; a text whose meaning depends on Spark's settings is refused. ::

    filter   = or
    or       = and {OR and}
    and      = not {AND not}
    not      = NOT not | test
    test     = value [comparison value | [NOT] IN (…) | [NOT] BETWEEN value AND value
                     | [NOT] LIKE string [ESCAPE string] | IS [NOT] NULL]
    value    = constant | column{.field} | lower(…) | upper(…) | length(…) | isnan(…) | ( or )
    constant = number | string | TRUE | FALSE | NULL | DATE string | TIMESTAMP[_NTZ|_LTZ] string | X string
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import NoReturn

import pyarrow as pa

from hudi_vector.errors import InvalidFilterError, UnknownColumnError, did_you_mean
from hudi_vector.read.predicate.coerce import Constant, compared, digits_of, listed, parse_date, parse_timestamp
from hudi_vector.read.predicate.nodes import (
    FALSE,
    NULL,
    TRUE,
    ChangeCase,
    Column,
    IsNan,
    IsNull,
    Length,
    Like,
    Not,
    Predicate,
    conjunction,
    disjunction,
    like_tokens,
)
from hudi_vector.read.predicate.show import to_text
from hudi_vector.read.predicate.tokens import Token, tokenize

__all__ = ["parse"]

_OPERATORS = {"=": "=", "==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "<>", "!=": "<>"}
_KEYWORDS = ("AND", "OR", "NOT", "IN", "LIKE", "IS", "BETWEEN", "ESCAPE", "NULL", "TRUE", "FALSE", "CASE")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(l|d|bd)?", re.IGNORECASE | re.ASCII)
_MOST_DIGITS = 38
_DEEPEST = 100  # nested parentheses and NOTs


def parse(text: str, schema: pa.Schema, table: str = "the table") -> Predicate:
    """Parse a condition in SQL, for example ``price < 10 AND name LIKE 'a%'``, against the columns of a table.

    Names are compared without case; `table` is the table's name in messages. Raises InvalidFilterError if the text is
    not a condition or if its meaning depends on Spark's settings, and UnknownColumnError if it names a column or field
    that does not exist.

    Example:
        >>> from hudi_vector.read.predicate.form import to_text
        >>> to_text(parse("ID in (1, 2) and name is not null", pa.schema({"id": "int64", "name": "string"})))
        'id IN (1, 2) AND name IS NOT NULL'
    """
    return _Parser(text, schema, table).filter()


class _Parser:
    """A recursive descent parser with one method for each rule of the grammar above."""

    def __init__(self, text: str, schema: pa.Schema, table: str) -> None:
        self._text = text
        self._schema = schema
        self._table = table
        self._tokens = tokenize(text)
        self._next = 0
        self._depth = 0

    def filter(self) -> Predicate:
        found = self._condition(self._or())
        if self._peek().kind != "end":
            self._refuse("an operator or the end")
        return found

    def _or(self) -> Predicate | Constant:
        terms = [self._and()]
        while self._accept_word("OR"):
            terms.append(self._and())
        return terms[0] if len(terms) == 1 else disjunction([self._condition(term) for term in terms])

    def _and(self) -> Predicate | Constant:
        terms = [self._not()]
        while self._accept_word("AND"):
            terms.append(self._not())
        return terms[0] if len(terms) == 1 else conjunction([self._condition(term) for term in terms])

    def _not(self) -> Predicate | Constant:
        if not self._accept_word("NOT"):
            return self._test()
        self._descend()
        found = Not(self._condition(self._not()))
        self._depth -= 1
        return found

    def _test(self) -> Predicate | Constant:
        left = self._value()
        if self._peek().kind == "sign" and self._peek().text in _OPERATORS:
            return self._comparison(left)
        if self._accept_word("IS"):
            negated = self._accept_word("NOT")
            self._expect_word("NULL")
            found: Predicate = IsNull(self._node(left))
            return Not(found) if negated else found
        negated = self._accept_word("NOT")
        for word, rule in (("IN", self._in), ("BETWEEN", self._between), ("LIKE", self._like)):
            if self._accept_word(word):
                found = rule(self._node(left))
                return Not(found) if negated else found
        if negated:
            self._refuse("IN, BETWEEN or LIKE")
        after = self._peek()
        if (after.kind == "name" and not after.is_word("AND", "OR")) or (after.kind == "sign" and after.text != ")"):
            self._refuse("a comparison, IS, IN, BETWEEN, LIKE, AND or OR")
        return left

    def _comparison(self, left: Predicate | Constant) -> Predicate:
        op = _OPERATORS[self._take().text]
        found = compared("=" if op == "<>" else op, left, self._value())
        if self._peek().kind == "sign" and self._peek().text in _OPERATORS:
            self._refuse("AND or OR between two comparisons")
        return Not(found) if op == "<>" else found

    def _in(self, term: Predicate) -> Predicate:
        self._expect_sign("(")
        constants = [self._constant()]
        while self._accept_sign(","):
            constants.append(self._constant())
        self._expect_sign(")")
        return listed(term, constants)

    def _between(self, term: Predicate) -> Predicate:
        low = self._value()
        self._expect_word("AND")
        return conjunction([compared(">=", term, low), compared("<=", term, self._value())])

    def _like(self, term: Predicate) -> Predicate:
        if not pa.types.is_string(term.result_type()):
            raise InvalidFilterError(f"LIKE needs a text, and '{to_text(term)}' is of type {term.result_type()}")
        pattern = self._string("a pattern in '…' after LIKE")
        escape = self._string("one character in '…' after ESCAPE") if self._accept_word("ESCAPE") else "\\"
        if len(escape) != 1:
            raise InvalidFilterError(f"ESCAPE takes one character, and {escape!r} has {len(escape)}")
        like_tokens(pattern, escape)  # raises an error if the pattern is invalid
        return Like(term, pattern, escape)

    def _value(self) -> Predicate | Constant:
        token = self._peek()
        if self._accept_sign("("):
            self._descend()
            found = self._or()
            self._depth -= 1
            self._expect_sign(")")
            return found
        following = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        if token.kind == "name" and following.is_sign("("):
            return self._function()
        if token.kind == "quoted" or (
            token.kind == "name" and not token.is_word(*_KEYWORDS) and following.kind != "string"
        ):
            return self._column()
        return self._constant()

    def _function(self) -> Predicate:
        token = self._take()
        self._expect_sign("(")
        self._descend()
        argument = self._node(self._value())
        self._depth -= 1
        self._expect_sign(")")
        name, data_type = token.text.lower(), argument.result_type()
        if name in ("lower", "upper") and pa.types.is_string(data_type):
            return ChangeCase(argument, upper=name == "upper")
        if name == "length" and (pa.types.is_string(data_type) or pa.types.is_binary(data_type)):
            return Length(argument)
        if name == "isnan" and pa.types.is_floating(data_type):
            return IsNan(argument)
        raise InvalidFilterError(
            f"the filter {self._text!r} calls {token.text}({data_type}); lower, upper and length of texts and isnan "
            "of floats are there without Spark"
        )

    def _column(self) -> Predicate:
        token = self._take()
        name, data_type = self._resolve(token.text, self._schema)
        path: tuple[str, ...] = ()
        shown = name
        while self._accept_sign("."):
            field = self._take()
            if field.kind not in ("name", "quoted"):
                self._refuse("a field's name after the point", field)
            if not pa.types.is_struct(data_type):
                raise InvalidFilterError(f"'{shown}' is of type {data_type} and has no field '{field.text}'")
            found, data_type = self._resolve(field.text, pa.schema(list(data_type)), shown)
            path, shown = (*path, found), f"{shown}.{found}"
        return Column(name, _plain(data_type), path)

    def _resolve(self, name: str, schema: pa.Schema, struct: str = "") -> tuple[str, pa.DataType]:
        """Return the name, as it is spelled, and the type of a column, or of a field of a struct that is named."""
        found = [field for field in schema if field.name.lower() == name.lower()]
        if not found and struct:
            hint = did_you_mean(name, schema.names) or f"its fields are {', '.join(schema.names)}"
            raise UnknownColumnError(f"field '{name}' does not exist in the struct '{struct}'; {hint}")
        if not found:
            raise UnknownColumnError.of(name, schema.names, self._table)
        if len(found) > 1:
            kind = f"fields of '{struct}'" if struct else "columns"
            raise InvalidFilterError(f"the name '{name}' means several {kind}: {', '.join(f.name for f in found)}")
        return found[0].name, found[0].type

    def _constant(self) -> Constant:
        token = self._take()
        if token.is_word("TRUE", "FALSE", "NULL"):
            return Constant("null", None) if token.is_word("NULL") else Constant("boolean", token.is_word("TRUE"))
        if token.is_sign("+", "-") or token.kind == "number":
            return self._number(token, "+") if token.kind == "number" else self._number(self._take(), token.text)
        if token.kind == "string":
            self._refuse_adjacent_string()
            return Constant("string", token.text)
        if token.kind == "name" and self._peek().kind == "string":
            return self._typed_constant(token)
        return self._refuse("a column or a constant", token)

    def _number(self, token: Token, sign: str) -> Constant:
        found = _NUMBER.fullmatch(token.text) if token.kind == "number" else None
        if found is None:
            self._refuse("a number, with the suffix L, D or BD or none", token)
        digits, exponent, suffix = found[1], found[2] or "", (found[3] or "").upper()
        text = ("-" if sign == "-" else "") + digits + exponent
        if suffix == "D" or (exponent and suffix != "BD"):
            return Constant("double", float(text))
        if "." in digits or exponent or suffix == "BD":
            if suffix == "L":
                self._refuse("a whole number before L", token)
            return Constant("decimal", self._decimal(text, token))
        return Constant("integer", int(self._decimal(text, token)))

    def _decimal(self, text: str, token: Token) -> Decimal:
        """Return a number that Spark has as a decimal; refuse one for which 38 digits do not suffice, as Spark does."""
        try:
            found = Decimal(text)
        except InvalidOperation:
            found = None
        if found is None or sum(digits_of(found)) > _MOST_DIGITS:
            self._refuse(f"a number of at most {_MOST_DIGITS} digits", token)
        return found

    def _typed_constant(self, token: Token) -> Constant:
        text = self._string("a constant in '…'")
        name = token.text.upper()
        if name == "X" and re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", text):
            return Constant("binary", bytes.fromhex(text))
        if name == "DATE" and parse_date(text) is not None:
            return Constant("date", text)
        kinds = {"TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz"}
        if name in kinds and parse_timestamp(text) is not None:
            return Constant(kinds[name], text)
        raise InvalidFilterError(
            f"the filter {self._text!r} has {token.text} '{text}'; write DATE 'yyyy-MM-dd', "
            "TIMESTAMP 'yyyy-MM-dd HH:mm:ss' or X'…' with an even number of hexadecimal digits"
        )

    def _string(self, expected: str) -> str:
        token = self._take()
        if token.kind != "string":
            self._refuse(expected, token)
        self._refuse_adjacent_string()
        return token.text

    def _refuse_adjacent_string(self) -> None:
        if self._peek().kind == "string":
            self._refuse("one string; a quote inside of it is written \\'")

    def _condition(self, found: Predicate | Constant) -> Predicate:
        """Return a node with a boolean result; raise InvalidFilterError if it has another type."""
        if isinstance(found, Constant):
            if found.kind == "null":
                return NULL
            if found.kind == "boolean":
                return TRUE if found.value else FALSE
            raise InvalidFilterError(f"the filter {self._text!r} has the {found.kind} {found.value} as a condition")
        if not pa.types.is_boolean(found.result_type()):
            raise InvalidFilterError(
                f"the filter {self._text!r} has '{to_text(found)}' of type {found.result_type()} as a condition"
            )
        return found

    def _node(self, found: Predicate | Constant) -> Predicate:
        if isinstance(found, Constant):
            raise InvalidFilterError(f"the filter {self._text!r} tests the constant {found.value}; test a column")
        return found

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidFilterError(f"the filter has more than {_DEEPEST} nested parentheses, calls or NOTs")

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _accept_word(self, word: str) -> bool:
        found = self._peek().is_word(word)
        self._next += found
        return found

    def _accept_sign(self, sign: str) -> bool:
        found = self._peek().is_sign(sign)
        self._next += found
        return found

    def _expect_word(self, word: str) -> None:
        if not self._accept_word(word):
            self._refuse(word)

    def _expect_sign(self, sign: str) -> None:
        if not self._accept_sign(sign):
            self._refuse(f"'{sign}'")

    def _refuse(self, expected: str, token: Token | None = None) -> NoReturn:
        found = token or self._peek()
        shown = "the end" if found.kind == "end" else f"'{found.text}'"
        raise InvalidFilterError(
            f"the filter {self._text!r} has {shown} at position {found.position + 1}, where {expected} is expected"
        )


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Return the type that predicates use for a column's type.

    Dictionary types become their value type, large and view types become plain ones, and timestamps are in microseconds
    without time zone or in UTC.
    """
    if pa.types.is_dictionary(data_type):
        return _plain(data_type.value_type)
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", tz="UTC" if data_type.tz else None)
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_large_binary(data_type) or pa.types.is_binary_view(data_type):
        return pa.binary()
    return data_type
