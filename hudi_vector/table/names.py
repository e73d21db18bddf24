"""The names that Hudi gives to data files.

A base file is ``<file id>_<write token>_<instant>.<format>``. A log file is ``.<file id>_<instant>.log.<version>_<write
token>``; from table version 8 on its instant is that of the delta commit, in earlier versions that of the base file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["BaseFileName", "LogFileName", "parse_base_file", "parse_log_file"]

_BASE = re.compile(r"([^_]+)_([^_]*)_(\d{17}|\d{14})\.(parquet|lance|orc|hfile)")
_LOG = re.compile(r"\.(.+)_(\d{17}|\d{14})\.log\.(\d+)(?:_(\d+-\d+-\d+))?(\.cdc)?")


@dataclass(frozen=True)
class BaseFileName:
    """The parts of a base file's name."""

    file_id: str
    instant: str
    format: str


@dataclass(frozen=True)
class LogFileName:
    """The parts of a log file's name."""

    file_id: str
    instant: str
    version: int
    write_token: str
    is_cdc: bool


def parse_base_file(name: str) -> BaseFileName | None:
    """Return file id, instant and format from a base file's name without folders, or None for any other name.

    Example:
        >>> parse_base_file("f1-0_0-1-2_20260101000000000.parquet").instant
        '20260101000000000'
    """
    found = _BASE.fullmatch(name)
    return BaseFileName(found[1], found[3], found[4]) if found else None


def parse_log_file(name: str) -> LogFileName | None:
    """Return the parts of a log file's name without folders, or None for any other name.

    Example:
        >>> parse_log_file(".f1-0_20260101000000000.log.1_0-1-2").version
        1
    """
    found = _LOG.fullmatch(name)
    if found is None:
        return None
    return LogFileName(found[1], found[2], int(found[3]), found[4] or "", found[5] is not None)
