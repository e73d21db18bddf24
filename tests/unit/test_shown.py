"""What results look like: a short text, a table of HTML, rows, and a DataFrame of pandas."""

from __future__ import annotations

import html.parser
import inspect
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hudi_vector as hv
from hudi_vector.query.opened.vector_table import VectorTable
from hudi_vector.shown import Listed, Shown, ShownText, as_tree, cell
from hudi_vector.table_services.result import CleanFile, RestoreResult
from hudi_vector.writing.result import WriteResult

WRITTEN = WriteResult("goods", "file:/tables/goods", "upsert", "20260101000000000", inserted=2)


def test_a_result_shows_what_it_holds() -> None:
    assert repr(WRITTEN).splitlines() == [
        "WriteResult",
        "  table      goods",
        "  path       file:/tables/goods",
        "  operation  upsert",
        "  instant    20260101000000000",
        "  inserted   2",
        "  skipped    0",
        "  erased     0",
    ]
    assert WRITTEN.rows()[0]["inserted"] == 2
    assert WRITTEN.to_pandas().loc[0, "table"] == "goods"
    assert "<b>WriteResult</b>" in WRITTEN._repr_html_()


def test_a_result_of_several_things_shows_them_as_a_table() -> None:
    result = RestoreResult("/t", [CleanFile(f"a<{n}>", 3, "back") for n in range(30)], [], 90)
    lines = repr(result).splitlines()
    assert lines[:3] == [
        "RestoreResult",
        "  30 files (90 bytes) restored, 0 stay in the trash",
        "   path  bytes   action  reason",
    ]
    assert len(lines) == 14
    assert lines[-1] == "  …"
    assert list(result.to_pandas().columns) == ["path", "bytes", "action", "reason"]
    shown = result._repr_html_()
    assert "a&lt;0&gt;" in shown
    assert shown.count("<tr>") == 11
    assert "… 30 rows" in shown


def test_a_list_of_results_is_a_list_and_a_table() -> None:
    listed = Listed([WRITTEN, WRITTEN])
    assert listed == [WRITTEN, WRITTEN]
    assert isinstance(listed[:1], Listed)
    assert listed[0] is WRITTEN
    assert len(listed.to_pandas()) == 2
    assert len(repr(listed).splitlines()) == 3
    assert repr(Listed([])) == "[]"
    assert hv.last_reports() == list(hv.last_reports())
    assert isinstance(hv.last_reports(), Listed)


def test_whatever_services_and_indexes_return_can_be_looked_at() -> None:
    others = {VectorTable}  # which has the length and the schema of a table
    for room in (hv, hv.index, hv.table_services):
        for name in room.__all__:
            function = getattr(room, name)
            if not inspect.isfunction(function):
                continue
            kind = str(inspect.signature(function).return_annotation).removeprefix("list[").removesuffix("]")
            made = getattr(inspect.getmodule(inspect.unwrap(function)), kind, None)
            if is_dataclass(made) and not kind.startswith(("Joined", "Prepared")):
                assert issubclass(made, Shown), name
                assert made.__repr__ is Shown.__repr__, f"{kind} needs repr=False"
    assert all("_repr_html_" in vars(other) for other in others)


@dataclass(frozen=True, repr=False)
class _Any(Shown):
    first: Any
    second: Any = None


class _Balanced(html.parser.HTMLParser):
    """Whether every tag that is opened is closed, in the same order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


_VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(st.lists(st.builds(_Any, _VALUES, _VALUES), max_size=13))
def test_any_value_can_be_shown(results: list[_Any]) -> None:
    for shown in (*results, Listed(results)):
        assert not _Balanced(shown._repr_html_()).open
        assert all(len(line) < 120 for line in repr(shown).splitlines())
    assert len(repr(Listed(results)).splitlines()) <= 12
    assert [list(row) for row in Listed(results).rows()] == [[f.name for f in fields(_Any)]] * len(results)


@given(_VALUES)
def test_a_cell_is_short_and_in_one_line(value: Any) -> None:
    assert len(cell(value).splitlines()) <= 1
    assert len(cell(value)) <= 120


_LINE = st.text("abc:x", min_size=1)


@st.composite
def _texts(draw: st.DrawFn) -> list[tuple[int, str]]:
    """Lines with their levels, each at most one level below the line before."""
    lines = [(0, draw(_LINE))]
    for _ in range(draw(st.integers(0, 12))):
        lines.append((draw(st.integers(0, lines[-1][0] + 1)), draw(_LINE)))
    return lines


@given(_texts())
def test_a_tree_has_the_lines_of_the_text_and_joins_each_to_its_parent(lines: list[tuple[int, str]]) -> None:
    tree = as_tree("\n".join("  " * level + text for level, text in lines)).split("\n")
    assert len(tree) == len(lines)
    for place, (level, text) in enumerate(lines):
        assert tree[place].endswith(text)
        assert len(tree[place]) == 3 * level + len(text)
        if level:
            sign, column = tree[place][3 * level - 3], 3 * level - 3
            later = [below for below, _ in lines[place + 1 :]]
            ends = next((n for n, below in enumerate(later) if below < level), len(later))
            assert sign == ("├" if level in later[:ends] else "└")
            above = tree[place - 1]
            assert lines[place - 1][0] < level or above[column] in "├│"


@pytest.mark.parametrize("text", ["", "one", "one\ntwo"])
def test_a_text_is_shown_with_its_line_ends(text: str) -> None:
    assert repr(ShownText(text)) == text == ShownText(text)
