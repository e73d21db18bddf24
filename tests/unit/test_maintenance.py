"""The history of a table's upkeep, what of it is due, and the page that shows it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.blob_states import DAY, HOUR, NOW

from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, UnsupportedTableError
from hudi_vector.table_services.maintenance.charts import Chart, bytes_text
from hudi_vector.table_services.maintenance.figures import ColumnFigures, Figures, IndexFigures, add_up
from hudi_vector.table_services.maintenance.history import (
    DONE,
    FAILED,
    MAINTENANCE,
    NOT_DUE,
    NOTHING,
    REFUSED,
    History,
    Run,
    StepOutcome,
    add_run,
    read_history,
)
from hudi_vector.table_services.maintenance.report import html_report, write_report

FIGURES = Figures((ColumnFigures("doc.scan", 2, managed=50), ColumnFigures("img", 3, 10, 20, 30, 40, 1)), 2, 7)


def run(at_ms: int, state: str = DONE, figures: Figures | None = None) -> Run:
    return Run(at_ms, (StepOutcome("clean_blobs", state, "what it did", 1.5),), figures)


def folder(table: Path) -> list[str]:
    return sorted(file.name for file in (table / MAINTENANCE).iterdir())


def test_a_history_is_read_back_and_keeps_few_files(tmp_path: Path) -> None:
    table = str(tmp_path)
    assert read_history(table) == History()
    runs = tuple(run(NOW + hour * HOUR, figures=FIGURES if hour % 2 else None) for hour in range(5))
    for each in runs:
        history = add_run(table, each)
        assert read_history(table) == history
    assert history.runs == runs
    assert history.last == {"clean_blobs": NOW + 4 * HOUR}
    assert [name[:8] for name in folder(tmp_path)] == ["00000003", "00000004"]
    newest = tmp_path / MAINTENANCE / folder(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    assert read_history(table).runs == runs[:-1], "a file that was cut off is passed over"
    newest.write_bytes(newest.read_bytes().replace(b"maintenance 1", b"maintenance 2"))
    with pytest.raises(UnsupportedTableError, match="version 2"):
        read_history(table)


@pytest.mark.parametrize(
    ("state", "due"), [(DONE, False), (NOTHING, False), (NOT_DUE, True), (REFUSED, True), (FAILED, True)]
)
def test_a_step_is_due_until_it_ends_well(state: str, due: bool) -> None:
    history = History().with_run(run(NOW, state))
    assert history.is_due("clean_blobs", DAY, NOW + HOUR) is due
    assert history.is_due("clean_blobs", DAY, NOW + DAY)
    assert history.is_due("clean_blobs", 0, NOW)
    assert history.is_due("clean_blobs", DAY, NOW - 1), "the clock went back"
    assert history.is_due("figures", DAY, NOW)


def test_a_run_that_is_not_due_changes_nothing_of_when_it_is() -> None:
    history = History().with_run(run(NOW)).with_run(run(NOW + HOUR, NOT_DUE)).with_run(run(NOW + 2 * HOUR, FAILED))
    assert history.last == {"clean_blobs": NOW}


@given(st.lists(st.tuples(st.integers(0, 3 * DAY), st.booleans()), max_size=60))
def test_thinning_keeps_the_last_month_and_the_last_figures_of_each_day(steps: list[tuple[int, bool]]) -> None:
    at, made, history = NOW, [], History()
    for by, measured in steps:
        at += by
        made.append(run(at, figures=FIGURES if measured else None))
        history = history.with_run(made[-1])
    recent = [each for each in made if each.begun_ms > at - 30 * DAY]
    assert list(history.runs[len(history.runs) - len(recent) :]) == recent
    older = history.runs[: len(history.runs) - len(recent)]
    days = {each.begun_ms // DAY: each.begun_ms for each in made[: len(made) - len(recent)] if each.figures}
    assert [each.begun_ms for each in older] == sorted(days.values())
    assert all(each.figures == FIGURES and each.steps == () for each in older)


def test_no_history_grows_without_end() -> None:
    history = History(tuple(run(NOW + number, figures=FIGURES) for number in range(2100)))
    assert len(history.with_run(run(NOW + 2100)).runs) == 2000


def test_the_figures_of_an_inventory() -> None:
    rows = [
        {"column": "img", "kind": "inline", "blobs": 2, "bytes": 30, "dead_bytes": 0, "dangling": 0},
        {"column": "img", "kind": "managed", "blobs": 3, "bytes": 50, "dead_bytes": 7, "dangling": 1},
        {"column": "img", "kind": "external", "blobs": 1, "bytes": 5, "dead_bytes": None, "dangling": 0},
        {"column": None, "kind": "managed", "blobs": 0, "bytes": 0, "dead_bytes": 9, "dangling": 0},
    ]
    columns = add_up(rows)
    assert columns == (ColumnFigures("", dead=9), ColumnFigures("img", 6, 30, 50, 5, 7, 1))
    whole = Figures(columns).whole
    assert (whole.blobs, whole.live, whole.dead, whole.dangling) == (6, 85, 16, 1)


def svgs(page: str) -> list[ET.Element]:
    """The charts of a page; that they are XML is checked by this."""
    return [ET.fromstring("<svg" + part.partition("</svg>")[0] + "</svg>") for part in page.split("<svg")[1:]]


def test_the_page(tmp_path: Path) -> None:
    later = Figures((ColumnFigures("doc.scan", 2, managed=60), ColumnFigures("img", 3, 10, 20, 30, 0)), 0, 0)
    runs = (run(NOW, figures=FIGURES), run(NOW + DAY, REFUSED), run(NOW + 2 * DAY, figures=later))
    page = html_report("file:///t/<photos>", History(runs), NOW + 2 * DAY)
    charts = svgs(page)
    titles = [chart.get("aria-label") for chart in charts]
    assert titles == ["All columns", "Dangling rows", "doc.scan", "img"]
    said = [title.text for title in charts[0].iter("title")]
    assert [text.partition(": ")[2] for text in said if text] == [
        "live 110 B", "live 120 B", "dead 40 B", "dead 0 B", "trash 7 B", "trash 0 B",
    ]  # fmt: skip
    assert [len(line.get("points", "").split()) for line in charts[0].iter("polyline")] == [2, 2, 2]
    assert "&lt;photos&gt;" in page
    assert "<photos>" not in page
    assert '<span class="bad">refused</span>' in page
    assert not [mark for mark in ("http:", "https:", "<script", "@import", "url(", " src=") if mark in page]
    write_report(str(tmp_path / "x.html"), page)
    assert (tmp_path / "x.html").read_text("utf-8") == page


def test_the_page_shows_indexes_over_time() -> None:
    name = "emb, l2, ivf_sq8"
    first = replace(FIGURES, indexes=(IndexFigures(name, 4, 4, 900, 1 << 20, 1.254),))
    later = replace(FIGURES, indexes=(IndexFigures(name, 5, 3, 700, 1 << 20, 2.5, 0.957, 1.234),))
    assert Figures.of(asdict(later)) == later
    body = asdict(FIGURES)
    del body["indexes"]  # as an older run noted it
    assert Figures.of(body) == FIGURES
    history = History((run(NOW, figures=first), run(NOW + DAY, figures=FIGURES), run(NOW + 2 * DAY, figures=later)))
    page = html_report("file:///t", history, NOW + 2 * DAY)
    shown = [f"Files of {name}", f"Imbalance of {name}, in %", f"Recall of {name}, in %", f"Latency of {name}, in µs"]
    assert [chart.get("aria-label") for chart in svgs(page)][-4:] == shown
    said = [title.text.partition(": ")[2] for chart in svgs(page)[-4:] for title in chart.iter("title")]
    assert said == [
        "files 4",
        "files 5",
        "covered 4",
        "covered 3",
        "imbalance 125",
        "imbalance 250",
        "recall 96",
        "latency 1,234",
    ]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page.partition("Vector indexes")[2].partition("</table>")[0])
    assert cells == [name, "3 of 5", "700", "1 MiB", "2.50", "0.957", "1.2 ms"]


def test_a_page_without_figures() -> None:
    page = html_report("file:///t", History(), NOW)
    assert "No figures were taken yet" in page
    assert svgs(page) == []


def test_a_page_that_cannot_be_written() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the report '/no/such/x\.html' cannot be written"):
        write_report("/no/such/x.html", "")
    with pytest.raises(InvalidTypeError, match="report is the path of a local file, not 1"):
        write_report(1, "")  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 1 << 60)), min_size=1, max_size=20),
    st.booleans(),
)
def test_every_point_lies_in_its_frame(points: list[tuple[int, int]], is_bytes: bool) -> None:
    at = sorted(when for when, _ in points)
    chart = Chart("x", at, {"live": [value for _, value in points]}, {"live": "#000000"}, is_bytes)
    circles = list(ET.fromstring(chart.svg()).iter("circle"))
    assert len(circles) == len(points)
    for circle in circles:
        assert 90 <= float(circle.get("cx", "")) <= 700
        assert 30 <= float(circle.get("cy", "")) <= 190


@given(st.integers(0, 1 << 62))
def test_bytes_are_said_to_three_digits(number: int) -> None:
    value, unit = bytes_text(number).split()
    size = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert "e" not in value
    assert abs(float(value) * size - number) <= max(0.006 * number, 0)
