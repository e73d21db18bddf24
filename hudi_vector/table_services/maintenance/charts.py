"""Line charts over time for HTML pages: texts are HTML, so that they keep their size where the page is narrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from hudi_vector.table_services.maintenance.quantities import Quantity, day_text

__all__ = ["CHART_STYLE", "Chart"]

CHART_STYLE = """
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 28em), 1fr)); gap: 2em 3em;
  align-items: end; margin: 1.2em 0; }
figure { margin: 0; min-width: 0; display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .5em .6em; }
figcaption { grid-column: 1 / 3; display: flex; flex-wrap: wrap; gap: 0 1.2em; font-weight: 600; }
figcaption span { font-weight: 400; white-space: nowrap; }
figcaption span::before { content: ""; display: inline-block; width: 1.2em; margin-right: .4em; vertical-align: middle;
  border-top: 3px solid var(--line); }
figcaption span.second::before { border-top-style: dashed; }
figcaption span.third::before { border-top-style: dotted; }
.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; margin: -.7em 0; }
.scale, .ends { font-size: 12px; color: var(--quiet); white-space: nowrap; }
.ends { grid-column: 2; display: flex; justify-content: space-between; }
svg { width: 100%; height: 180px; overflow: visible; }
.grid { stroke: var(--edge); }
.points { stroke: var(--line); fill: var(--line); stroke-width: 2; }
.points.second line { stroke-dasharray: 6 4; }
.points.third line { stroke-dasharray: 2 4; }
.first { --line: var(--first); }
.second { --line: var(--second); }
.third { --line: var(--third); }
"""
"""The rules of style of charts, and of an element of class ``charts`` around them. The page sets the colours."""

_CLASSES = ("first", "second", "third")


@dataclass(frozen=True)
class Chart:
    """A chart of values over time.

    Attributes:
        title: The title of the chart.
        quantity: What the values are: their unit, and the steps of the scale.
        at_ms: The time of each value, milliseconds since 1970, ascending; two at least.
        lines: The values of each line, by the name of the line; three lines at most.
    """

    title: str
    quantity: Quantity
    at_ms: Sequence[int]
    lines: Mapping[str, Sequence[float]]

    def html(self) -> str:
        """Return the chart as a figure of HTML, whose caption has the newest values; each value has a tooltip."""
        values = [value for line in self.lines.values() for value in line]
        scale = self.quantity.scale(min(values), max(values))
        named = len(self.lines) > 1
        newest = "".join(
            f'<span class="{place}">{escape(f"{name} " * named + self.quantity.text(line[-1]))}</span>'
            for place, (name, line) in zip(_CLASSES, self.lines.items(), strict=False)
        )
        texts = "".join(f"<span>{escape(self.quantity.scale_text(each, scale[-1]))}</span>" for each in reversed(scale))
        ends = "".join(f"<time>{day_text(at)}</time>" for at in (self.at_ms[0], self.at_ms[-1]))
        return (
            f"<figure><figcaption>{escape(self.title)}{newest}</figcaption>\n"
            f'<div class="scale">{texts}</div>\n{self._svg(scale)}\n<div class="ends">{ends}</div></figure>'
        )

    def _svg(self, scale: Sequence[float]) -> str:
        """Return the lines and points alone; places are in percent of the frame."""
        low, high = scale[0], scale[-1]
        parts = [f'<svg role="img" aria-label="{escape(self.title)}">']
        for value in scale:
            y = _percent(high - value, high - low)
            parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
        for place, (name, values) in zip(_CLASSES, self.lines.items(), strict=False):
            points = [
                (_percent(at - self.at_ms[0], self.at_ms[-1] - self.at_ms[0]), _percent(high - value, high - low))
                for at, value in zip(self.at_ms, values, strict=True)
            ]
            parts.append(f'<g class="points {place}">')
            parts += [f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}"/>' for (x, y), (to_x, to_y) in pairwise(points)]
            for (x, y), at, value in zip(points, self.at_ms, values, strict=True):
                said = escape(f"{day_text(at)}: {name} {self.quantity.text(value)}")
                parts.append(f'<circle cx="{x}" cy="{y}" r="3"><title>{said}</title></circle>')
            parts.append("</g>")
        return "\n".join([*parts, "</svg>"])


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 50:.2f}%"
