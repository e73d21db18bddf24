"""Checks of the arguments that public functions share: names, counts, distances, vectors."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidTypeError,
    InvalidVectorError,
    did_you_mean,
    kind_of,
    number_of,
)

__all__ = [
    "MAXIMUM_K",
    "as_count",
    "as_distance",
    "as_k",
    "as_seconds",
    "as_settings",
    "as_share",
    "as_text",
    "as_vector",
    "checked_names",
    "is_unicode",
    "known_arguments",
    "refuse_unknown",
    "require_unicode",
]

MAXIMUM_K = 100_000
_LARGEST = (1 << 63) - 1

_ELSEWHERE = {
    "condition": "filter",
    "distance_metric": "metric",
    "distance_type": "metric",
    "embedding_col": "column",
    "limit": "k",
    "num_results": "k",
    "query_vector": "query",
    "top_k": "k",
    "where": "filter",
}
"""Names that SQL and other libraries have for arguments of this package."""

_KNOWN = "__hudi_vector_arguments__"

P = ParamSpec("P")
R = TypeVar("R")


def known_arguments(*options: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a public function name the nearest argument when it is given one that it does not have.

    Args:
        options: The TypedDicts whose keys the function takes as ``**options``.

    Returns:
        A decorator. The function raises InvalidTypeError for an unknown argument, before anything else happens.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        named = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        known = frozenset(named).union(*(option.__annotations__ for option in options))

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not known.issuperset(kwargs):
                refuse_unknown(checked, kwargs)
            return function(*args, **kwargs)

        setattr(checked, _KNOWN, known)
        return checked

    return decorated


def refuse_unknown(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise InvalidTypeError if a function with `known_arguments` lacks one of these argument names."""
    known: frozenset[str] = getattr(function, _KNOWN)
    for name in given:
        if name not in known:
            here = _ELSEWHERE.get(name)
            hint = f"it is '{here}' here" if here in known else did_you_mean(name, known)
            hint = hint or "its arguments are " + ", ".join(sorted(known - {"self"}))
            called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]  # a class by its name
            raise InvalidTypeError(f"{called} has no argument '{name}'; {hint}")


@overload
def as_text(value: Any, name: str) -> str: ...
@overload
def as_text(value: Any, name: str, allow_null: bool) -> str | None: ...
def as_text(value: Any, name: str, allow_null: bool = False) -> str | None:
    """Return a text argument, or None if `allow_null`; raise InvalidTypeError if it is not text, or blank."""
    if value is None and allow_null:
        return None
    if not isinstance(value, str):
        raise InvalidTypeError(f"the argument '{name}' must be text, not {_shown(value)}")
    if not value.strip():
        raise InvalidTypeError(
            f"the argument '{name}' is blank; {'leave it out, or ' if allow_null else ''}give a text"
        )
    return value


def is_unicode(text: str) -> bool:
    r"""Return False for a text that holds half of a surrogate pair, which UTF-8 has no bytes for.

    Example:
        >>> is_unicode("caf\u00e9"), is_unicode("caf\udce9")
        (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_unicode(text: str, place: str) -> None:
    """Raise InvalidArgumentError, which names the place and what lies around it, for half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        around = text[max(0, problem.start - 20) : problem.start + 20]
        raise InvalidArgumentError(
            f"{place} holds half of a surrogate pair, which is no character, in {around!r}; remove it"
        ) from None


def checked_names(columns: Any) -> tuple[str, ...] | None:
    """Return a list of column names, or None for None; raise InvalidTypeError if it is not a list of names."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidTypeError(f"columns must be a list of names, not {_shown(columns)}")
    return tuple(as_text(name, "columns") for name in columns)


def as_k(value: Any, name: str = "k") -> int:
    """Return the number of neighbours; raise InvalidArgumentError unless it is a whole number from 1 to 100,000."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 1 <= int(value) <= MAXIMUM_K:
        raise InvalidArgumentError(f"{name} must be a whole number from 1 to {MAXIMUM_K}, not {_shown(value)}")
    return int(value)


def as_count(value: Any, name: str, least: int = 1) -> int | None:
    """Return a count, or None for None; raise InvalidArgumentError unless it is a whole number of at least `least`.

    It must fit in 64 bits.
    """
    if value is None:
        return None
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or int(value) < least:
        raise InvalidArgumentError(f"{name} must be a whole number, {least} or more, not {value!r}")
    if int(value) > _LARGEST:
        raise InvalidArgumentError(f"{name} is a number of more than 64 bits; give {_LARGEST} or less")
    return int(value)


