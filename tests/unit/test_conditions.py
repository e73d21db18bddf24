"""Conditions over metadata mean the same in the filter dialect, over columns, as in Python, over JSON."""

from __future__ import annotations

import builtins
import datetime as dt
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.errors import InvalidFilterError, MissingDependencyError
from hudi_vector.integrations.conditions import MetadataFilter, matches
from hudi_vector.read.predicate.form import evaluate, parse

TYPES = {
    "n": pa.int64(), "i": pa.int32(), "x": pa.float64(), "s": pa.string(), "b": pa.bool_(),
    "t": pa.timestamp("us", "UTC"), "d": pa.date32(),
}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3) | st.sampled_from([2**53 + 1, -(2**63)]),
    "i": st.integers(-3, 3),
    "x": st.sampled_from([-0.0, 0.0, 0.1, 1.0, 2.5, -1e300, 2.0**53]),
    "s": st.sampled_from(["", "a", "it's", "b\\", "é", "\U0001f6a3", "A", "%", "2026-01-31"]),
    "b": st.booleans(),
    "t": st.sampled_from([dt.datetime(y, 1, 31, 12, 0, 0, 7, dt.timezone.utc) for y in (1000, 1969, 2026)]),
    "d": st.sampled_from([dt.date(1000, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 31)]),
}
ROWS = st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()})


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(sorted(VALUES)))
    value = st.none() | VALUES[name]
    if name in ("n", "i"):
        value |= st.sampled_from([0.5, 1.0, -2.5])
    operator = draw(st.sampled_from(["$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$nin", "$exists"]))
    if operator in ("$in", "$nin"):
        return {name: {operator: draw(st.lists(value, max_size=3))}}
    return {name: {operator: draw(st.booleans() if operator == "$exists" else value)}}


FILTERS = st.recursive(
    comparisons(),
    lambda one: (
        st.builds(lambda terms: {"$and": terms}, st.lists(one, min_size=1, max_size=3))
        | st.builds(lambda terms: {"$or": terms}, st.lists(one, min_size=1, max_size=3))
        | st.builds(lambda term: {"$not": term}, one)
    ),
    max_leaves=6,
)


@given(FILTERS, st.lists(ROWS, min_size=1, max_size=6))
def test_columns_and_json_give_the_same_rows(condition: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    wanted = MetadataFilter.of(condition)
    metadata = [{name: value for name, value in row.items() if value is not None} for row in rows]
    in_python = [matches(wanted.tree, each) for each in metadata]

    table = pa.Table.from_pylist(rows, pa.schema(TYPES))
    where = wanted.where(TYPES)
    assert where.accepts is None
    assert where.text is not None
    assert evaluate(parse(where.text, table.schema), table, "UTC").tolist() == in_python

    # Some columns only: the text lets every row through that the condition accepts, and the rest decides.
    some = {name: TYPES[name] for name in ("n", "s", "d")}
    part = wanted.where(some)
    passes = (
        [True] * len(rows) if part.text is None else evaluate(parse(part.text, table.schema), table, "UTC").tolist()
    )
    decided = [part.accepts is None or part.accepts("", None, each) for each in metadata]
    assert [one and other for one, other in zip(passes, decided, strict=True)] == in_python


def test_what_columns_express_is_not_left_to_python() -> None:
    where = MetadataFilter.of({"n": {"$lt": 3}, "tag": "x", "$or": [{"s": "a"}, {"tag": "y"}]}).where(TYPES)
    assert where.text == "(`n` IS NOT NULL AND `n` < 3)"
    assert where.accepts is not None
    assert where.accepts("", None, {"n": 1, "tag": "x", "s": "a"})
    assert not where.accepts("", None, {"n": 1, "tag": "x", "s": "b"})


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [
        (3, "a filter is text such as .+, or a dictionary such as .+, not int"),
        ({"n": {"$near": 3}}, r"the filter has for 'n' the unknown operator '\$near'; the operators are \$eq, .+"),
        ({"$xor": [{"n": 1}]}, r"the filter has the unknown operator '\$xor'; the operators are \$and, \$or, \$not .+"),
        ({"$and": {}}, r"'\$and' takes a list of filters, not \{\}"),
        ({"n": {"$in": 3}}, r"'\$in' of 'n' takes a list of values, not 3"),
        ({"n": {}}, r"the filter says nothing of 'n'; give a value, or \{'\$lt': value\}"),
        ({"n": {"$exists": 1}}, r"'\$exists' of 'n' takes True or False, not 1"),
        ({"n": "a"}, "the filter compares 'n', a column of type int64, with 'a'; give a value of that type"),
        ({"b": {"$gt": 0}}, "the filter compares 'b', a column of type bool, with 0; give a value of that type"),
        (
            {"t": {"$gte": "0001-01-01T00:00:00+01:00"}},
            r"the filter compares 't', a column of type timestamp.+, with '0001-01-01T00:00:00\+01:00'; give .+",
        ),
        ({"d": "soon"}, r"the filter compares 'd', a column of type date32\[day\], with 'soon'; give .+"),
    ],
)
def test_a_filter_that_is_none_is_answered_by_one_sentence(condition: Any, sentence: str) -> None:
    with pytest.raises(InvalidFilterError, match=f"^{sentence}$"):
        MetadataFilter.of(condition).where(TYPES)


@pytest.mark.parametrize(
    ("module", "library", "sentence"),
    [
        ("langchain", "langchain_core", "HudiVectorStore needs 'langchain-core': install it with pip install 'hudi-vector[langchain]'"),
        ("haystack", "haystack", "HudiDocumentStore needs 'haystack-ai': install it with pip install 'hudi-vector[haystack]'"),
        ("llama_index", "llama_index", "HudiVectorStore needs 'llama-index-core': install it with pip install 'hudi-vector[llama-index]'"),
    ],
)  # fmt: skip
def test_without_its_library_a_store_names_the_extra(
    module: str, library: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def absent(name: str, *arguments: Any, **named: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == library:
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.delitem(sys.modules, f"hudi_vector.integrations.{module}", raising=False)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingDependencyError) as raised:
        importlib.import_module(f"hudi_vector.integrations.{module}")
    assert str(raised.value) == sentence


def test_a_write_for_which_there_is_no_session_says_why(tmp_path: Path) -> None:
    code = (
        "from hudi_vector.integrations.documents import DocumentTable, Stored\n"
        f"table = DocumentTable({str(tmp_path / 't')!r})\n"
        "print(table.count(), table.search([1.0], 3), table.get(['a']), table.delete(['a']))\n"
        "try: table.write([Stored('a', 'text', {}, [1.0])])\n"
        "except Exception as problem: print(type(problem).__name__, problem)"
    )
    environment = {**os.environ, "JAVA_HOME": "/no/java"}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout == (
        "0 [] [] 0\n"
        "SessionError Spark needs Java 17, and there is no '/no/java/bin/java' (JAVA_HOME is '/no/java'); "
        "install Java 17, the tested version, and set JAVA_HOME to its folder before the first SparkSession is made\n"
    )


def test_nothing_of_the_stores_is_loaded_without_them() -> None:
    code = (
        "import sys, hudi_vector as hv; hv.open, hv.search, hv.write\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('langchain_core', 'haystack', 'pydantic')"
        " or name.startswith('hudi_vector.integrations')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
