"""The maintenance report: one self-contained HTML page with blobs and indexes over time, and the last runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from html import escape

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError
from hudi_vector.table_services.maintenance.charts import Chart, bytes_text, day_text, number_text
from hudi_vector.table_services.maintenance.figures import ColumnFigures, Figures, IndexFigures
from hudi_vector.table_services.maintenance.history import History, Run

__all__ = ["html_report", "write_report"]

_COLOURS = {"live": "#228833", "dead": "#bbbbbb", "trash": "#ee6677", "dangling": "#aa3377"}
_INDEX_COLOURS = {
    "files": "#bbbbbb",
    "covered": "#228833",
    "recall": "#4477aa",
    "latency": "#ee6677",
    "imbalance": "#aa3377",
}
_INDEX_HEADS = ("index", "files covered", "rows", "bytes", "imbalance", "recall", "latency")
_RUNS_SHOWN = 50
_HEADS = ("column", "blobs", "live", "inline", "managed", "external", "dead", "dangling")
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Blobs of {table}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }}
svg {{ width: 100%; font: 12px system-ui, sans-serif; margin: .5em 0; }}
svg .title {{ font-weight: 600; }}
svg .grid {{ stroke: #ddd; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }}
td.number, th.number {{ text-align: right; white-space: nowrap; }}
.bad {{ color: #b00020; font-weight: 600; }}
</style></head><body>
<h1>Blobs of {table}</h1>
<p>As of {now} UTC. Live: bytes that rows of the newest snapshot refer to. Dead: other bytes of the table's blob area,
which older snapshots may still need. Dangling: rows whose bytes are not there.</p>
{parts}
</body></html>
"""


def html_report(table: str, history: History, now_ms: int) -> str:
    """Return the report as an HTML page that needs no other file and no network.

    `now_ms` is the time shown as that of the report, milliseconds since 1970.
    """
    measured = [(run.begun_ms, run.figures) for run in history.runs if run.figures is not None]
    parts = [*_measured(measured)] if measured else ["<p>No figures were taken yet.</p>"]
    parts += _indexes(measured)
    parts += ["<h2>Last runs</h2>", _runs(history.runs[-_RUNS_SHOWN:][::-1])]
    return _PAGE.format(table=escape(table), now=day_text(now_ms), parts="\n".join(parts))


def write_report(path: str, page: str) -> None:
    """Write the page to a local file.

    Raise InvalidArgumentError if the file cannot be written, and InvalidTypeError if `path` is not a path.
    """
    if not isinstance(path, (str, os.PathLike)):  # open() takes a number for a file descriptor
        raise InvalidTypeError(f"report is the path of a local file, not {path!r}")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as problem:
        raise InvalidArgumentError(f"the report '{path}' cannot be written: {problem}; name a local file") from None


def _measured(measured: Sequence[tuple[int, Figures]]) -> Iterable[str]:
    at = [when for when, _ in measured]
    figures = [each for _, each in measured]

    def chart(title: str, is_bytes: bool = True, **lines: Callable[[Figures], int]) -> str:
        values = {name: [of(each) for each in figures] for name, of in lines.items()}
        return Chart(title, at, values, _COLOURS, is_bytes).svg()

    yield "<h2>Now</h2>"
    yield _columns(figures[-1])
    yield "<h2>Over time</h2>"
    yield chart("All columns", live=lambda f: f.whole.live, dead=lambda f: f.whole.dead, trash=lambda f: f.trash)
    yield chart("Dangling rows", is_bytes=False, dangling=lambda f: f.whole.dangling)
    names = sorted({column.column for each in figures for column in each.columns})
    for name in names if len(names) > 1 else ():

        def of(each: Figures, name: str = name) -> ColumnFigures:
            return next((column for column in each.columns if column.column == name), ColumnFigures(name))

        yield chart(_label(name), live=lambda f, of=of: of(f).live, dead=lambda f, of=of: of(f).dead)  # type: ignore[misc]


def _indexes(measured: Sequence[tuple[int, Figures]]) -> Iterable[str]:
    """Yield the part about vector indexes, now and over time; nothing if the table never had an index."""
    over_time: dict[str, list[tuple[int, IndexFigures]]] = {}
    for at, figures in measured:
        for index in figures.indexes:
            over_time.setdefault(index.name, []).append((at, index))
    if not over_time:
        return
    yield "<h2>Vector indexes</h2>"
    yield _table(_INDEX_HEADS, [_of_index(index) for index in measured[-1][1].indexes])
    for name, points in sorted(over_time.items()):
        times = [when for when, _ in points]
        lines = {"files": [index.files for _, index in points], "covered": [index.covered for _, index in points]}
        yield Chart(f"Files of {name}", times, lines, _INDEX_COLOURS, is_bytes=False).svg()
        yield from _line(f"Imbalance of {name}, in %", "imbalance", [(at, 100 * one.imbalance) for at, one in points])
        recalls = [(at, 100 * one.recall) for at, one in points if one.recall is not None]
        yield from _line(f"Recall of {name}, in %", "recall", recalls)
        latencies = [(at, 1000 * one.milliseconds) for at, one in points if one.milliseconds is not None]
        yield from _line(f"Latency of {name}, in µs", "latency", latencies)


def _line(title: str, label: str, points: Sequence[tuple[int, float]]) -> Iterable[str]:
    """Yield a chart of one line; nothing if there are no values."""
    if points:
        values = {label: [round(value) for _, value in points]}
        yield Chart(title, [at for at, _ in points], values, _INDEX_COLOURS, is_bytes=False).svg()


def _of_index(index: IndexFigures) -> list[str]:
    recall = "not measured" if index.recall is None else f"{index.recall:.3f}"
    latency = "not measured" if index.milliseconds is None else f"{index.milliseconds:.1f} ms"
    covered = f"{number_text(index.covered)} of {number_text(index.files)}"
    sizes = [number_text(index.rows), bytes_text(index.bytes)]
    return [index.name, covered, *sizes, f"{index.imbalance:.2f}", recall, latency]


def _columns(figures: Figures) -> str:
    rows = [[_label(column.column), *_numbers(column)] for column in figures.columns]
    rows.append(["all", *_numbers(figures.whole)])
    trash = f"<p>In the trash: {number_text(figures.trash_files)} files, {bytes_text(figures.trash)}.</p>"
    return _table(_HEADS, rows) + trash


def _numbers(column: ColumnFigures) -> list[str]:
    sizes = (column.live, column.inline, column.managed, column.external, column.dead)
    return [number_text(column.blobs), *map(bytes_text, sizes), number_text(column.dangling)]


def _runs(runs: Iterable[Run]) -> str:
    rows = []
    for run in runs:
        for step in run.steps:
            state = escape(step.state) if step.is_well else f'<span class="bad">{escape(step.state)}</span>'
            rows.append(
                f"<tr><td>{day_text(run.begun_ms)}</td><td>{escape(step.step)}</td><td>{state}</td>"
                f'<td class="number">{step.seconds:.1f} s</td><td>{escape(step.text)}</td></tr>'
            )
    return "<table>" + "\n".join(rows) + "</table>" if rows else "<p>None.</p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        first, *others = (escape(cell) for cell in cells)
        numbers = "".join(f'<{tag} class="number">{cell}</{tag}>' for cell in others)
        return f"<tr><{tag}>{first}</{tag}>{numbers}</tr>"

    return "<table>" + line(heads, "th") + "\n".join(line(row, "td") for row in rows) + "</table>"


def _label(column: str) -> str:
    return column or "files of no column"
