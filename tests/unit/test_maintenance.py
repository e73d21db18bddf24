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
from hudi_vector.table_services.maintenance.advice import advice
from hudi_vector.table_services.maintenance.charts import Chart
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
from hudi_vector.table_services.maintenance.quantities import (
    BYTES,
    MILLISECONDS,
    RATIO,
    SHARE,
    Quantity,
    bytes_text,
    count_of,
)
from hudi_vector.table_services.maintenance.report import html_report
from hudi_vector.table_services.report_file import write_report

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


def parsed(page: str) -> ET.Element:
    """The page as a tree; that every element is closed is checked by this."""
    text = page.removeprefix("<!DOCTYPE html>\n")
    for name in ("meta", "br"):  # which HTML does not close
        text = re.sub(rf"<({name}[^>]*)>", r"<\1/>", text)
    return ET.fromstring(text)


def text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def charts_of(page: ET.Element) -> dict[str, list[str]]:
    """The tooltips of each chart by its title, without their times."""
    found = {}
    for svg in page.iter("svg"):
        tips = [str(tip.text).partition(": ")[2] for tip in svg.iter("title")]
        found[str(svg.get("aria-label"))] = tips
    return found


def tables_of(page: ET.Element) -> list[list[list[str]]]:
    """The cells of each table, the head first; a cell says in a narrow window what its head says in a wide one."""
    found = []
    for table in page.iter("table"):
        heads = [text_of(cell) for cell in table.iter("th")]
        rows = [[*row.iter("td")] for row in table.iter("tr")][1:]
        assert heads
        assert all([cell.get("data-head") for cell in row] == heads for row in rows)
        found.append([heads, *([text_of(cell) for cell in row] for row in rows)])
    return found


def test_the_page(tmp_path: Path) -> None:
    later = Figures((ColumnFigures("doc.scan", 2, managed=60), ColumnFigures("img", 3, 10, 20, 30, 0)), 0, 0)
    runs = (run(NOW, figures=FIGURES), run(NOW + DAY, REFUSED), run(NOW + 2 * DAY, NOT_DUE, later))
    page = html_report("file:///t/<photos>", History(runs), NOW + 2 * DAY)
    tree = parsed(page)
    assert [text_of(head) for head in tree.iter("h1")] == ["<photos>: blobs"] == [text_of(head) for head in tree.iter("title")][:1]  # fmt: skip
    assert [text_of(head) for head in tree.iter("h2")] == ["Needs attention", "Blobs", "Last runs"]
    assert charts_of(tree) == {
        "All columns": ["live 110 B", "live 120 B", "dead 40 B", "dead 0 B", "trash 7 B", "trash 0 B"],
        "Dangling": ["dangling 1 row", "dangling 0 rows"],
        "doc.scan": ["live 50 B", "live 60 B", "dead 0 B", "dead 0 B"],
        "img": ["live 60 B", "live 60 B", "dead 40 B", "dead 0 B"],
    }
    columns, last_runs = tables_of(tree)
    assert columns == [
        ["column", "blobs", "live", "inline", "managed", "external", "dead", "dangling"],
        ["doc.scan", "2", "60 B", "0 B", "60 B", "0 B", "0 B", "0 rows"],
        ["img", "3", "60 B", "10 B", "20 B", "30 B", "0 B", "0 rows"],
        ["all", "5", "120 B", "10 B", "80 B", "30 B", "0 B", "0 rows"],
    ]
    assert [row[1:] for row in last_runs] == [
        ["step", "outcome", "duration", "details"],
        ["clean_blobs", "refused", "1.5 s", "what it did"],
        ["clean_blobs", "done", "1.5 s", "what it did"],
    ], "the newest first, without what was not due"
    assert not [mark for mark in ("http:", "https:", "<script", "@import", "url(", " src=") if mark in page]
    write_report(str(tmp_path / "x.html"), page)
    assert (tmp_path / "x.html").read_text("utf-8") == page