def as_seconds(value: Any, name: str) -> float | None:
    """Return a number of seconds, or None for None.

    Raises InvalidTypeError if it is not a number, and InvalidArgumentError unless it is finite, and 0 or more.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidTypeError(f"{name} must be a number of seconds, not {_shown(value)}")
    if not 0 <= value <= sys.float_info.max:
        raise InvalidArgumentError(f"{name} must be 0 seconds or more, and finite, not {_shown(value)}")
    return float(value)


def as_settings(value: Any, name: str) -> dict[str, str]:
    """Return settings by key, their values as texts; raise InvalidTypeError unless it is a mapping with such keys.

    None gives an empty dictionary.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):  # it may hold secrets, so that its kind alone is shown
        raise InvalidTypeError(f"{name} must be a dictionary of texts, not {kind_of(value)}")
    wrong = [key for key in value if not isinstance(key, str)]
    if wrong:
        raise InvalidTypeError(f"{name} must be a dictionary of texts, and its key {_shown(wrong[0])} is none")
    return {key: str(setting) for key, setting in value.items()}


def as_share(value: Any, name: str) -> float | None:
    """Return a share, or None for None; raise InvalidArgumentError unless it is a number above 0, up to 1."""
    if value is None:
        return None
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 < float(value) <= 1:
        raise InvalidArgumentError(f"{name} must be a number above 0, up to 1, not {value!r}")
    return float(value)


def as_distance(value: Any) -> float | None:
    """Return the largest wanted distance, or None for None.

    Raises InvalidTypeError if it is not a number, and InvalidArgumentError if it is NaN.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidTypeError(f"max_distance must be a number or NULL, not {_shown(value)}")
    try:
        distance = float(value)
    except OverflowError:
        raise InvalidArgumentError("max_distance is a number beyond what DOUBLE holds; leave it out") from None
    if math.isnan(distance):
        raise InvalidArgumentError("max_distance is NaN; give a number or NULL")
    return distance


def as_vector(value: Any, dimension: int | None) -> npt.NDArray[np.float64]:
    """Return a query vector, given as a list, tuple or 1-d array of numbers, as float64 of shape (d,).

    `dimension` is the column's, or None if unknown. Raises InvalidVectorError if the vector is NULL or empty or holds
    NULL, NaN or infinity, InvalidTypeError if it is not an array of numbers, and DimensionMismatchError if its length
    is not `dimension`.
    """
    if value is None:
        raise InvalidVectorError("the query vector is NULL; give an array of numbers")
    vector = _as_array(value)
    if vector.size == 0:
        raise InvalidVectorError("the query vector is empty; give an array of numbers")
    if not np.isfinite(vector).all():
        raise InvalidVectorError("the query vector holds NaN or infinity; every element must be a finite number")
    if dimension is not None and len(vector) != dimension:
        raise DimensionMismatchError(
            f"the query vector has {number_of(len(vector), 'element')}, the column has {dimension}; give {dimension}"
        )
    return vector


def _as_array(value: Any) -> npt.NDArray[np.float64]:
    if isinstance(value, (str, bytes, Mapping)) or np.isscalar(value):
        raise InvalidTypeError(f"the query vector must be an array of numbers, not {_shown(value)}")
    if isinstance(value, (list, tuple)) and any(element is None for element in value):
        raise InvalidVectorError("the query vector holds NULL; every element must be a number")
    if np.ma.is_masked(value):
        raise InvalidVectorError("the query vector has masked elements; every element must be a number")
    try:
        array = np.asarray(value.toArray() if hasattr(value, "toArray") else value)
        if array.dtype == object:
            array = np.array([float(element) for element in array.ravel()]).reshape(array.shape)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(f"the query vector must be an array of numbers, not {_shown(value)}") from None
    if array.dtype.kind not in "fiu" or array.ndim != 1:
        raise InvalidTypeError(
            f"the query vector must be a one-dimensional array of numbers, not {number_of(array.ndim, 'dimension')} "
            f"of {array.dtype}"
        )
    return array.astype(np.float64)


def _shown(value: Any) -> str:
    text = "NULL" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
