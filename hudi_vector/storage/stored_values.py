"""Checked values from side files and side tables, which anyone who may write to the table may have written.

Every body becomes a dataclass here, field by field, and every name in a body that leads to a file or folder passes
`named`, before anything is done with it. A field declares what its type cannot say, as `PathBelow` and
``Annotated[str, one_of("open", "ended")]`` do.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from hudi_vector.arguments import is_unicode
from hudi_vector.errors import DataFileError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)
T = TypeVar("T")

__all__ = [
    "PathBelow",
    "at_least",
    "has_form",
    "is_path_below",
    "named",
    "null_or_from",
    "one_of",
    "shaped",
    "value_of",
]

_LARGEST, _MOST_FLOAT = (1 << 63) - 1, 1e300
# The years 1 to 9999, the range of `datetime`.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def shaped(kind: type[D], body: Any, uri: str, **known: Any) -> D:
    """Return the body of a side file as a dataclass; raise DataFileError if a field is missing, unknown or mistyped.

    Fields of type int must fit in 64 bits. Those whose names end in ``_ms``, times or durations, must be milliseconds
    that fall between the years 1 and 9999 when counted from 1970. Texts must be encodable as UTF-8. `uri` is the file
    or its folder, for the message. `known` holds fields that come from elsewhere, which the body may not state.

    Example:
        >>> from hudi_vector.blobs.uploads.side_tables import SideTable
        >>> shaped(SideTable, {"name": "a", "bytes": 1, "sha256": "b"}, "file:///t/x")
        SideTable(name='a', bytes=1, sha256='b')
    """
    if not isinstance(body, Mapping):
        raise _unfit(uri, kind.__name__, "an object", body)
    hints, defaults = _fields_of(kind)
    strange = [name for name in body if name not in hints or name in known]
    absent = [name for name in hints if name not in body and name not in known and name not in defaults]
    if strange or absent:
        what = f"has no '{absent[0]}'" if absent else f"holds {_shown(strange[0])}, which is not known"
        raise DataFileError(f"'{uri}' is damaged, or somebody changed it: its {kind.__name__} {what}")
    return kind(**{name: value_of(hints[name], value, uri, name) for name, value in body.items()}, **known)


def value_of(kind: Any, value: Any, uri: str, name: str) -> Any:
    """Return a JSON value as a value of a type; raise DataFileError if it does not fit.

    The type is a dataclass, int, float, str, bool, a union with None, a tuple, a mapping with text keys, or Any; one of
    these with checks, as ``Annotated`` has them; or a class that makes itself of a value in `of_stored`. `uri` is the
    file or its folder, and `name` is the name of the value, both for the message.
    """
    origin, inner = _parts_of(kind)
    if origin is Annotated:
        found = value_of(inner[0], value, uri, name)
        for must in inner[1:]:
            if not must.holds(found):
                raise _unfit(uri, name, must.wanted, found)
        return found
    if hasattr(kind, "of_stored"):
        return kind.of_stored(value, uri, name)
    if origin in (typing.Union, types.UnionType):
        others = [each for each in inner if each is not type(None)]
        if value is None and len(others) < len(inner):
            return None
        return value_of(others[0], value, uri, name)
    if origin is tuple:
        return _tuple_of(inner, value, uri, name)
    if origin is not None:
        if not isinstance(value, Mapping):
            raise _unfit(uri, name, "an object", value)
        return {value_of(str, key, uri, name): value_of(inner[1], each, uri, name) for key, each in value.items()}
    if is_dataclass(kind):
        return shaped(typing.cast(Any, kind), value, uri)
    return _plain(kind, value, uri, name)


def named(uri: str, what: str, name: Any, form: re.Pattern[str]) -> str:
    """Return a stored name that leads to a file or folder; raise DataFileError unless it matches `form` as a whole.

    A name of another form might lead anywhere. `what` says what has the name, for the message.

    Example:
        >>> named("file:///t/x", "plan", "7", re.compile("[0-9]"))
        '7'
    """
    if not isinstance(name, str) or form.fullmatch(name) is None:
        raise DataFileError(
            f"'{uri}' is damaged, or somebody changed it: {_shown(name)} is not the name of a {what}, and nothing is "
            "done with what it might lead to"
        )
    return name


def is_path_below(path: str) -> bool:
    """Return True if a relative path cannot leave the folder that it starts at.

    Example:
        >>> is_path_below("d=1/img/x"), is_path_below("../x"), is_path_below("/x"), is_path_below("")
        (True, False, False, False)
    """
    return "\0" not in path and not {"", ".", ".."}.intersection(path.split("/"))


@dataclass(frozen=True)
class Must:
    """A check of a field: what it must be, in words, and whether a value is that."""

    wanted: str
    holds: Callable[[Any], object]


def one_of(*allowed: str) -> Must:
    """Return the check that a text is one of these.

    Example:
        >>> value_of(Annotated[str, one_of("open", "ended")], "open", "file:///t/x", "state")
        'open'
    """
    return Must(f"one of {', '.join(allowed)}", allowed.__contains__)


def has_form(what: str, form: re.Pattern[str]) -> Must:
    """Return the check that a text is the name of a file or folder; a name of another form might lead anywhere."""
    return Must(f"the name of a {what}", form.fullmatch)


def at_least(least: int) -> Must:
    """Return the check that a number is not smaller."""
    return Must(f"{least} or more", lambda number: number >= least)


def null_or_from(least: int) -> Must:
    """Return the check that a value is None, or a number that is not smaller; a whole number stays one.

    Example:
        >>> value_of(Annotated[Any, null_or_from(1)], 2, "file:///t/x", "factor")
        2
    """
    return Must(
        f"null, or a number of {least} or more",
        lambda value: value is None or (type(value) in (int, float) and least <= value <= _LARGEST),
    )


PathBelow = Annotated[str, Must("a path below the table's folder", is_path_below)]
"""A path relative to the table's folder that cannot leave it."""


