"""Kinds of numbers in the maintenance report: how each is written, with its unit, and the steps of its scales."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = [
    "BYTES",
    "MILLISECONDS",
    "RATIO",
    "SHARE",
    "Quantity",
    "bytes_text",
    "count_of",
    "day_text",
    "duration_text",
    "number_text",
    "with_readable_bytes",
]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEPS = (1, 2, 5, 10)
_INTERVALS = 4  # of a scale, about
_LONG = re.compile(r"\b(?:(\d+) of )?(\d{4,}) bytes\b")


@dataclass(frozen=True)
class Quantity:
    """A kind of number.

    Attributes:
        text: Writes a value with its unit, as tables and charts show it.
        scale_text: Writes a value of a scale in the unit of the second number, the largest of the scale.
        unit_of: Returns the number of base units in the unit in which a value is written, such as 1,048,576 for MiB.
        least_step: The least distance of two numbers on a scale.
        from_zero: Whether scales begin at 0. Otherwise they begin below the least value.
        limit: The largest value that there can be.
    """

    text: Callable[[float], str]
    scale_text: Callable[[float, float], str]
    unit_of: Callable[[float], float] = lambda _: 1
    least_step: float = 0.0
    from_zero: bool = True
    limit: float = math.inf

    def scale(self, least: float, most: float) -> list[float]:
        """Return the two or more numbers of a scale for values from `least` to `most`: round, of equal distance."""
        low = 0.0 if self.from_zero else least
        unit = self.unit_of(most)
        step = max(_round_up((most - low) / unit / _INTERVALS) * unit, self.least_step) or 1.0
        first = math.floor(low / step + 1e-9)
        last = max(math.ceil(most / step - 1e-9), first + 1)
        if last * step > self.limit:
            first, last = first - 1, last - 1
        return [number * step for number in range(first, last + 1)]


def _round_up(value: float) -> float:
    """Return the least round number that is no less than `value`; 0 for 0."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(step for step in _STEPS if step * power >= value * (1 - 1e-9))


def bytes_text(number: float) -> str:
    """Return a number of bytes as text with a binary unit.

    Example:
        >>> bytes_text(0), bytes_text(1536), bytes_text(3 << 30)
        ('0 B', '1.5 KiB', '3 GiB')
    """
    return _in_unit(number, number)


def _in_unit(number: float, largest: float) -> str:
    """Return a number of bytes in the unit that fits the second one; 0 has no other unit than bytes."""
    power = _power(largest) if number else 0
    value = number / 1024**power
    return f"{value:.0f} {_UNITS[power]}" if value >= 100 else f"{value:.3g} {_UNITS[power]}"


def _power(number: float) -> int:
    return min(int(math.log(number, 1024) + 1e-9), len(_UNITS) - 1) if number >= 1 else 0


def with_readable_bytes(text: str) -> str:
    """Return a sentence with its long numbers of bytes as tables show them.

    Example:
        >>> with_readable_bytes("2 files (24840000 bytes) moved, 12 bytes kept")
        '2 files (23.7 MiB) moved, 12 bytes kept'
    """
    return _LONG.sub(lambda found: " of ".join(bytes_text(int(number)) for number in found.groups() if number), text)


def number_text(number: float) -> str:
    """Return a count as text: rounded, with commas."""
    return f"{number:,.0f}"


def count_of(things: str) -> Quantity:
    """Return the quantity of a count of things, which are named in the plural.

    Example:
        >>> count_of("files").text(1200), count_of("files").text(1)
        ('1,200 files', '1 file')
    """

    def text(number: float, _: float = 0) -> str:
        return f"{number_text(number)} {things.removesuffix('s') if round(number) == 1 else things}"

    return Quantity(text, text, least_step=1)


def day_text(at_ms: int) -> str:
    """Return a time (milliseconds since 1970) as text with date and minutes, in UTC.

    Example:
        >>> day_text(0)
        '1970-01-01 00:00'
    """
    return f"{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%Y-%m-%d %H:%M}"


def duration_text(seconds: float) -> str:
    """Return a duration as text.

    Example:
        >>> duration_text(0.31), duration_text(75), duration_text(7384)
        ('0.3 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _share_text(share: float, _: float = 0) -> str:
    return f"{100 * share:.1f} %" if 0 < share < 1 else f"{100 * share:.0f} %"


def _milliseconds_text(number: float, largest: float = 0) -> str:
    digits = 0 if max(number, largest) >= 100 else 1 if max(number, largest) >= 1 else 3
    return f"{number:,.{digits}f} ms"


def _ratio_text(number: float) -> str:
    return f"{number:,.2f} ×"


def _short_ratio_text(number: float, _: float) -> str:
    return f"{number:,g} ×"


BYTES = Quantity(bytes_text, _in_unit, lambda number: 1024 ** _power(number))
MILLISECONDS = Quantity(_milliseconds_text, _milliseconds_text, least_step=0.001)
RATIO = Quantity(_ratio_text, _short_ratio_text)
SHARE = Quantity(_share_text, _share_text, least_step=0.01, from_zero=False, limit=1.0)
