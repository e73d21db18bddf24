"""Constants in the arguments of a SQL function, read from the text that Spark prints of all of them.

A constant costs five calls into the JVM if it is asked for by itself. Only plain forms are read here: an argument of
another form is asked for by itself, and all are where the text cannot be split into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from hudi_vector.spark.catalyst.gateway import JavaObject, texts_of
from hudi_vector.spark.catalyst.handles import active_handles

__all__ = ["UNKNOWN", "Expressions", "Printed", "printed_arguments"]

UNKNOWN = object()
"""The value of an argument whose form is not read."""

_NAMED = "namedargumentexpression("
_TYPE = re.compile(r" AS [A-Z_]+(?:\(\d+(?:,\d+)?\))?\)")
_PLAIN = r"-?\d+(?:\.\d+)?"
_TOKEN = re.compile(
    rf"""(?P<text>'(?:[^'\\]|\\.)*')
    | CAST\((?P<cast>{_PLAIN})(?:BD|D|L|S|Y)?\ AS\ (?:DOUBLE|DECIMAL\((?P<precision>\d+),(?P<scale>\d+)\))\)
    | (?P<number>{_PLAIN}(?:E-?\d+)?)(?P<kind>BD|D|L)?(?![\w.])
    | (?P<open>array\()
    | (?P<other>CAST\(|[a-z_]\w*\()
    | (?P<word>NULL|true|false)
    """,
    re.VERBOSE | re.DOTALL,
)


class Expressions(Sequence[JavaObject]):
    """The expressions of a function's arguments, each fetched from the JVM once it is needed."""

    def __init__(self, java: JavaObject) -> None:
        self.java = java
        self._fetched: dict[int, JavaObject] = {}

    def __len__(self) -> int:
        return int(self.java.length())

    @overload
    def __getitem__(self, index: int) -> JavaObject: ...

    @overload
    def __getitem__(self, index: slice) -> list[JavaObject]: ...

    def __getitem__(self, index: int | slice) -> JavaObject:
        if isinstance(index, slice):
            return list(self)[index]
        if index not in self._fetched:
            self._fetched[index] = self.java.apply(index)
        return self._fetched[index]

    def __iter__(self) -> Iterator[JavaObject]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True)
class Printed:
    """A constant whose value is known from Spark's text of it."""

    value: Any


def printed_arguments(expressions: Expressions) -> list[tuple[str | None, Any]] | None:
    """Return the name of each argument, None for one given by place, and its value or `UNKNOWN`.

    Return None if the text of the arguments is not understood. Read are texts, whole, decimal and double numbers, and
    arrays of numbers, as float64.
    """
    whole = active_handles().named("org.apache.spark.sql.catalyst.expressions.CreateArray")(expressions.java, False)
    found = _Reader(str(whole.sql())).arguments()
    if found is None or not any(is_named for _, is_named in found):
        return None if found is None else [(None, value) for value, _ in found]
    # Spark's text leaves out the names. This one has them, and values without quotes.
    shown = texts_of(expressions.java)
    if len(shown) != len(found):
        return None
    return [
        (text.partition(" => ")[0] if is_named else None, value)
        for (value, is_named), text in zip(found, shown, strict=True)
    ]


class _UnknownTextError(Exception):
    """An error for a text that cannot be split into arguments."""


class _Reader:
    """A reader of the text ``array(argument, …)``, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def arguments(self) -> list[tuple[Any, bool]] | None:
        """Return the value of each argument, and whether it has a name; None if the text is not understood."""
        try:
            self._expect("array(")
            found = [self._argument()]
            while not self._follows(")"):
                self._expect(", ")
                found.append(self._argument())
        except (_UnknownTextError, RecursionError):
            return None
        return found if self._at == len(self._text) else None

    def _argument(self) -> tuple[Any, bool]:
        is_named = self._follows(_NAMED)
        value = self._value()
        if is_named:
            self._expect(")")
        return value, is_named

    def _value(self) -> Any:
        token = self._token()
        if token["text"] is not None:
            return re.sub(r"\\(.)", r"\1", token["text"][1:-1], flags=re.DOTALL)
        if token["open"] is not None:
            return self._numbers()
        if token["number"] is not None:
            is_whole = token["kind"] != "D" and token["number"].lstrip("-").isdigit()
            return int(token["number"]) if is_whole else float(token["number"])
        if token["other"] is not None:
            self._skip(token["other"])
        return UNKNOWN

    def _numbers(self) -> Any:
        """Return the numbers of an array whose beginning was read, `UNKNOWN` if an element is of another form."""
        if self._follows(")"):
            return UNKNOWN
        found = [self._number()]
        while not self._follows(")"):
            self._expect(", ")
            found.append(self._number())
        return UNKNOWN if None in found else np.array(found, np.float64)

    def _number(self) -> float | None:
        before = self._at
        token = self._token()
        if token["number"] is not None:
            return float(token["number"])
        if token["cast"] is not None and _fits(token["cast"], token["precision"], token["scale"]):
            return float(token["cast"])
        self._at = before
        self._value()
        return None

    def _skip(self, opened: str) -> None:
        """Read to the end of a call or a cast whose beginning was read."""
        if opened == "CAST(":
            self._value()
            self._match(_TYPE)
            return
        while not self._follows(")"):
            self._value()
            if not self._text.startswith(")", self._at):
                self._expect(", ")

    def _token(self) -> re.Match[str]:
        return self._match(_TOKEN)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _UnknownTextError
        self._at = found.end()
        return found

    def _follows(self, word: str) -> bool:
        follows = self._text.startswith(word, self._at)
        self._at += len(word) if follows else 0
        return follows

    def _expect(self, word: str) -> None:
        if not self._follows(word):
            raise _UnknownTextError


def _fits(number: str, precision: str | None, scale: str | None) -> bool:
    """Return True if a cast to a DOUBLE (no precision) or to a DECIMAL keeps all digits of a number."""
    if precision is None or scale is None:
        return True
    whole, _, rest = number.lstrip("-").partition(".")
    return len(rest) <= int(scale) and len(whole.lstrip("0")) <= int(precision) - int(scale)
