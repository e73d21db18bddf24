"""Conversion of the arguments of a SQL table function, by position or name, to Python values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, InvalidVectorError, number_of
from hudi_vector.spark.catalyst.gateway import JavaObject, node_name
from hudi_vector.spark.catalyst.handles import active_handles
from hudi_vector.spark.catalyst.printed import UNKNOWN, Expressions, Printed, printed_arguments

__all__ = [
    "Argument",
    "Signature",
    "bind",
    "constant",
    "is_deferred",
    "is_outer",
    "is_table",
    "named_and_placed",
    "nested_constant",
]

Argument = Any
"""An argument of a SQL function: a `Printed` constant, or a Catalyst expression."""

_COUNTS = frozenset({"k", "top_k"})
_WHOLE_NUMBER = re.compile(r"\+?\d{1,9}")
_NUMBERS = frozenset({"float", "double", "tinyint", "byte", "short", "smallint", "integer", "int", "long", "bigint"})


@dataclass(frozen=True)
class Signature:
    """The parameters of a function.

    `order` are the parameters that may be given by position or name, `named_only` the parameters that must be named.
    `aliases` are pairs of another name and its parameter.
    """

    function: str
    order: tuple[str, ...]
    required: tuple[str, ...]
    named_only: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all parameters."""
        return (*self.order, *self.named_only)


def named_and_placed(expressions: Expressions, as_printed: bool = True) -> list[tuple[str | None, Argument]]:
    """Return each argument with the name it was given with, None for one that is given by position.

    Without `as_printed` all are Catalyst expressions.
    """
    printed = printed_arguments(expressions) if as_printed else None
    if printed is None:
        return [
            (str(each.key()), each.value()) if node_name(each) == "NamedArgumentExpression" else (None, each)
            for each in expressions
        ]
    arguments: list[tuple[str | None, Argument]] = []
    for place, (name, value) in enumerate(printed):
        if value is not UNKNOWN:
            arguments.append((name, Printed(value)))
        else:
            arguments.append((name, expressions[place] if name is None else expressions[place].value()))
    return arguments


def bind(signature: Signature, arguments: Sequence[tuple[str | None, Argument]]) -> dict[str, Argument]:
    """Return arguments, from `named_and_placed`, by parameter; names match in any case.

    Raises InvalidArgumentError if a required argument is missing, too many are given by position, one is given twice, a
    name is unknown, or an argument without a name follows one with a name.
    """
    bound: dict[str, Argument] = {}
    aliases = dict(signature.aliases)
    named = False
    for position, (given, value) in enumerate(arguments):
        if given is not None:
            named = True
            name = aliases.get(given.lower(), given.lower())
            if name not in signature.names:
                raise InvalidArgumentError(f"there is no argument '{given}'; the arguments are {_usage(signature)}")
        elif named:
            raise InvalidArgumentError("an argument without a name comes after one with a name; name it too")
        else:
            if position >= len(signature.order):
                raise InvalidArgumentError(
                    f"{number_of(len(arguments), 'argument was', 'arguments were')} given, at most "
                    f"{len(signature.order)} are allowed without a "
                    f"name: {_usage(signature)}"
                )
            name = signature.order[position]
        if name in bound:
            raise InvalidArgumentError(f"the argument '{name}' is given twice; give it once")
        bound[name] = value
    missing = [name for name in signature.required if name not in bound]
    if missing:
        raise InvalidArgumentError(f"the argument '{missing[0]}' is missing; the arguments are {_usage(signature)}")
    return bound


def _usage(signature: Signature) -> str:
    return ", ".join(name if name in signature.required else f"[{name}]" for name in signature.names)


def nested_constant(argument: Argument, name: str) -> Any:
    """Return the Python value of a resolved constant expression that may be nested.

    A MAP becomes a dict, a STRUCT a list of (name, value) pairs, an array of booleans, texts, maps, structs or arrays a
    list; other values are as from `constant`. Raises InvalidArgumentError, naming the parameter `name`, if the
    expression is not a constant.
    """
    return argument.value if isinstance(argument, Printed) else _nested(*_evaluated(argument, name))


