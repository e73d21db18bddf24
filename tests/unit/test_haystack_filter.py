"""Haystack's filters in our dialect: the filter tests of its suite, and its own function as the oracle."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("haystack")

from haystack import Document
from haystack.errors import FilterError
from haystack.testing.document_store import FilterDocumentsTest
from haystack.utils.filters import document_matches_filter

from hudi_vector.integrations.haystack import HaystackFilter
from hudi_vector.read.predicate.form import evaluate, parse

COLUMNS = {"name": pa.string(), "page": pa.string(), "chapter": pa.string(), "number": pa.int64(), "date": pa.string(),
           "no_embedding": pa.bool_()}  # fmt: skip
OTHER_COLUMNS = {"number": pa.int64(), "x": pa.float64(), "name": pa.string(), "flag": pa.bool_(),
                 "at": pa.timestamp("us", "UTC")}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "number": st.integers(-2, 2),
    "x": st.sampled_from([-1.5, 0.0, 1.0, 2.5]),
    "name": st.sampled_from(["", "a", "it's", "2026-01-31", "2026-01-31T00:00:00"]),
    "flag": st.booleans(),
    "at": st.sampled_from([dt.datetime(year, 1, 31, 12, tzinfo=dt.timezone.utc) for year in (1969, 2026)]),
    "tag": st.sampled_from(["a", 1, [1], {"b": 1}]),
}
DOCUMENTS = st.builds(
    lambda key, text, meta: Document(id=key, content=text, meta={k: v for k, v in meta.items() if v is not None}),
    st.sampled_from(["k1", "k2"]),
    st.sampled_from([None, "a"]),
    st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}),
)


class Table:
    """Documents as an Arrow table with columns for metadata, filtered as files are."""

    def __init__(self, columns: dict[str, pa.DataType]) -> None:
        self._columns = columns
        self._documents: list[Document] = []

    def write_documents(self, documents: list[Document]) -> None:
        self._documents += documents

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        if not filters:
            return self._documents
        where = HaystackFilter(filters, "key", "text").where(self._columns)
        rows = [{"key": each.id, "text": each.content, **each.meta} for each in self._documents]
        table = pa.Table.from_pylist(rows, pa.schema({"key": pa.string(), "text": pa.string(), **self._columns}))
        passes = [True] * len(rows)
        if where.text is not None:
            passes = evaluate(parse(where.text, table.schema), table, "UTC").tolist()
        found = [each for each, is_there in zip(self._documents, passes, strict=True) if is_there]
        return [one for one in found if where.accepts is None or where.accepts(one.id, one.content, one.meta)]


class TestDialect(FilterDocumentsTest):
    """The filter tests of the suite, over columns."""

    @pytest.fixture
    def document_store(self) -> Table:
        return Table(COLUMNS)


CHAPTER = {"field": "meta.chapter", "operator": "==", "value": "intro"}
DATE = {"field": "meta.date", "operator": ">", "value": "1972-12-11T19:54:58"}


@pytest.mark.parametrize(
    ("filters", "text", "is_whole"),
    [
        (CHAPTER, "(`chapter` <=> 'intro')", True),
        ({"operator": "NOT", "conditions": [CHAPTER]}, "(NOT ((`chapter` <=> 'intro')))", True),
        ({"field": "id", "operator": "in", "value": ["a"]}, "((`key` IS NOT NULL AND `key` IN ('a')))", True),
        (DATE, None, False),
        ({"operator": "AND", "conditions": [CHAPTER, DATE]}, "(`chapter` <=> 'intro')", False),
        ({"operator": "OR", "conditions": [CHAPTER, DATE]}, None, False),
        ({"operator": "AND", "conditions": []}, "(TRUE)", True),
    ],
)
def test_columns_take_what_they_express(filters: dict[str, Any], text: str | None, is_whole: bool) -> None:
    where = HaystackFilter(filters, "key", "text").where(COLUMNS)
    assert (where.text, where.accepts is None) == (text, is_whole)


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from([*VALUES, "id", "content"]))
    value = st.none() | st.one_of(*VALUES.values()) | st.just("k1")
    operator = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in"]))
    given_value = draw(st.lists(value, max_size=3) if operator.endswith("in") else value)
    field = name if name in ("id", "content") else f"meta.{name}"
    return {"field": field, "operator": operator, "value": given_value}


def _logic(operator: str) -> Any:
    return lambda terms: {"operator": operator, "conditions": terms}


FILTERS = st.recursive(
    comparisons(),
    lambda one: st.one_of(*[st.builds(_logic(name), st.lists(one, max_size=3)) for name in ("AND", "OR", "NOT")]),
    max_leaves=5,
)


@given(FILTERS, st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_any_filter_is_what_haystack_makes_of_it(filters: dict[str, Any], documents: list[Document]) -> None:
    try:
        wanted = [each for each in documents if document_matches_filter(filters, each)]
    except (FilterError, TypeError):
        return  # it depends on the order of conditions and documents whether Haystack gets so far
    table = Table(OTHER_COLUMNS)
    table.write_documents(documents)
    assert table.filter_documents(filters) == wanted


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        (
            {"field": "meta.n", "operator": "near", "value": 1},
            r"unknown operator 'near'; the operators of values are .+",
        ),
        (
            {"operator": "XOR", "conditions": []},
            r"unknown operator 'XOR'; the operators of conditions are AND, OR, NOT",
        ),
        ({"operator": "AND", "conditions": 3}, r"'conditions' must be a list of filters, not 3"),
        ({"operator": "AND"}, r"'conditions' is missing in the filter \{'operator': 'AND'\}"),
        ({"field": "meta.n", "operator": "in", "value": 1}, r"'in' of 'meta.n' takes a list, not 1"),
        ({"field": "embedding", "operator": "==", "value": 1}, r"'embedding' is nothing that a filter reads; .+"),
        ([], r"a filter of Haystack is a dictionary with 'operator', not list"),
    ],
)
def test_a_filter_that_is_none_is_answered_by_one_sentence(filters: Any, sentence: str) -> None:
    with pytest.raises(FilterError, match=f"^{sentence}$"):
        HaystackFilter(filters, "key", "text")
