"""A statement's own cost: the calls between Python and the JVM, and what is read from one text in place of many calls."""

from __future__ import annotations

import numpy as np
import pytest
from py4j.java_gateway import JavaObject
from pyspark.errors import AnalysisException
from support import tables
from support.jvm_calls import calls_of

import hudi_vector as hv
from hudi_vector.errors import InvalidArgumentError, InvalidOptionError
from hudi_vector.spark.catalyst.arguments import constant, named_and_placed
from hudi_vector.spark.catalyst.gateway import function_builder
from hudi_vector.spark.catalyst.handles import handles_of
from hudi_vector.spark.catalyst.printed import UNKNOWN, Expressions, Printed, printed_arguments
from hudi_vector.spark.catalyst.settings import one_step, session_settings, time_zone
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage.settings import HADOOP_KEYS

MOST = 40
WARM = 2


@pytest.fixture(scope="module")
def table(spark, workspace):
    path = tables.fresh_path(workspace)
    tables.write(tables.frame(spark, range(40)), path, datasource__write__operation="bulk_insert")
    name = tables.fresh_name()
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    return name, str(path)


def queries():
    return iter(np.random.default_rng(5).standard_normal((20, 8)).round(3).tolist())


def array(query):
    return "ARRAY(" + ", ".join(f"{x!r}D" for x in query) + ")"


@pytest.mark.parametrize(
    "arguments",
    [
        "'{path}', 'emb', {query}, 3, 'cosine'",
        "'{name}', 'emb', {query}, 3",
        "table => '{path}', embedding_col => 'emb', query_vector => {query}, k => 3, filter => 'price < 5000'",
        "'{path}', 'emb', from_json('{json}', 'array<double>'), 3",
    ],
)
def test_a_warm_statement_takes_few_calls(spark, table, arguments):
    asked = queries()

    def run():
        query = next(asked)
        given = arguments.format(name=table[0], path=table[1], query=array(query), json=query)
        return spark.sql(f"SELECT id, name, _distance FROM hudi_vector_search({given})").collect()

    for _ in range(WARM):
        run()
    with calls_of(spark) as calls:
        assert len(run()) == 3
    assert len(calls.asked) + calls.called_back <= MOST, calls.asked


@pytest.mark.parametrize(("reads", "most"), [(1, 105), (2, 180)])
def test_a_warm_statement_that_reads_blobs_takes_a_bounded_number_of_calls(spark, reads, most):
    columns = ", ".join(f"read_blob(blob_ref('/none/{place}')) AS bytes{place}" for place in range(reads))
    for warm in range(WARM):
        spark.sql(f"SELECT {columns}, {warm} AS number")
    with calls_of(spark) as calls:
        spark.sql(f"SELECT {columns}, {WARM} AS number")
    assert len(calls.asked) + calls.called_back <= most, len(calls.asked) + calls.called_back


@pytest.mark.parametrize("columns", [None, ["id"], ["id", "name", "price", "category", "_rank"]])
def test_a_warm_search_of_python_takes_few_calls(spark, table, columns):
    asked = queries()

    def run():
        return hv.search(spark, table[1], "emb", next(asked), 3, columns=columns).collect()

    for _ in range(WARM):
        run()
    with calls_of(spark) as calls:
        assert len(run()) == 3
    assert len(calls.asked) + calls.called_back <= MOST, calls.asked


def test_the_settings_of_other_storage_take_few_calls(spark, clean_session):
    spark.conf.set("fs.s3a.endpoint", "http://one -> two")
    wanted = dict(storage_options(spark, "s3a://bucket/t").values)
    found = spark._jsparkSession.sessionState().newHadoopConf().getValByRegex(HADOOP_KEYS)
    assert {key: wanted[key] for key in found} == dict(found)
    assert wanted["fs.s3a.endpoint"] == "http://one -> two"
    with calls_of(spark) as calls:
        assert dict(storage_options(spark, "s3a://bucket/t").values) == wanted
    assert len(calls.asked) <= 10, calls.asked


def test_long_texts_of_the_jvm_are_not_held_back(spark):
    """Nagle's algorithm would hold the end of each answer above 8 KB back by 40 ms, three times for 768 elements."""
    gateway, seen = spark.sparkContext._gateway, []

    def plan(session, expressions):
        server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
        seen.append(server.getCallbackClient().getPerThreadConnection().getSocket().getTcpNoDelay())
        raise InvalidArgumentError("looked")

    handles_of(spark)
    for _ in range(2):
        with pytest.raises(AnalysisException, match="probe: looked"):
            function_builder(gateway, "probe", plan).apply(None)
    assert seen == [True, True]


def test_settings_between_two_statements_and_of_two_sessions_are_seen(spark, table):
    query = array(next(queries()))
    statement = f"SELECT * FROM hudi_vector_search('{table[1]}', 'emb', {query}, 3)"
    other = spark.newSession()
    assert spark.sql(statement).columns[-2:] == ["_distance", "_hudi_distance"]
    spark.conf.set("hoodie.vector.search.distance.columns", "_distance")
    try:
        assert spark.sql(statement).columns[-2:] == ["category", "_distance"]
        assert other.sql(statement).columns[-2:] == ["_distance", "_hudi_distance"]
        spark.conf.set("hoodie.vector.serch.mode", "exact")
        with pytest.raises(Exception, match=r"'hoodie\.vector\.serch\.mode' is no setting"):
            spark.sql(statement)
        with pytest.raises(InvalidOptionError, match=r"hoodie\.vector\.serch\.mode"):
            hv.search(spark, table[1], "emb", [1.0] * 8)
    finally:
        spark.conf.unset("hoodie.vector.search.distance.columns")
        spark.conf.unset("hoodie.vector.serch.mode")
    assert spark.sql(statement).columns[-2:] == ["_distance", "_hudi_distance"]


