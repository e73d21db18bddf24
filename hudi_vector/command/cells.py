"""Values as people read them in a table: sizes, times, and numbers of a few digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

__all__ = ["cell", "heading", "is_number", "of_bytes", "of_duration", "of_moment"]

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_MOST_VALUES, _MOST_HISTORY = 4, 3


def of_bytes(size: int) -> str:
    """Return a size with its unit, of which each is 1024 times the one before.

    Example:
        >>> of_bytes(20), of_bytes(1536), of_bytes(3 << 30)
        ('20 B', '1.5 KiB', '3.0 GiB')
    """
    if abs(size) < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in _UNITS:
        amount /= 1024
        if abs(amount) < 1024:
            return f"{amount:.1f} {unit}"
    return f"{amount:.0f} {_UNITS[-1]}"


def of_duration(milliseconds: int) -> str:
    """Return a duration in the largest unit that leaves a whole number, as settings spell it.

    Example:
        >>> of_duration(86_400_000), of_duration(90_000), of_duration(1_500), of_duration(0)
        ('1d', '90s', '1500ms', '0ms')
    """
    for unit, size in _DURATIONS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def of_moment(milliseconds: int) -> str:
    """Return a moment, milliseconds since 1970, as a time in UTC.

    Example:
        >>> of_moment(0)
        '1970-01-01 00:00:00Z'
    """
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%SZ}"


def _of_history(unit: str) -> Callable[[Any], str]:
    """Return a function that shows the newest of some measurements, each with its time in milliseconds since 1970."""

    def shown(measured: Sequence[tuple[int, float]]) -> str:
        newest = [f"{value:.4g}{unit} ({of_moment(at)})" for at, value in list(measured)[-_MOST_HISTORY:]]
        return ", ".join(newest)

    return shown


_BY_NAME: Mapping[str, Callable[[Any], str]] = {
    "bytes": of_bytes,
    "live": of_bytes,
    "latencies": _of_history(" ms"),
    "milliseconds": lambda value: f"{value:.1f} ms",
    "recalls": _of_history(""),
    "seconds": lambda value: f"{value:.1f} s",
}
_BY_ENDING: Mapping[str, Callable[[Any], str]] = {
    "_bytes": of_bytes,
    "_milliseconds": lambda value: f"{value:.1f} ms",
    "_ms": of_moment,
}


def cell(name: str, value: Any) -> str:
    """Return a value of a column as text of one line, without characters that change a terminal.

    Example:
        >>> cell("live_bytes", 2048), cell("price", 0.1 + 0.2), cell("name", None), cell("tags", list("abcdef"))
        ('2.0 KiB', '0.3', '', '[a, b, c, d, … 6 values]')
    """
    if value is None:
        return ""
    ending = next((shown for end, shown in _BY_ENDING.items() if name.endswith(end)), None)
    shown = _BY_NAME.get(name, ending)
    is_measured = isinstance(value, (int, float, list, tuple)) and not isinstance(value, bool)
    text = shown(value) if shown is not None and is_measured else _plain(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def heading(name: str) -> str:
    """Return the heading of a column: a time is not in milliseconds any more.

    Example:
        >>> heading("created_ms"), heading("live_bytes")
        ('created', 'live_bytes')
    """
    return name.removesuffix("_ms")


def is_number(value: Any) -> bool:
    """Return True if a value is aligned to the right."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return of_bytes(len(value))
    if isinstance(value, (list, tuple)):
        first = ", ".join(map(_plain, value[:_MOST_VALUES]))
        return f"[{first}, … {len(value)} values]" if len(value) > _MOST_VALUES else f"[{first}]"
    return str(value)
