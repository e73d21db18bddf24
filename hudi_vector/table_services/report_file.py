"""Local files that services write for people and other programs: rows as one JSON object per line, and pages."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.table.other_files import require_outside

__all__ = ["reported", "write_report"]


class Reportable(Protocol):
    """A result (a frozen dataclass) that has rows and names its report."""

    @property
    def report(self) -> str:
        """Return the place of the report."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the report."""


R = TypeVar("R", bound=Reportable)


def reported(result: R, path: str | None) -> R:
    """Write the rows of a result to the local file `path`, and return the result with that file as its report.

    If `path` is None, return the result unchanged. Raise InvalidArgumentError if the file cannot be written, and
    InvalidTypeError if `path` is not a path.
    """
    if path is None:
        return result
    write_report(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in result.rows()))
    return replace(result, report=path)  # type: ignore[type-var]


def write_report(path: str, text: str) -> None:
    """Write text to a local file.

    Raise InvalidArgumentError if the file cannot be written or lies among the data files of a table, and
    InvalidTypeError if `path` is not a path.
    """
    if not isinstance(path, (str, os.PathLike)):  # open() takes a number for a file descriptor
        raise InvalidTypeError(f"report is the path of a local file, not {path!r}")
    require_outside(path, "the report")
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise InvalidArgumentError(f"the report '{path}' cannot be written: {problem}; name a local file") from None