def test_the_page_of_a_table_of_vectors_shows_its_indexes_alone() -> None:
    name = "emb, l2, ivf_sq8"
    first = Figures((), indexes=(IndexFigures(name, 4, 4, 900, 1 << 20, 1.254),))
    later = Figures((), indexes=(IndexFigures(name, 5, 3, 700, 1 << 20, 2.5, 0.957, 6.618),))
    last = Figures((), indexes=(IndexFigures(name, 5, 5, 900, 1 << 20, 2.5, 0.989, 7.0),))
    assert Figures.of(asdict(later)) == later
    body = asdict(FIGURES)
    del body["indexes"]  # as an older run noted it
    assert Figures.of(body) == FIGURES
    runs = [run(NOW + day * DAY, figures=figures) for day, figures in enumerate((first, Figures(()), later, last))]
    tree = parsed(html_report("file:///t/products/", History(tuple(runs)), NOW + 3 * DAY))
    assert text_of(next(tree.iter("h1"))) == "products: vector indexes"
    assert [text_of(head) for head in tree.iter("h2")] == ["Vector indexes", "Last runs"]
    assert [text_of(head) for head in tree.iter("h3")] == [name]
    assert charts_of(tree) == {
        "Base files": ["covered 4 files", "covered 3 files", "covered 5 files", "all 4 files", "all 5 files", "all 5 files"],
        "Recall": ["recall 95.7 %", "recall 98.9 %"],
        "Latency": ["latency 6.6 ms", "latency 7.0 ms"],
        "Imbalance": ["imbalance 1.25 ×", "imbalance 2.50 ×", "imbalance 2.50 ×"],
    }  # fmt: skip
    captions = [text_of(caption) for caption in tree.iter("figcaption")]
    assert captions == ["Base filescovered 5 filesall 5 files", "Recall98.9 %", "Latency7.0 ms", "Imbalance2.50 ×"]
    assert tables_of(tree)[0][1] == [name, "5 of 5 files (100 %)", "900", "1 MiB", "2.50 ×", "98.9 %", "7.0 ms"]
    two = html_report("file:///t/products", History(tuple(runs[:3])), NOW)
    assert list(charts_of(parsed(two))) == ["Base files", "Imbalance"], "one measurement makes no chart"
    assert tables_of(parsed(two))[0][1][1] == "3 of 5 files (60.0 %)"


def test_a_page_of_both_begins_with_blobs() -> None:
    both = replace(FIGURES, indexes=(IndexFigures("emb, l2, ivf_sq8", 4, 4, 900, 1 << 20, 1.254),))
    page = parsed(html_report("file:///t/both", History((run(NOW, figures=both),)), NOW))
    assert text_of(next(page.iter("h1"))) == "both: blobs and vector indexes"
    assert [text_of(head) for head in page.iter("h2")] == ["Blobs", "Vector indexes", "Last runs"]
    assert "not measured" in tables_of(page)[1][1]
    assert charts_of(page) == {}
    assert "Charts begin with the second run that takes figures." in text_of(page)


@pytest.mark.parametrize(
    ("figures", "said"),
    [(None, "No figures were taken yet"), (Figures(()), "The table has neither blobs nor vector indexes.")],
)
def test_a_page_without_blobs_and_indexes(figures: Figures | None, said: str) -> None:
    page = parsed(html_report("file:///t", History((run(NOW, figures=figures),) if figures else ()), NOW))
    assert text_of(next(page.iter("h1"))) == "t: maintenance"
    assert said in text_of(page)
    assert charts_of(page) == {}


def test_figures_and_long_texts_are_shown_in_units() -> None:
    assert list(FIGURES.lines()) == ["110 bytes live, 40 bytes dead, 7 bytes in the trash, 1 dangling"]
    assert list(Figures((), indexes=(IndexFigures("emb, l2, hnsw", 4, 3, 9, 9, 1.0),)).lines()) == [
        "3 of 4 base files covered by the index emb, l2, hnsw"
    ]
    text = "2 files (24840000 bytes) moved to the trash, 4096 of 8192 bytes were <dead>" + "; and more" * 20
    steps = (StepOutcome("clean_blobs", DONE, text, 75.0), StepOutcome("index", NOTHING, "", 7384.0))
    page = html_report("file:///t", History((Run(NOW, steps),)), NOW)
    rows = tables_of(parsed(page))[0][1:]
    assert [row[3] for row in rows] == ["1 min 15 s", "2 h 3 min"]
    assert rows[0][4].startswith("2 files (23.7 MiB) moved to the trash, 4 KiB of 8 KiB were <dead>; and more")
    assert rows[0][4].endswith(text[-50:]), "a long text is all there, and folded"
    assert page.count("<details>") == 1
    assert rows[1][4] == "-"


@pytest.mark.parametrize(
    ("step", "state", "text", "said"),
    [
        ("clean_blobs", REFUSED, "another clean of 't' is under way: x", "Nothing, if it does not last"),
        ("compact_blobs", REFUSED, "if no other job writes, give assume_single_writer", "hoodie.blob.maintain.assume.single.writer"),
        ("clean_blobs", REFUSED, "60 of 100 bytes in the blob area would go", "`hudi-vector clean-blobs --table '/a t' --dry-run`"),
        ("clean_blobs", REFUSED, "nothing may go: a file cannot be read", "while a file is in doubt"),
        ("cluster", REFUSED, "something else", "`hudi-vector cluster --table '/a t' --dry-run`"),
        ("index", FAILED, "a file is damaged", "The log of the run has the whole error."),
    ],
)  # fmt: skip
def test_what_to_do_about_a_step(step: str, state: str, text: str, said: str) -> None:
    told = advice(StepOutcome(step, state, text), "/a t")
    assert said in told
    assert told.endswith(f"To run it now: `hudi-vector maintain --table '/a t' --step {step.replace('_', '-')}`.")