def _nested(value: Any, data_type: JavaObject) -> Any:
    if value is None:
        return None
    kind = str(data_type.typeName())
    if kind == "struct":
        fields = data_type.fields()
        found = []
        for i, field in enumerate(fields):
            held = None if value.isNullAt(i) else value.get(i, field.dataType())
            found.append((str(field.name()), _nested(held, field.dataType())))
        return found
    if kind == "map":
        types = active_handles().named("org.apache.spark.sql.types.ArrayType")
        keys = _nested(value.keyArray(), types(data_type.keyType(), False))
        return dict(zip(keys, _nested(value.valueArray(), types(data_type.valueType(), True)), strict=True))
    if kind == "array" and str(data_type.elementType().typeName()) in ("array", "boolean", "map", "string", "struct"):
        element = data_type.elementType()
        places = range(value.numElements())
        return [_nested(None if value.isNullAt(i) else value.get(i, element), element) for i in places]
    return _python_value(value, data_type)


def constant(argument: Argument, name: str) -> Any:
    """Return the Python value of a resolved constant expression.

    The value is None, bool, int, float, str, bytes, or a float64 array for an array of numbers (NaN for an array of
    untyped NULLs). A TIMESTAMP becomes ("timestamp", microseconds), a TIMESTAMP_NTZ ("timestamp_ntz", microseconds), a
    DATE ("date", days), a number of rows that is given as text an int.

    Raises InvalidArgumentError, naming the parameter `name`, if the expression is not a constant, InvalidTypeError for
    an array of other elements, InvalidVectorError for an array of numbers that contains NULL.
    """
    value = argument.value if isinstance(argument, Printed) else _python_value(*_evaluated(argument, name))
    # Hudi's functions accept the number of rows as text too.
    if name in _COUNTS and isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value):
        return int(value)
    return value


def _evaluated(expression: JavaObject, name: str) -> tuple[Any, JavaObject]:
    """Return a constant's value, as Spark holds it, and its type; raise InvalidArgumentError if it is not constant."""
    while node_name(expression) == "Alias":
        expression = expression.child()
    if not expression.foldable():
        if is_outer(expression):
            raise InvalidArgumentError(
                f"the argument '{name}' refers to a column of another table ({expression.sql()}); a search takes one "
                "query vector: use hudi_vector_search_batch to search for every row of a table"
            )
        raise InvalidArgumentError(f"the argument '{name}' must be a constant, not {expression.sql()}")
    return expression.eval(None), expression.dataType()


def _python_value(value: Any, data_type: JavaObject) -> Any:
    if value is None:
        return None
    kind = str(data_type.typeName())
    if kind == "array":
        return _numbers(value, data_type)
    if kind == "string":
        return value if isinstance(value, str) else value.toString()
    if kind.startswith("decimal"):
        text = str(value.toString())
        number = float(text)
        return int(number) if number.is_integer() and "." not in text else number
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return (kind, int(value))
    return value


def _numbers(value: JavaObject, data_type: JavaObject) -> Any:
    element = str(data_type.elementType().typeName())
    if element == "void":
        return np.full(value.numElements(), np.nan)
    if element not in _NUMBERS and not element.startswith("decimal"):
        raise InvalidTypeError(f"an array of {element} was given; a vector is an array of numbers")
    if value.numElements() == 0:
        return np.empty(0)
    # One text for all elements saves a call into the JVM for each element.
    types = active_handles().type_converters
    text = str(types.convertToScala(value, data_type).mkString(","))
    words = text.split(",")
    numbers = [math.nan if word == "null" else float(word) for word in words]
    if "null" in words:
        raise InvalidVectorError("the query vector holds NULL; every element must be a number")
    # Java prints a FLOAT with the fewest digits that identify it, so the text must be read as float32 before widening.
    return np.array(numbers, np.float32).astype(np.float64) if element == "float" else np.array(numbers, np.float64)


def is_outer(expression: JavaObject) -> bool:
    """Return True if an expression refers to a column from outside of the function's arguments."""
    return "outer(" in str(expression.sql()) or node_name(expression) == "OuterReference"


def is_table(argument: Argument) -> bool:
    """Return True if an argument is ``TABLE(…)``."""
    return not isinstance(argument, Printed) and node_name(argument) == "FunctionTableSubqueryArgumentExpression"


def is_deferred(argument: Argument) -> bool:
    """Return True if an argument is constant only when the statement runs, since it holds a scalar subquery."""
    if isinstance(argument, Printed):
        return False
    expression: JavaObject = argument
    if expression.foldable() or not expression.deterministic() or is_outer(expression):
        return False
    return bool(expression.references().isEmpty()) and "scalarsubquery(" in str(expression.sql()).lower()
