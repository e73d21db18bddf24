"""Constants in the arguments of a SQL function, read from the text that Spark prints of all of them.

A constant costs five calls into the JVM if it is asked for by itself. Only the forms that are listed here are read;
where the text holds anything else, each argument is asked for by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import active_handles

__all__ = ["Expressions", "Printed", "printed_constants"]

_NAMED = "namedargumentexpression("
_BETWEEN = "\x1e"
_PLAIN = r"-?\d+(?:\.\d+)?"
_TOKEN = re.compile(
    rf"""(?P<text>'(?:[^'\\]|\\.)*')
    | CAST\((?P<cast>{_PLAIN})(?:BD|D|L|S|Y)?\ AS\ (?:DOUBLE|DECIMAL\((?P<precision>\d+),(?P<scale>\d+)\))\)
    | (?P<number>{_PLAIN}(?:E-?\d+)?)(?P<kind>BD|D|L)?(?![\w.])
    | (?P<open>array\()
    """,
    re.VERBOSE | re.DOTALL,
)


class Expressions(Sequence[JavaObject]):
    """The expressions of a function's arguments, each fetched from the JVM once it is needed."""

    def __init__(self, java: JavaObject) -> None:
        self.java = java
        self._fetched: list[JavaObject] | None = None

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> JavaObject: ...

    @overload
    def __getitem__(self, index: slice) -> list[JavaObject]: ...

    def __getitem__(self, index: int | slice) -> JavaObject:
        return self._all()[index]

    def _all(self) -> list[JavaObject]:
        if self._fetched is None:
            self._fetched = [self.java.apply(place) for place in range(self.java.length())]
        return self._fetched


@dataclass(frozen=True)
class Printed:
    """A constant whose value is known from Spark's text of it, and the name it was given with, None for a place."""

    value: Any
    key: str | None = None


def printed_constants(expressions: Expressions) -> list[Printed] | None:
    """Return the arguments if all are constants of plain forms, else None.

    Plain are texts, whole, decimal and double numbers, and arrays of numbers, as float64.
    """
    whole = active_handles().named("org.apache.spark.sql.catalyst.expressions.CreateArray")(expressions.java, False)
    found = _Reader(str(whole.sql())).arguments()
    if found is None or not any(is_named for _, is_named in found):
        return None if found is None else [Printed(value) for value, _ in found]
    # Spark's text leaves out the names. This one has them, and values without quotes.
    shown = str(expressions.java.mkString(_BETWEEN)).split(_BETWEEN)
    if len(shown) != len(found):
        return None
    return [
        Printed(value, text.partition(" => ")[0] if is_named else None)
        for (value, is_named), text in zip(found, shown, strict=True)
    ]


class _UnknownFormError(Exception):
    """An error for a part of the text that is not of a listed form."""


class _Reader:
    """A reader of the text ``array(argument, …)``, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def arguments(self) -> list[tuple[Any, bool]] | None:
        """Return the value of each argument, and whether it has a name; None where a form is unknown."""
        try:
            self._expect("array(")
            found = [self._argument()]
            while not self._follows(")"):
                self._expect(", ")
                found.append(self._argument())
        except _UnknownFormError:
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
        if token["number"] is None:
            raise _UnknownFormError
        is_whole = token["kind"] != "D" and token["number"].lstrip("-").isdigit()
        return int(token["number"]) if is_whole else float(token["number"])

    def _numbers(self) -> Any:
        """Return the numbers of an array whose beginning was read."""
        found = [self._number()]
        while not self._follows(")"):
            self._expect(", ")
            found.append(self._number())
        return np.array(found, np.float64)

    def _number(self) -> float:
        token = self._token()
        if token["number"] is not None:
            return float(token["number"])
        if token["cast"] is None or not _fits(token["cast"], token["precision"], token["scale"]):
            raise _UnknownFormError
        return float(token["cast"])

    def _token(self) -> re.Match[str]:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            raise _UnknownFormError
        self._at = token.end()
        return token

    def _follows(self, word: str) -> bool:
        follows = self._text.startswith(word, self._at)
        self._at += len(word) if follows else 0
        return follows

    def _expect(self, word: str) -> None:
        if not self._follows(word):
            raise _UnknownFormError


def _fits(number: str, precision: str | None, scale: str | None) -> bool:
    """Return True if a cast to a DOUBLE (no precision) or to a DECIMAL keeps all digits of a number."""
    if precision is None or scale is None:
        return True
    whole, _, rest = number.lstrip("-").partition(".")
    return len(rest) <= int(scale) and len(whole.lstrip("0")) <= int(precision) - int(scale)