def test_a_killed_run_is_not_ended_by_name() -> None:
    assert advice(StepOutcome("end_killed_runs", REFUSED, "x"), "/t") == "Mend what the text names."


def test_the_page_says_what_to_do_until_the_step_ends_well() -> None:
    runs = (run(NOW, REFUSED), run(NOW + DAY, NOT_DUE))
    page = parsed(html_report("file:///t", History(runs), NOW + DAY))
    (todo,) = [each for each in page.iter("section") if each.get("class") == "todo"]
    assert "clean_blobs refused" in text_of(todo)
    assert [code.text for code in todo.iter("code")][1:] == [
        "hudi-vector clean-blobs --table file:///t --dry-run",
        "hudi-vector maintain --table file:///t --step clean-blobs",
    ]
    assert "Needs attention" not in html_report("file:///t", History((*runs, run(NOW + 2 * DAY))), NOW + 2 * DAY)


def test_a_page_that_cannot_be_written() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the report '/no/such/x\.html' cannot be written"):
        write_report("/no/such/x.html", "")
    with pytest.raises(InvalidTypeError, match="report is the path of a local file, not 1"):
        write_report(1, "")  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["x.jsonl", "p=1/x.jsonl"])
def test_a_report_is_not_written_among_the_data_files_of_a_table(tmp_path: Path, place: str) -> None:
    table = tmp_path / "t"
    (table / ".hoodie").mkdir(parents=True)
    (table / ".hoodie" / "hoodie.properties").touch()
    (table / "p=1").mkdir()
    (tmp_path / "link").symlink_to(table)
    for path in (table / place, tmp_path / "link" / place):
        with pytest.raises(InvalidArgumentError, match=f"would lie among the data files of the table '{table}'"):
            write_report(str(path), "")
        assert not path.exists()
    for path in (tmp_path / "x.jsonl", table / ".hoodie" / "x.jsonl"):
        write_report(str(path), "row")
        assert path.read_text() == "row"


_QUANTITIES = st.sampled_from([BYTES, count_of("rows"), MILLISECONDS, RATIO, SHARE])


@given(st.lists(st.tuples(st.integers(0, 10**12), st.floats(0, 1)), min_size=2, max_size=20), _QUANTITIES)
def test_every_point_lies_in_its_frame(points: list[tuple[int, float]], quantity: Quantity) -> None:
    at, most = sorted(when for when, _ in points), min(quantity.limit, 1e15)
    chart = ET.fromstring(Chart("x", quantity, at, {"live": [most * value for _, value in points]}).html())
    circles = list(chart.iter("circle"))
    assert len(circles) == len(points)
    for circle in circles:
        assert 0 <= float(circle.get("cx", "").removesuffix("%")) <= 100
        assert 0 <= float(circle.get("cy", "").removesuffix("%")) <= 100


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([1, 1e3, 1e6, 1e12]), _QUANTITIES)
def test_scales_are_few_numbers_that_hold_all_values(one: float, other: float, size: float, quantity: Quantity) -> None:
    least, most = sorted(min(size, quantity.limit) * value for value in (one, other))
    scale = quantity.scale(least, most)
    assert 2 <= len(scale) <= 7
    assert scale[0] <= least + 1e-9 * most
    assert scale[-1] >= most * (1 - 1e-9)
    texts = [quantity.scale_text(value, scale[-1]) for value in scale]
    assert len(set(texts)) == len(texts), "no two numbers of a scale look the same"


@pytest.mark.parametrize(
    ("quantity", "least", "most", "shown"),
    [
        (BYTES, 0, 23.7 * (1 << 20), ["0 B", "10 MiB", "20 MiB", "30 MiB"]),
        (BYTES, 5, 0.9 * (1 << 30), ["0 B", "500 MiB", "1000 MiB"]),
        (count_of("files"), 1, 1, ["0 files", "1 file"]),
        (count_of("files"), 3, 5, ["0 files", "2 files", "4 files", "6 files"]),
        (SHARE, 0.957, 0.989, ["95.0 %", "96.0 %", "97.0 %", "98.0 %", "99.0 %"]),
        (SHARE, 1, 1, ["99.0 %", "100 %"]),
        (MILLISECONDS, 6.6, 7.9, ["0.0 ms", "2.0 ms", "4.0 ms", "6.0 ms", "8.0 ms"]),
        (RATIO, 13.86, 13.86, ["0 ×", "5 ×", "10 ×", "15 ×"]),
    ],
)
def test_scales_have_units(quantity: Quantity, least: float, most: float, shown: list[str]) -> None:
    scale = quantity.scale(least, most)
    assert [quantity.scale_text(value, scale[-1]) for value in scale] == shown


@given(st.integers(0, 1 << 62))
def test_bytes_are_said_to_three_digits(number: int) -> None:
    value, unit = bytes_text(number).split()
    size = 1024 ** ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert "e" not in value
    assert abs(float(value) * size - number) <= max(0.006 * number, 0)
