"""Conversion of arguments that several services share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from hudi_vector.errors import InvalidTypeError
from hudi_vector.options import require_known
from hudi_vector.storage import path_text

__all__ = ["hudi_settings", "paths", "texts"]


def texts(argument: str, given: str | Iterable[str]) -> list[str]:
    """Return one string or several as a list of strings; raise InvalidTypeError naming `argument` for anything else.

    A single string becomes a list of one, not a list of its characters.

    Example:
        >>> texts("columns", "img"), texts("columns", ("img", "scan"))
        (['img'], ['img', 'scan'])
    """
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if isinstance(given, (bytes, Mapping)) or not all(isinstance(each, str) for each in found):
        raise InvalidTypeError(f"{argument} is a text or a list of texts, not {given!r}")
    return found


def paths(argument: str, given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return one path or several as `texts` does; raise InvalidArgumentError for a text that is no path."""
    several: Any = [given] if isinstance(given, (str, os.PathLike)) else given
    if isinstance(several, Iterable) and not isinstance(several, (bytes, Mapping)):
        several = [path_text(each) for each in several]
    return texts(argument, several)


def hudi_settings(options: Mapping[str, object] | None) -> dict[str, str]:
    """Return Hudi's settings with keys and values as strings; None gives an empty dictionary.

    Raise InvalidTypeError if `options` is not a mapping, and InvalidOptionError for a misspelt key of this package.

    Example:
        >>> hudi_settings({"hoodie.clean.automatic": False})
        {'hoodie.clean.automatic': 'False'}
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidTypeError(
            f"options is a mapping of Hudi's settings, such as {{'hoodie.…': 'true'}}, not {options!r}"
        )
    require_known(map(str, options or {}))
    return {str(key): str(value) for key, value in (options or {}).items()}
