"""The cases of Hudi's tests of its vector search, as statements of our own: both functions, beside a known answer."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from support import differences
from support.upstream import ROOT2, ROOT3, answer, assert_outcome, assert_rows, own_columns, views

BOTH = ["hudi_vector_search_native", "hudi_vector_search"]

PLANE, SPACE = 1 - ROOT2, 1 - ROOT3
NEAREST = [("east", 0.0), ("plane", PLANE), ("space", SPACE)]


@pytest.fixture(scope="module")
def path(spark, workspace):
    yield from views(spark, workspace)


@pytest.fixture(params=BOTH)
def function(request):
    return request.param


def search(rest: str, columns: str = "id, _hudi_distance") -> str:
    """A statement over the corpus unless another table is named; nearest first."""
    arguments = rest if rest.startswith("'") else f"'conform_corpus', 'v', {rest}"
    return f"SELECT {columns} FROM {{f}}({arguments}) ORDER BY _hudi_distance"


SINGLE = {
    "cosine": (search("ARRAY(1.0, 0.0, 0.0), 3, 'cosine'"), NEAREST),
    "l2": (search("ARRAY(1.0, 0.0, 0.0), 2, 'l2'"), [("east", 0.0), ("plane", (2 - 2 * ROOT2) ** 0.5)]),
    "the inner product is negated": (
        search("ARRAY(1.0, 0.0, 0.0), 3, 'dot_product'"),
        [("east", -1.0), ("plane", -ROOT2), ("space", -ROOT3)],
    ),
    "cosine unless said": (search("ARRAY(1.0, 0.0, 0.0), 3"), NEAREST),
    "a metric in capitals": (search("ARRAY(1.0, 0.0, 0.0), 3, 'COSINE'"), NEAREST),
    "euclidean": (search("ARRAY(1.0, 0.0, 0.0), 1, 'euclidean'"), [("east", 0.0)]),
    "inner_product": (search("ARRAY(1.0, 0.0, 0.0), 1, 'inner_product'"), [("east", -1.0)]),
    "the algorithm named": (search("ARRAY(1.0, 0.0, 0.0), 3, 'cosine', 'brute_force'"), NEAREST),
    "k of more rows than there are": (
        search("ARRAY(0.0, 1.0, 0.0), 100"),
        [("north", 0.0), ("plane", PLANE), ("space", SPACE), ("east", 1.0), ("up", 1.0)],
    ),
    "k as text": (search("ARRAY(1.0, 0.0, 0.0), '3'"), NEAREST),
    "k as BIGINT": (search("ARRAY(1.0, 0.0, 0.0), 3L"), NEAREST),
    "k computed": (search("ARRAY(1.0, 0.0, 0.0), 1 + 2"), NEAREST),
    "whole numbers as query": (search("ARRAY(1, 0, 0), 3"), NEAREST),
    "a cast query": (search("CAST(ARRAY(1, 0, 0) AS ARRAY<FLOAT>), 3"), NEAREST),
    "a query out of JSON": (search("from_json('[1.0, 0.0, 0.0]', 'array<double>'), 3"), NEAREST),
    "the column in capitals": (search("'conform_corpus', 'V', ARRAY(1.0, 0.0, 0.0), 3"), NEAREST),
    "the path of a table": (search("'{path}', 'v', ARRAY(1.0, 0.0, 0.0), 3"), NEAREST),
    "a zero query is at distance 1 of everything": (
        search("ARRAY(0.0, 0.0, 0.0), 5"),
        [(name, 1.0) for name in ("east", "north", "up", "plane", "space")],
    ),
    "l2 from the origin is the length": (
        search("ARRAY(0.0, 0.0, 0.0), 5, 'l2'"),
        [(name, 1.0) for name in ("east", "north", "up", "plane", "space")],
    ),
    "doubles": (search("'conform_double', 'v', ARRAY(1.0, 0.0, 0.0), 2"), [("a", 0.0), ("b", 1.0)]),
    "bytes, cosine": (
        search("'conform_byte', 'v', ARRAY(127.0, 0.0, 0.0), 3"),
        [("a", 0.0), ("b", 1 - 2 / 5**0.5), ("c", 1.0)],
    ),
    "bytes, l2": (
        search("'conform_byte', 'v', ARRAY(10.0, 0.0, 0.0), 3, 'l2'"),
        [("b", 5.0), ("c", 125**0.5), ("a", 117.0)],
    ),
    "bytes, inner product": (
        search("'conform_byte', 'v', ARRAY(10.0, 0.0, 0.0), 3, 'dot_product'"),
        [("a", -1270.0), ("b", -100.0), ("c", 0.0)],
    ),
    "rows without a vector": (search("'conform_null', 'v', ARRAY(1.0, 0.0, 0.0), 5"), [("a", 0.0), ("c", 1.0)]),
    "zero and opposite vectors": (
        search("'conform_zero', 'v', ARRAY(1.0, 0.0, 0.0), 3"),
        [("a", 0.0), ("z", 1.0), ("m", 2.0)],
    ),
    "vectors that are all the same": (
        search("'conform_same', 'v', ARRAY(1.0, 0.0, 0.0), 3"),
        [("a", 0.0), ("b", 0.0), ("c", 0.0)],
    ),
    "no rows": (search("'conform_none', 'v', ARRAY(1.0, 0.0, 0.0), 3"), []),
}


@pytest.mark.parametrize(("statement", "expected"), SINGLE.values(), ids=SINGLE)
def test_a_single_query(spark, path, function, statement, expected):
    found = answer(spark.sql(statement.format(f=function, path=path)))
    assert_rows(found, expected)
    distances = [row[1] for row in found]
    assert distances == sorted(distances)


BATCH = {
    "each query its own nearest": (
        "SELECT id, asked, _hudi_distance FROM {f}('conform_corpus', 'v', 'conform_named', 'question', 2, 'cosine')",
        [("east", "qx", 0.0), ("plane", "qx", PLANE), ("up", "qz", 0.0), ("space", "qz", SPACE)],
    ),
    "cosine unless said": (
        "SELECT id, asked, _hudi_distance FROM {f}('conform_corpus', 'v', 'conform_named', 'question', 1)",
        [("east", "qx", 0.0), ("up", "qz", 0.0)],
    ),
    "the algorithm named": (
        "SELECT id, asked FROM {f}('conform_corpus', 'v', 'conform_named', 'question', 1, 'l2', 'brute_force')",
        [("east", "qx"), ("up", "qz")],
    ),
    "columns of the same names": (
        "SELECT id, _hudi_query_id, _hudi_distance FROM {f}('conform_corpus', 'v', 'conform_asked', 'v', 1)",
        [("east", "qx", 0.0), ("up", "qz", 0.0)],
    ),
    "a table with itself": (
        "SELECT id, label, _hudi_query_id, _hudi_query_label FROM {f}('conform_corpus', 'v', 'conform_corpus', 'v', 1)",
        [
            (name, how, name, how)
            for name, how in (
                ("east", "axis"),
                ("north", "axis"),
                ("up", "axis"),
                ("plane", "between two"),
                ("space", "between three"),
            )
        ],
    ),
    "as many rows for each query": (
        "SELECT count(*) AS n FROM {f}('conform_corpus', 'v', 'conform_named', 'question', 100) GROUP BY _hudi_query_index",
        [(5,), (5,)],
    ),
    "queries without a vector": (
        "SELECT id, _hudi_query_id FROM {f}('conform_corpus', 'v', 'conform_null', 'v', 1)",
        [("east", "a"), ("north", "c")],
    ),
    "no queries": ("SELECT * FROM {f}('conform_corpus', 'v', 'conform_none', 'v', 2)", []),
    "no rows": ("SELECT * FROM {f}('conform_none', 'v', 'conform_asked', 'v', 2)", []),
    "a condition around it": (
        "SELECT id, asked FROM {f}('conform_corpus', 'v', 'conform_named', 'question', 5) WHERE _hudi_distance < 0.3",
        [("east", "qx"), ("plane", "qx"), ("up", "qz")],
    ),
}


@pytest.mark.parametrize(("statement", "expected"), BATCH.values(), ids=BATCH)
def test_a_batch(spark, path, function, statement, expected):
    name = function.replace("search", "search_batch")
    assert_rows(answer(spark.sql(statement.format(f=name))), expected)


def test_the_columns_of_hudi_come_in_its_order(spark, path):
    for rest, function in (
        ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 2)", "hudi_vector_search"),
        ("('conform_corpus', 'v', 'conform_asked', 'v', 2)", "hudi_vector_search_batch"),
    ):
        mine = spark.sql(f"SELECT * FROM {function}{rest}").schema
        theirs = spark.sql(f"SELECT * FROM {function}_native{rest}").schema
        assert [field.name for field in mine if field.name in theirs.names] == theirs.names
        for field in theirs:
            assert mine[field.name].dataType == field.dataType


def test_the_index_of_a_query_tells_the_queries_apart_and_is_no_number(spark, path, function):
    name = function.replace("search", "search_batch")
    found = spark.sql(
        f"SELECT asked, _hudi_query_index AS i FROM {name}('conform_corpus', 'v', 'conform_named', 'question', 3)"
    )
    pairs = {(row.asked, row.i) for row in found.collect()}
    assert len(pairs) == len({i for _, i in pairs}) == 2


WRONG = {
    "no such column": ("('conform_corpus', 'w', ARRAY(1.0, 0.0, 0.0), 3)", "'w'", "'w'"),
    "no such table": ("('conform_nowhere', 'v', ARRAY(1.0, 0.0, 0.0), 3)", "conform_nowhere", "conform_nowhere"),
    "a column that is no vector": ("('conform_corpus', 'label', ARRAY(1.0, 0.0, 0.0), 3)", "'label'", "'label'"),
    "an unknown metric": (
        "('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 3, 'manhattan')",
        "'manhattan'",
        "'manhattan'",
    ),
    "an unknown algorithm": (
        "('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 3, 'cosine', 'magic')",
        "search algorithm: 'magic'",
        "algorithm 'magic'",
    ),
    "an index that is not there": (
        "('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 3, 'cosine', 'hnsw')",
        "search algorithm: 'hnsw'",
        "algorithm 'hnsw' was asked for",
    ),
    "too few arguments": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0))", "expects 4-6 arguments", "'k' is missing"),
    "too many arguments": (
        "('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 3, 'cosine', 'brute_force', NULL, NULL, 'x')",
        "expects 4-6 arguments",
        "9 arguments were given",
    ),
    "k of 0": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 0)", "positive integer", "not 0"),
    "a negative k": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), -5)", "positive integer", "not -5"),
    "k with a fraction": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 2.5D)", "positive integer", "not 2.5"),
    "k of NULL": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), NULL)", "positive integer", "not NULL"),
    "k that is no number": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0), 'few')", "positive integer", "'few'"),
    "another dimension": ("('conform_corpus', 'v', ARRAY(1.0, 0.0, 0.0, 0.0, 0.0), 3)", "dimension (5)", "5 elements"),
    "a query that fits no row": (
        "('conform_double', 'v', ARRAY(1.0, 0.0, 0.0, 0.0, 0.0), 3)",
        "Failed to execute user defined function",
        "5 elements",
    ),
    "a column as query": ("('conform_corpus', 'v', v, 3)", "`v` cannot be resolved", "`v` cannot be resolved"),
    "NULL in the query": ("('conform_corpus', 'v', ARRAY(1.0, NULL, 0.0), 3)", "index 1 is null", "holds NULL"),
    "NULL as query": ("('conform_corpus', 'v', NULL, 3)", "must be an array", "is NULL"),
    "an empty query": ("('conform_corpus', 'v', ARRAY(), 3)", "not supported", "is empty"),
    "text as query": ("('conform_corpus', 'v', '[1.0, 0.0]', 3)", "must be an array", "must be an array"),
    "batch: no such table": (
        "_batch('conform_corpus', 'v', 'conform_nowhere', 'v', 2)",
        "conform_nowhere",
        "conform_nowhere",
    ),
    "batch: no such column": ("_batch('conform_corpus', 'v', 'conform_asked', 'w', 2)", "'w'", "'w'"),
    "batch: k of 0": ("_batch('conform_corpus', 'v', 'conform_asked', 'v', 0)", "positive integer", "not 0"),
    "batch: too few arguments": (
        "_batch('conform_corpus', 'v', 'conform_asked', 'v')",
        "5-7 arguments",
        "'k' is missing",
    ),
    "batch: an unknown metric": (
        "_batch('conform_corpus', 'v', 'conform_asked', 'v', 2, 'x')",
        "metric: 'x'",
        "metric 'x'",
    ),
    "batch: an unknown algorithm": (
        "_batch('conform_corpus', 'v', 'conform_asked', 'v', 2, 'l2', 'hnsw')",
        "algorithm: 'hnsw'",
        "algorithm 'hnsw'",
    ),
    "batch: another dimension": ("_batch('conform_corpus', 'v', 'conform_asked_wide', 'v', 2)", "(5)", "5"),
}


@pytest.mark.parametrize(("rest", "hudis", "ours"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_by_both(spark, path, rest, hudis, ours):
    suffix, rest = ("_batch", rest.removeprefix("_batch")) if rest.startswith("_batch") else ("", rest)
    with pytest.raises(Exception, match=r"(?s).") as theirs:
        spark.sql(f"SELECT * FROM hudi_vector_search{suffix}_native{rest}").collect()
    assert hudis in str(theirs.value)
    with pytest.raises(PySparkException) as mine:
        spark.sql(f"SELECT * FROM hudi_vector_search{suffix}{rest}").collect()
    assert ours in str(mine.value)


@pytest.mark.parametrize("difference", differences.VECTOR_SEARCH, ids=lambda each: each.name)
def test_the_differences_that_docs_list(spark, path, difference):
    native = difference.statement.replace("{f}_batch", "{f}_batch_native").replace("{f}(", "{f}_native(")
    assert_outcome(spark, native.format(f="hudi_vector_search"), difference.hudi)
    assert_outcome(spark, difference.statement.format(f="hudi_vector_search"), difference.here)


def test_own_columns_are_those_of_the_table(spark, path):
    assert own_columns(spark.table("conform_corpus")) == ["id", "v", "label"]
