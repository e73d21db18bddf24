"""The maintenance report: one self-contained HTML page with blobs and indexes over time, and the last runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from hudi_vector.table_services.maintenance.advice import advice
from hudi_vector.table_services.maintenance.charts import CHART_STYLE, Chart
from hudi_vector.table_services.maintenance.figures import ColumnFigures, Figures, IndexFigures
from hudi_vector.table_services.maintenance.history import NOT_DUE, History, Run, StepOutcome
from hudi_vector.table_services.maintenance.quantities import (
    BYTES,
    MILLISECONDS,
    RATIO,
    SHARE,
    Quantity,
    bytes_text,
    count_of,
    day_text,
    duration_text,
    number_text,
    with_readable_bytes,
)

__all__ = ["html_report"]

Measured = Sequence[tuple[int, Figures]]

_RUNS_SHOWN = 50
_SHORT = 120  # characters of a step's text that are shown at once
_FILES, _ROWS = count_of("files"), count_of("rows")
_BLOB_HEADS = ("column", "blobs", "live", "inline", "managed", "external", "dead", "dangling")
_INDEX_HEADS = ("index", "files covered", "rows", "size", "imbalance", "recall", "latency")
_RUN_HEADS = ("begin (UTC)", "step", "outcome", "duration", "details")
_OF_BLOBS = (
    "<b>Live</b> bytes are those that rows of the newest snapshot refer to: <b>inline</b> in data files, "
    "<b>managed</b> in files that the table owns, <b>external</b> in other files. <b>Dead</b> bytes lie in the "
    "table's blob area, and only older snapshots can still need them. <b>Dangling</b> is the number of rows whose "
    "bytes are not there."
)
_OF_INDEXES = (
    "Base files that are <b>covered</b> are searched through the index; the others are scanned. <b>Imbalance</b> is "
    "how many times more a search reads than if all lists of the index had one length. <b>Recall</b> and the median "
    "<b>latency</b> are those of the last <code>hudi-vector index recall</code>."
)
_OVER_TIME: Sequence[tuple[str, Quantity, Callable[[IndexFigures], float | None]]] = (
    ("Recall", SHARE, lambda index: index.recall),
    ("Latency", MILLISECONDS, lambda index: index.milliseconds),
    ("Imbalance", RATIO, lambda index: index.imbalance),
)
_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --quiet: #59636e; --back: #ffffff; --panel: #f6f8fa; --edge: #d1d9e0;
  --good: #1a7f37; --bad: #b3261e; --first: #0969da; --second: #bc4c00; --third: #8250df; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --quiet: #9198a1; --back: #0d1117; --panel: #151b23;
  --edge: #3d444d; --good: #4ac26b; --bad: #ff8f85; --first: #58a6ff; --second: #f0883e; --third: #bc8cff; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68em; margin: 0 auto; padding: 1.5em 1em 3em;
  color: var(--text); background: var(--back); overflow-wrap: anywhere; }
h1 { font-size: 1.6em; line-height: 1.25; margin: 0; }
h2 { font-size: 1.2em; margin: 2em 0 .5em; padding-bottom: .3em; border-bottom: 1px solid var(--edge); }
h3 { font-size: 1em; margin: 1.8em 0 0; }
p { margin: .5em 0; }
time { white-space: nowrap; }
summary { cursor: pointer; }
details[open] summary span { display: none; }
.quiet { color: var(--quiet); font-size: 13px; }
code { font: 13px/1.4 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35em .6em; border-bottom: 1px solid var(--edge); text-align: left; vertical-align: top; }
th { color: var(--quiet); font-weight: 600; font-size: 13px; }
th, .tight { white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
tr.whole td { font-weight: 600; }
.good { color: var(--good); }
.bad { color: var(--bad); font-weight: 600; }
.todo { background: var(--panel); border: 1px solid var(--edge); border-left: 4px solid var(--bad); border-radius: 6px;
  padding: .8em 1em; margin: 1.2em 0; }
.todo h2 { border: 0; margin: 0; padding: 0; font-size: 1.05em; }
.todo ul { padding-left: 1.2em; margin: .5em 0 0; }
@media (max-width: 50em) {
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--edge); padding: .5em 0; }
  td, td.number { display: grid; grid-template-columns: 7.5em minmax(0, 1fr); gap: .5em; border: 0; padding: .1em 0;
    text-align: left; }
  td:first-child { font-weight: 600; }
  td::before { content: attr(data-head); color: var(--quiet); font-size: 13px; }
}
"""
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head><body>
<header><h1>{title}</h1>
<p><code>{table}</code></p>
<p class="quiet">As of <time>{now}</time> UTC.{taken}</p></header>
<main>
{parts}
</main></body></html>
"""


def html_report(table: str, history: History, now_ms: int) -> str:
    """Return the report as an HTML page that needs no other file and no network.

    `now_ms` is the time shown as that of the report, milliseconds since 1970.
    """
    measured = [(run.begun_ms, run.figures) for run in history.runs if run.figures is not None]
    has_blobs = any(figures.columns or figures.trash_files for _, figures in measured)
    has_indexes = any(figures.indexes for _, figures in measured)
    parts = [*_to_do(history.runs, table)]
    if has_blobs:
        parts += _blobs(measured)
    if has_indexes:
        parts += _indexes(measured)
    if not measured:
        parts.append("<p>No figures were taken yet; the step <code>figures</code> takes them.</p>")
    elif not (has_blobs or has_indexes):
        parts.append("<p>The table has neither blobs nor vector indexes.</p>")
    elif len(measured) == 1:
        parts.append('<p class="quiet">Charts begin with the second run that takes figures.</p>')
    parts += ["<section><h2>Last runs</h2>", *_runs(history.runs[-_RUNS_SHOWN:][::-1]), "</section>"]
    subject = " and ".join(["blobs"] * has_blobs + ["vector indexes"] * has_indexes) or "maintenance"
    return _PAGE.format(
        title=escape(f"{table.rstrip('/').rpartition('/')[2]}: {subject}"),
        style=_STYLE + CHART_STYLE,
        table=escape(table),
        now=day_text(now_ms),
        taken=f" Figures of <time>{day_text(measured[-1][0])}</time>." if measured else "",
        parts="\n".join(parts),
    )


def _to_do(runs: Iterable[Run], table: str) -> Iterable[str]:
    """Yield what to do about steps that did not end well when they last ran; nothing if there is no such step."""
    newest: dict[str, tuple[int, StepOutcome]] = {}
    for run in runs:
        newest.update({step.step: (run.begun_ms, step) for step in run.steps if step.state != NOT_DUE})
    wrong = [(at, step) for at, step in newest.values() if not step.is_well]
    if not wrong:
        return
    yield '<section class="todo"><h2>Needs attention</h2><ul>'
    for at, step in wrong:
        yield (
            f'<li><code>{escape(step.step)}</code> <span class="bad">{escape(step.state)}</span>, '
            f"<time>{day_text(at)}</time>: {_text(step)}<br>"
            f"<b>What to do:</b> {_with_commands(advice(step, table))}</li>"
        )
    yield "</ul></section>"


def _blobs(measured: Measured) -> Iterable[str]:
    """Yield the part about blobs, now and over time."""
    figures = measured[-1][1]
    yield "<section><h2>Blobs</h2>"
    yield _table(_BLOB_HEADS, [[_label(column.column), *_numbers(column)] for column in figures.columns], _sum(figures))
    yield f"<p>In the trash: {_FILES.text(figures.trash_files)}, {bytes_text(figures.trash)}.</p>"
    yield f'<p class="quiet">{_OF_BLOBS}</p>'
    yield from _group(_charts_of_blobs(measured))
    yield "</section>"


def _charts_of_blobs(measured: Measured) -> Iterable[str]:
    """Yield the charts of all columns, then of each column if there are several."""

    def chart(title: str, quantity: Quantity, **lines: Callable[[Figures], float]) -> Iterable[str]:
        values = {name: [of(each) for _, each in measured] for name, of in lines.items()}
        return _chart(title, quantity, measured, values)

    names = sorted({column.column for _, each in measured for column in each.columns})
    every = "All columns" if len(names) != 1 else _label(names[0])
    yield from chart(every, BYTES, live=lambda f: f.whole.live, dead=lambda f: f.whole.dead, trash=lambda f: f.trash)
    yield from chart("Dangling", _ROWS, dangling=lambda f: f.whole.dangling)
    for name in names if len(names) > 1 else ():

        def of(each: Figures, name: str = name) -> ColumnFigures:
            return next((column for column in each.columns if column.column == name), ColumnFigures(name))

        yield from chart(_label(name), BYTES, live=lambda f, of=of: of(f).live, dead=lambda f, of=of: of(f).dead)  # type: ignore[misc]


def _indexes(measured: Measured) -> Iterable[str]:
    """Yield the part about vector indexes, now and over time."""
    over_time: dict[str, list[tuple[int, IndexFigures]]] = {}
    for at, figures in measured:
        for index in figures.indexes:
            over_time.setdefault(index.name, []).append((at, index))
    yield "<section><h2>Vector indexes</h2>"
    yield _table(_INDEX_HEADS, [_of_index(index) for index in measured[-1][1].indexes])
    yield f'<p class="quiet">{_OF_INDEXES}</p>'
    for name, points in sorted(over_time.items()):
        yield from _group(_charts_of_index(points), f"<h3>{escape(name)}</h3>")
    yield "</section>"


def _charts_of_index(points: Sequence[tuple[int, IndexFigures]]) -> Iterable[str]:
    """Yield the charts of one index over time."""
    files = {"covered": [one.covered for _, one in points], "all": [one.files for _, one in points]}
    yield from _chart("Base files", _FILES, points, files)
    for title, quantity, of in _OVER_TIME:
        known = [(at, value) for at, one in points if (value := of(one)) is not None]
        yield from _chart(title, quantity, known, {title.lower(): [value for _, value in known]})


def _group(charts: Iterable[str], head: str = "") -> Iterable[str]:
    """Yield charts in as many columns as there is room for, below a head; nothing if there are none."""
    drawn = [*charts]
    if drawn:
        yield "\n".join([f'{head}<div class="charts">', *drawn, "</div>"])


def _chart(
    title: str, quantity: Quantity, points: Sequence[tuple[int, object]], lines: Mapping[str, Sequence[float]]
) -> Iterable[str]:
    """Yield a chart, unless there are fewer than two points, or nothing but zeros."""
    if len(points) > 1 and any(any(line) for line in lines.values()):
        yield Chart(title, quantity, [at for at, _ in points], lines).html()


def _of_index(index: IndexFigures) -> list[str]:
    recall = "not measured" if index.recall is None else SHARE.text(index.recall)
    latency = "not measured" if index.milliseconds is None else MILLISECONDS.text(index.milliseconds)
    share = f" ({SHARE.text(index.covered / index.files)})" if index.files else ""
    covered = f"{number_text(index.covered)} of {_FILES.text(index.files)}{share}"
    return [
        index.name,
        covered,
        number_text(index.rows),
        bytes_text(index.bytes),
        RATIO.text(index.imbalance),
        recall,
        latency,
    ]


def _sum(figures: Figures) -> list[str] | None:
    """Return the row of sums; None if it would repeat the only row."""
    return ["all", *_numbers(figures.whole)] if len(figures.columns) != 1 else None


def _numbers(column: ColumnFigures) -> list[str]:
    sizes = (column.live, column.inline, column.managed, column.external, column.dead)
    return [number_text(column.blobs), *map(bytes_text, sizes), _ROWS.text(column.dangling)]


def _runs(runs: Iterable[Run]) -> Iterable[str]:
    """Yield the steps of runs as a table; a step that was not due says nothing."""
    rows = [
        [
            f'<time class="tight">{day_text(run.begun_ms)}</time>',
            f'<code class="tight">{escape(step.step)}</code>',
            f'<span class="{"good" if step.is_well else "bad"} tight">{escape(step.state)}</span>',
            f'<span class="tight">{duration_text(step.seconds)}</span>',
            _folded(step),
        ]
        for run in runs
        for step in run.steps
        if step.state != NOT_DUE
    ]
    if not rows:
        yield "<p>None.</p>"
        return
    yield _rows(_RUN_HEADS, rows, "")
    yield '<p class="quiet">Steps that were not due are left out.</p>'


def _text(step: StepOutcome) -> str:
    return escape(with_readable_bytes(step.text))


def _folded(step: StepOutcome) -> str:
    """Return the text of a step, of which the reader opens the rest if it is long."""
    text = with_readable_bytes(step.text)
    if len(text) <= _SHORT:
        return escape(text or "-")
    first = text[:_SHORT].rpartition(" ")[0]
    return f"<details><summary><span>{escape(first)} …</span></summary>{escape(text)}</details>"


def _with_commands(text: str) -> str:
    """Return a text as HTML, with the parts between backticks as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], whole: Sequence[str] | None = None) -> str:
    """Return a table of texts and numbers, with a row of sums if there is one; all but the first column are numbers."""
    lines = [[escape(cell) for cell in row] for row in rows]
    return _rows(heads, lines, "number", None if whole is None else [escape(cell) for cell in whole])


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]], others: str, whole: Sequence[str] | None = None) -> str:
    """Return a table of cells that are HTML; where the page is narrow, rows are blocks and each cell shows its head."""
    classes = ["", *[f' class="{others}"' if others else ""] * (len(heads) - 1)]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(heads, classes, strict=True))

    def line(cells: Sequence[str], of: str = "") -> str:
        shown = zip(heads, classes, cells, strict=True)
        tds = "".join(f'<td{kind} data-head="{escape(name)}"><span>{cell}</span></td>' for name, kind, cell in shown)
        return f"<tr{of}>{tds}</tr>"

    body = [line(row) for row in rows] + ([line(whole, ' class="whole"')] if whole else [])
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>" + "\n".join(body) + "</tbody></table>"


def _label(column: str) -> str:
    return column or "files of no column"
