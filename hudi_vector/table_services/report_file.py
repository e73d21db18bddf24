"""The rows of a result as a local file, one JSON object a line."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["reported"]


class Reportable(Protocol):
    """A result, a frozen dataclass, that has rows and says where its report lies."""

    @property
    def report(self) -> str:
        """Where it lies."""

    def rows(self) -> list[dict[str, Any]]:
        """What is reported."""


R = TypeVar("R", bound=Reportable)


def reported(result: R, path: str | None) -> R:
    """Write the rows of a result to the file that was asked for.

    Args:
        result: The result.
        path: A local path, None where no file was asked for.

    Returns:
        The result, whose report is that file where there is one.

    Raises:
        InvalidArgumentError: The file cannot be written.
        InvalidTypeError: It is no path.
    """
    if path is None:
        return result
    if not isinstance(path, (str, os.PathLike)):  # a number would be an open file, such as the terminal
        raise InvalidTypeError(f"report is the path of a local file, not {path!r}")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in result.rows())
    except OSError as problem:
        raise InvalidArgumentError(f"the report '{path}' cannot be written: {problem}; name a local file") from None
    return replace(result, report=path)  # type: ignore[type-var]
