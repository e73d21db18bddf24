"""Line charts over time as SVG text, with scales and a legend, and without external resources."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape

__all__ = ["Chart", "bytes_text", "day_text", "number_text"]

_WIDTH, _HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 30, 30
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LINES = 4  # steps of the vertical scale


def bytes_text(number: float) -> str:
    """Return a number of bytes as text with a binary unit.

    Example:
        >>> bytes_text(0), bytes_text(1536), bytes_text(3 << 30)
        ('0 B', '1.5 KiB', '3 GiB')
    """
    power = min(int(math.log(number, 1024) + 1e-9), len(_UNITS) - 1) if number >= 1 else 0
    value = number / 1024**power
    return f"{value:.0f} {_UNITS[power]}" if value >= 100 else f"{value:.3g} {_UNITS[power]}"


def number_text(number: float) -> str:
    """Return a count as text: rounded, with commas."""
    return f"{number:,.0f}"


def day_text(at_ms: int) -> str:
    """Return a time (milliseconds since 1970) as text with date and minutes, in UTC.

    Example:
        >>> day_text(0)
        '1970-01-01 00:00'
    """
    return f"{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class Chart:
    """A chart of values over time.

    Attributes:
        title: The title of the chart.
        at_ms: The time of each value, milliseconds since 1970, ascending; at least one.
        lines: The values of each line, by the name of the line.
        colours: The colour of each line, by the name of the line.
        is_bytes: Whether the values are bytes; otherwise they are counts.
    """

    title: str
    at_ms: Sequence[int]
    lines: Mapping[str, Sequence[int]]
    colours: Mapping[str, str]
    is_bytes: bool = True

    def svg(self) -> str:
        """Return the chart as an SVG element for an HTML page; each value has a tooltip."""
        parts = [
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self.title)}">',
            f'<text class="title" x="{_LEFT}" y="14">{escape(self.title)}</text>',
            *self._scale(),
            *self._legend(),
        ]
        for name, values in self.lines.items():
            colour = self.colours[name]
            points = [(self._x(at), self._y(value)) for at, value in zip(self.at_ms, values, strict=True)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            for (x, y), at, value in zip(points, self.at_ms, values, strict=True):
                said = escape(f"{day_text(at)}: {name} {self._text(value)}")
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{said}</title></circle>')
        return "\n".join([*parts, "</svg>"])

    def _text(self, value: float) -> str:
        return bytes_text(value) if self.is_bytes else number_text(value)

    @property
    def _most(self) -> int:
        return max(1, *(max(values) for values in self.lines.values()), 0)

    def _x(self, at_ms: int) -> float:
        first, last = self.at_ms[0], self.at_ms[-1]
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * ((at_ms - first) / (last - first) if last > first else 0.5)

    def _y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / self._most

    def _scale(self) -> list[str]:
        parts = []
        steps = _LINES if self._most >= _LINES else self._most
        for step in range(steps + 1):
            value = self._most * step / steps
            y = self._y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{self._text(value)}</text>')
        ends = {"start": self.at_ms[0], "end": self.at_ms[-1]} if self.at_ms[0] < self.at_ms[-1] else {}
        for anchor, at in (ends or {"middle": self.at_ms[0]}).items():
            parts.append(f'<text x="{self._x(at):.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{day_text(at)}</text>')
        return parts

    def _legend(self) -> list[str]:
        parts, x = [], float(_WIDTH - _RIGHT)
        for name in reversed(list(self.lines)):
            x -= 7.5 * len(name) + 22
            parts.append(f'<rect x="{x:.0f}" y="5" width="10" height="10" fill="{self.colours[name]}"/>')
            parts.append(f'<text x="{x + 14:.0f}" y="14">{escape(name)}</text>')
        return parts