def test_all_settings_come_as_they_are(spark):
    odd = {"my.first": "a, b.c=d -> e\n", "my.second": "", "my.third": "{x} \U0001f600 \\'"}
    for key, value in odd.items():
        spark.conf.set(key, value)
    try:
        found = session_settings(spark)
        assert {key: found[key] for key in odd} == odd
        assert all(spark.conf.get(key) == value for key, value in found.items() if key.startswith("spark.sql."))
        with one_step():
            session_settings(spark)
            spark.conf.unset("my.first")
            assert session_settings(spark)["my.first"] == odd["my.first"], "a step has the settings of its beginning"
        assert "my.first" not in session_settings(spark)
    finally:
        for key in odd:
            spark.conf.unset(key)


def test_the_time_zone_is_that_of_the_session_or_of_the_jvm(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("Europe/Lisbon", "Asia/Kathmandu"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            assert time_zone(spark) == zone
        spark.conf.unset("spark.sql.session.timeZone")
        assert time_zone(spark) == spark.conf.get("spark.sql.session.timeZone")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


PRINTED = (
    "'a'", r"'it\'s \\ \"b\" `c`, (d) => 1'", "'two\nlines'", "''", "'array('", "7", "-7", "9L", "0.5", "-0.25", "2.0",
    "12BD", "0.00000001", "1.5D", "-1e-9D", "1e20D", "123456789012D", "ARRAY(1, 2)", "ARRAY(0.5D, -1e-7D, 3D)",
    "ARRAY(0.5, -0.25, 1234.5)", "ARRAY(1, 0.5)", "ARRAY(1, 2.5D)", "ARRAY(9007199254740993L, 0.5D)",
    "ARRAY(0.1, 2e3)", "ARRAY(12S, 0.5D, 1Y)", "ARRAY(0.12345678901234567890123, 1)", "'x\u00e9\U0001f600'",
)  # fmt: skip
OTHER = (
    "NULL", "true", "ARRAY()", "ARRAY(NULL)", "ARRAY(1, NULL)", "ARRAY('a')", "ARRAY(1F)", "1F", "ARRAY(ARRAY(1))",
    "ARRAY(CAST(2.7 AS DECIMAL(2,0)), 1.5)", "CAST('NaN' AS DOUBLE)", "ARRAY(CAST('NaN' AS DOUBLE))", "(SELECT 1)",
    "upper('a)')", "MAP('a', 1)", "STRUCT(1)", "CAST(1.5 AS DOUBLE)", "from_json('[0.5, 1]', 'array<double>')",
    "ARRAY(0.5, upper('b'))", "CAST(CAST('1' AS INT) AS DECIMAL(9,2))",
)  # fmt: skip
UNCLEAR = ("id", "ARRAY(id)", "+5", "1 + 1", "X'00'", "3S", "DATE'2024-01-01'", "INTERVAL 1 DAY", "1 > 2")


def expressions_of(spark, texts):
    """The analysed expressions of SQL texts, as Spark hands them to a function."""
    frame = spark.range(1).selectExpr(*(f"{text} AS a{place}" for place, text in enumerate(texts)))
    projected = frame._jdf.queryExecution().analyzed().projectList()
    return [projected.apply(place).child() for place in range(projected.length())]


def test_printed_constants_are_those_that_spark_evaluates(spark):
    found = expressions_of(spark, PRINTED)
    printed = printed_arguments(Expressions(handles_of(spark).sequence(found)))
    assert printed is not None
    for text, expression, (_, ours) in zip(PRINTED, found, printed, strict=True):
        theirs = constant(expression, "argument")
        assert type(ours) is type(theirs), text
        assert np.array_equal(ours, theirs), text
        assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None), text


def test_an_argument_of_another_form_is_asked_for_by_itself(spark):
    found = expressions_of(spark, OTHER)
    known = expressions_of(spark, ["'t'", "5"])
    for text, expression in zip(OTHER, found, strict=True):
        given = Expressions(handles_of(spark).sequence([known[0], expression, known[1]]))
        printed = printed_arguments(given)
        assert printed == [(None, "t"), (None, UNKNOWN), (None, 5)], text
        first, (_, asked), last = named_and_placed(given)
        assert (first, last) == ((None, Printed("t")), (None, Printed(5)))
        assert asked.equals(expression)


def test_a_text_that_is_not_understood_leaves_all_to_be_asked_for(spark):
    known = expressions_of(spark, ["'t'", "5"])
    for text, expression in zip(UNCLEAR, expressions_of(spark, UNCLEAR), strict=True):
        given = Expressions(handles_of(spark).sequence([known[0], expression, known[1]]))
        assert printed_arguments(given) is None, text
        assert [asked.sql() for _, asked in named_and_placed(given)] == ["'t'", expression.sql(), "5"]


def test_names_of_arguments_are_found(spark):
    texts = ["'t'", "'k => 5'", "ARRAY(1.5, 2)", "true", "'a\x1eb'"]
    values = expressions_of(spark, texts)
    java = handles_of(spark)
    named = java.named("org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression")
    given = [values[0], named("Filter", values[1]), named("query_vector", values[2]), named("x", values[3])]
    arguments = named_and_placed(Expressions(java.sequence(given)))
    assert [name for name, _ in arguments] == [None, "Filter", "query_vector", "x"]
    assert [argument.value for _, argument in arguments[:2]] == ["t", "k => 5"]
    assert arguments[3][1].equals(values[3])
    hidden = [values[0], named("filter", values[4])]
    assert printed_arguments(Expressions(java.sequence(hidden))) is None, "the text holds the sign between two others"
