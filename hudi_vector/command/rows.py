"""Standard output: rows as a table, JSON or CSV, and text."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import math
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from hudi_vector.command.cells import cell, heading, is_number

__all__ = ["FORMATS", "standard_output", "write_rows", "write_text"]

FORMATS = ("table", "json", "csv")
_GAP = 2
_LEAST_WIDTH = 10  # characters of a column that is wrapped

Rows = Sequence[Mapping[str, Any]]


def write_rows(rows: Rows, form: str) -> None:
    """Write rows that all have the same columns: as a table for people, or as JSON or CSV with raw values.

    JSON is one object a line. A table fits the terminal: where it is too wide, cells are wrapped, or each row becomes
    a block with one line for each column. Without a terminal, each row is one line, unless ``COLUMNS`` is set.
    """
    with standard_output() as out:
        if form == "json":
            out.writelines(f"{_json(dict(row))}\n" for row in rows)
        elif form == "csv":
            _write_csv(rows, out)
        else:
            out.writelines(f"{line.rstrip()}\n" for line in _table(rows, _width()))


def write_text(text: str) -> None:
    """Write a text and a line break."""
    with standard_output() as out:
        out.write(f"{text}\n")


@contextlib.contextmanager
def standard_output() -> Iterator[TextIO]:
    """Yield standard output, and flush it when the block ends.

    That its reader has closed it, as ``head`` does once it has seen enough, is no error: the rest is written nowhere.
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # also what the buffer still holds, which Python writes as it ends
        os.close(nowhere)


def _json(value: Any) -> str:
    """Return a value as JSON; NaN and infinity, which JSON does not have, are texts."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_raw)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_raw)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def _raw(value: Any) -> Any:
    """Return a value that JSON does not have: bytes as base64, others as text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _write_csv(rows: Rows, out: TextIO) -> None:
    if not rows:
        return
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_csv_value(value) for value in row.values()] for row in rows)


def _csv_value(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    return _json(value) if isinstance(value, (list, tuple, dict)) else _raw(value)


def _width() -> int | None:
    """Return the width that a table has to fit, or None if each row is to be one line."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return max(20, shutil.get_terminal_size().columns)
    return None


def _table(rows: Rows, width: int | None) -> Iterator[str]:
    if not rows:
        yield "nothing found"
        return
    names = list(rows[0])
    cells = [[cell(name, row[name]) for name in names] for row in rows]
    headings = [heading(name) for name in names]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [all(row[name] is None or is_number(row[name]) for row in rows) for name in names]
    gaps = _GAP * (len(names) - 1)
    if width is None or sum(widths) + gaps <= width:
        yield from _lines([headings, *cells], widths, right)
    elif sum(min(natural, _LEAST_WIDTH) for natural in widths) + gaps <= width:
        yield from _wrapped(headings, cells, right, width)
    else:
        yield from _blocks(headings, cells, width)


def _lines(cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    for line in cells:
        aligned = zip(line, widths, right, strict=True)
        yield (" " * _GAP).join(text.rjust(w) if is_right else text.ljust(w) for text, w, is_right in aligned)


def _wrapped(names: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool], width: int) -> Iterator[str]:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for name, is_right in zip(names, right, strict=True):
        table.add_column(Text(name), justify="right" if is_right else "left", overflow="fold", header_style="")
    for line in cells:
        table.add_row(*map(Text, line))
    yield from _rendered(Console(width=width, color_system=None, force_terminal=False), table)


def _blocks(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the rows one below the other, with one line for each column that has a value."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=width, color_system=None, force_terminal=False)
    for number, line in enumerate(cells):
        if number:
            yield ""
        block = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
        block.add_column(no_wrap=True, min_width=max(map(len, names)))
        block.add_column(overflow="fold")
        for name, text in zip(names, line, strict=True):
            if text:
                block.add_row(Text(name), Text(text))
        yield from _rendered(console, block)


def _rendered(console: Any, table: Any) -> list[str]:
    with console.capture() as captured:
        console.print(table)
    lines: list[str] = captured.get().splitlines()
    return lines