def _tuple_of(inner: tuple[Any, ...], value: Any, uri: str, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _unfit(uri, name, "a list", value)
    kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
    if len(kinds) != len(value):
        raise _unfit(uri, name, f"a list of {len(kinds)}", value)
    return tuple(value_of(kind, each, uri, name) for kind, each in zip(kinds, value, strict=True))


def _plain(kind: Any, value: Any, uri: str, name: str) -> Any:
    if kind is Any:
        return value
    if kind is float and type(value) in (int, float):
        # NaN and infinity are not within it either; math.isfinite would refuse whole numbers beyond a float.
        if abs(value) <= _MOST_FLOAT:
            return float(value)
        raise _unfit(uri, name, "a finite number", value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        first, last = (_FIRST_MS, _LAST_MS) if name.endswith("_ms") else (-_LARGEST, _LARGEST)
        if first <= value <= last:
            return value
        raise _unfit(uri, name, f"between {first} and {last}", value)
    if kind is str and isinstance(value, str):
        if not is_unicode(value):
            raise _unfit(uri, name, "text", value)
        return value
    if kind is bool and isinstance(value, bool):
        return value
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    raise _unfit(uri, name, names[kind], value)


@lru_cache(maxsize=256)
def _parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the origin and the arguments of a type, None and nothing for a plain one."""
    return typing.get_origin(kind), typing.get_args(kind)


@lru_cache(maxsize=64)
def _fields_of(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the types of a dataclass's fields by name, and the names of the fields that have a default."""
    hints = typing.get_type_hints(kind, include_extras=True)
    made = [each for each in fields(kind) if each.init]
    defaults = frozenset(
        each.name for each in made if each.default is not MISSING or each.default_factory is not MISSING
    )
    return {each.name: hints[each.name] for each in made}, defaults


def _unfit(uri: str, name: str, wanted: str, value: Any) -> DataFileError:
    return DataFileError(f"'{uri}' is damaged, or somebody changed it: its {name} is {_shown(value)}, not {wanted}")


def _shown(value: Any) -> str:
    """Return a short printable form of a value."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a number of more than 64 bits"
    if isinstance(value, list | tuple | Mapping):
        return f"a list or an object of {len(value)}"
    text = ascii(value) if not isinstance(value, str) else ascii(value[:80])
    return text if len(text) <= 120 else f"{text[:117]}…"
