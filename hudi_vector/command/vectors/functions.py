"""Functions of users that a command names, for Spark's Python workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hudi_vector.errors import InvalidArgumentError, did_you_mean, first_line

__all__ = ["function_named"]


def function_named(text: str) -> Callable[[Any], Any]:
    """Return the function that a text names as ``module:name``; modules of the working directory are found too.

    Raises InvalidArgumentError if the text has another form, the module cannot be imported, or has no such function.
    """
    named, colon, name = text.partition(":")
    if not (named and colon and name):
        raise InvalidArgumentError(f"--function {text!r} is not MODULE:NAME; name a function, such as models:embed")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(named)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a user's module may raise anything
        raise InvalidArgumentError(
            f"the module '{named}' of --function cannot be imported: {first_line(problem)}; name one that this Python "
            "has, or a file of the working directory without its .py"
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        known = [each for each in vars(module) if callable(getattr(module, each)) and not each.startswith("_")]
        hint = did_you_mean(name, known) or "name one of its functions"
        raise InvalidArgumentError(f"the module '{named}' has no function '{name}'; {hint}")
    _send_whole(module, Path(here))
    return function  # type: ignore[no-any-return]


def _send_whole(module: ModuleType, here: Path) -> None:
    """Let functions of a module of this directory be pickled with their code, since workers may not find the module."""
    from pyspark import cloudpickle

    first = sys.modules[module.__name__.partition(".")[0]]
    file = getattr(first, "__file__", None)
    places = [*map(Path, getattr(first, "__path__", ())), *([Path(file)] if file else [])]
    if any(place.resolve().parent == here.resolve() for place in places):
        cloudpickle.register_pickle_by_value(first)  # type: ignore[no-untyped-call]
