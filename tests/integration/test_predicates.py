"""Filters through Spark's own parser and analyser: what is translated, handed to Spark, refused, and how fast."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType

from hudi_vector.errors import InvalidFilterError, UnknownColumnError
from hudi_vector.read.predicate.form import to_text
from hudi_vector.read.predicate.nodes import FALSE, TRUE, In, Literal
from hudi_vector.spark.catalyst.predicates import analyse_filter


@pytest.fixture(scope="module")
def schema(spark) -> StructType:
    ddl = (
        "id bigint, b boolean, y tinyint, i int, f float, d double, s string, bin binary, dt date, ts timestamp, "
        "tn timestamp_ntz, dec decimal(10,2), st struct<a:int,b:struct<c:string>,l:array<int>>, m map<string,int>, "
        "`odd name` int"
    )
    fields = json.loads(spark._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).json())
    vector = StructField("emb", ArrayType(FloatType(), False), True, {"hudi_type": "VECTOR(3)"})
    return StructType.fromJson(fields).add(vector)


@pytest.fixture
def settings(spark):
    """Set session settings for one test."""
    before = {}

    def put(key: str, value: object) -> None:
        before.setdefault(key, spark.conf.get(key, None))
        spark.conf.set(key, value)

    yield put
    for key, value in before.items():
        spark.conf.set(key, value) if value is not None else spark.conf.unset(key)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("ID = 5", "id = 5"),
        ("i > 2.5", "i > 2"),
        ("i = '5'", "i = 5"),
        ("d = double('NaN') or d = -0.0D or d < double('-inf')", "d = nan OR d = -0.0 OR d < -inf"),
        ("s = 'a\\n\\'\\\"é😀'", "s = 'a\n\\'\"é😀'"),
        ("s like 'a%' and s like '%b' and s like '%c%'",
         "startswith(s, 'a') AND endswith(s, 'b') AND contains(s, 'c')"),
        ("s like 'a_!%' escape '!'", "s LIKE 'a_!%' ESCAPE '!'"),
        ("s not like 'a_%' or s is null", "NOT (s LIKE 'a_%') OR s IS NULL"),
        ("bin = X'00FF'", "bin = X'00FF'"),
        ("dt between '1800-01-01' and date'9999-12-31'", "dt >= DATE '1800-01-01' AND dt <= DATE '9999-12-31'"),
        ("tn = '2024-01-01 01:00:00'", "tn = TIMESTAMP_NTZ '2024-01-01 01:00:00'"),
        ("dec > 1.5", "dec > 1.50"),
        ("dec > ID", "CAST(dec AS decimal128(22, 2)) > CAST(id AS decimal128(22, 2))"),
        ("st.a = 3 and st.b.c <=> 'x'", "st.a = 3 AND st.b.c <=> 'x'"),
        ("st is not null", "st IS NOT NULL"),
        ("`odd name` in (1, 2, null)", "`odd name` IN (1, 2, NULL)"),
        ("b and not (b <=> false)", "b AND NOT (b <=> FALSE)"),
        ("i + 1 > 3", "(i + 1) > 3"),
        ("i % 10 = 3", "(i % 10) = 3"),
        ("length(s) > 2 and isnan(f)", "length(s) > 2 AND isnan(f)"),
        ("if(b, i, y) = 3", "CASE WHEN b THEN i ELSE CAST(y AS int32) END = 3"),
        ("case when b then i = 1 when i = 2 then true end",
         "CASE WHEN b THEN i = 1 WHEN i = 2 THEN TRUE ELSE FALSE END"),
        ("coalesce(i, 3) = 3", "coalesce(i, 3) = 3"),
        ("i is distinct from 3", "NOT (i <=> 3)"),
        ("dt = tn", "CAST(dt AS timestamp[us]) = tn"),
        ("i=3 -- a comment", "i = 3"),
    ],
)  # fmt: skip
def test_translated(spark, schema, text, meaning):
    found = analyse_filter(spark, schema, text)
    assert found.reason is None
    assert to_text(found.predicate) == meaning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", TRUE), ("1 = 1", TRUE), ("false", FALSE), ("1 > 2", FALSE), ("NULL", FALSE), ("null = 1", FALSE),
        ("y > 300", FALSE), ("i > 1 and not (i > 1)", FALSE),
    ],
)  # fmt: skip
def test_constant(spark, schema, text, expected):
    assert analyse_filter(spark, schema, text).predicate == expected


@pytest.mark.parametrize(
    ("text", "named", "columns"),
    [
        ("lower(s) = 'x'", "Lower", ("s",)),
        ("s rlike 'a.*' and i = 1", "RLike", ("i", "s")),
        ("size(emb) > 2", "emb", ("emb",)),
        ("emb is not null", "emb", ("emb",)),
        ("st.l[0] = 1", "l", ("st",)),
        ("m['a'] = 1", "m", ("m",)),
        ("cast(s as int) = 3", "CAST", ("s",)),
        ("d / 2 = 1", "Divide", ("d",)),
        ("s = cast(X'ff' as string)", "UTF-8", ("s",)),
        ("st = named_struct('a', 1, 'b', named_struct('c', 'x'), 'l', array(1))", "", ("st",)),
        ("try_add(i, 1) > 3", "mode", ("i",)),
        ("i % id = 0", "%", ("i", "id")),
        ("s like s", "LIKE", ("s",)),
        ("dec > 1.5D", "CAST", ("dec",)),
        ("s || 'a' = 'ba'", "Concat", ("s",)),
    ],
)
def test_handed_to_spark_with_the_reason(spark, schema, text, named, columns):
    found = analyse_filter(spark, schema, text)
    assert found.predicate is None
    assert named in found.reason
    assert "Spark only" in found.reason
    assert found.columns == columns


@pytest.mark.parametrize(
    "text",
    [
        "", "i =", "i = 1 and", "i = 1 foo", "i = 1 as x", "i=3) or (1=1", "i = 3; drop table x", "i=3 limit 3", "`",
        "i", "1", "s", "sum(i) > 3", "explode(emb) > 3", "row_number() over (order by i) > 3", "i in (select 1)",
        "exists (select 1)", "i = (select 1)", "rand() > 0.5", "uuid() = 'a'", "i = monotonically_increasing_id()",
        "nofunc(i)", "st.z = 1", "lower(s, s) = 'a'", "emb = 'a'", "s like 'a!b' escape '!'", "b = 'x",
    ],
)  # fmt: skip
def test_refused_in_one_sentence(spark, schema, text):
    with pytest.raises(InvalidFilterError) as refused:
        analyse_filter(spark, schema, text)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 300
    assert "LogicalRDD" not in message
    assert refused.value.__cause__ is None


def test_unknown_column_names_the_nearest(spark, schema):
    with pytest.raises(UnknownColumnError, match="column 'decc' does not exist in 'shop'; did you mean 'dec'"):
        analyse_filter(spark, schema, "decc > 3", table="shop")


def test_columns_are_top_level_and_sorted(spark, schema):
    assert analyse_filter(spark, schema, "st.b.c = 'x' or (s = 'y' and i > 1)").columns == ("i", "s", "st")


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([str(n) for n in range(12)], "i", list(range(12))),
        (["'a'", "'b\\n'", "''", "'null'", "'é,😀'", *[f"'{n}'" for n in range(10)]], "s",
         ["a", "b\n", "", "null", "é,😀", *[str(n) for n in range(10)]]),
        (["double('NaN')", "double('inf')", "-0.5D", *[f"{n}D" for n in range(10)]], "d",
         [float("nan"), float("inf"), -0.5, *map(float, range(10))]),
        ([f"X'{n:02x}FF'" for n in range(12)], "bin", [bytes([n, 255]) for n in range(12)]),
        ([f"date'0001-01-{n:02d}'" for n in range(1, 13)], "dt", [-719162 + n for n in range(12)]),
        ([f"timestamp'1970-01-01 00:00:{n:02d}Z'" for n in range(12)], "ts", [n * 10**6 for n in range(12)]),
        ([f"{n}.25BD" for n in range(12)], "dec", [Decimal(f"{n}.25") for n in range(12)]),
    ],
)  # fmt: skip
def test_long_lists_arrive_whole(spark, schema, values, name, expected):
    for listed, wanted in ((values, expected), ([*values, "null"], [*expected, None])):
        found = analyse_filter(spark, schema, f"{name} in ({', '.join(listed)})").predicate
        assert isinstance(found, In)
        assert sorted(map(repr, (literal.value for literal in found.values))) == sorted(map(repr, wanted))


def test_instants_in_the_repeated_hour_of_autumn(spark, schema, settings):
    settings("spark.sql.session.timeZone", "Europe/Berlin")
    instants = []
    for clock in ("00:30:00Z", "01:30:00Z"):  # both are 02:30 in Berlin
        found = analyse_filter(spark, schema, f"ts = timestamp'2024-10-27 {clock}'").predicate
        instants.append(found.right.value)
    assert instants[1] - instants[0] == 3_600_000_000


def test_settings_are_part_of_the_meaning(spark, schema, settings):
    text = "ts > '2024-01-01 00:00:00'"
    settings("spark.sql.session.timeZone", "UTC")
    utc = analyse_filter(spark, schema, text)
    settings("spark.sql.session.timeZone", "Asia/Tokyo")
    tokyo = analyse_filter(spark, schema, text)
    assert utc.predicate.right.value - tokyo.predicate.right.value == 9 * 3_600_000_000
    settings("spark.sql.ansi.enabled", "true")
    assert analyse_filter(spark, schema, "i + 1 > 3").predicate is None
    settings("spark.sql.ansi.enabled", "false")
    assert analyse_filter(spark, schema, "i + 1 > 3").predicate is not None


def test_literals_are_read_in_the_zone_of_the_session_that_asks(spark, schema):
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    text = "ts > timestamp'2024-01-01 00:00:00'"
    here, there = analyse_filter(spark, schema, text), analyse_filter(other, schema, text)
    assert here.predicate.right.value - there.predicate.right.value == 9 * 3_600_000_000
    assert spark._jvm.SparkSession.getActiveSession().get().sessionUUID() == spark._jsparkSession.sessionUUID()


def test_ansi_errors_are_one_sentence(spark, schema, settings):
    settings("spark.sql.ansi.enabled", "true")
    with pytest.raises(InvalidFilterError) as refused:
        analyse_filter(spark, schema, "i = 'abc'")
    assert "\n" not in str(refused.value)


def test_clock_is_read_each_time(spark, schema):
    first = analyse_filter(spark, schema, "ts > current_timestamp()")
    second = analyse_filter(spark, schema, "ts > current_timestamp()")
    assert second.predicate.right.value > first.predicate.right.value
    assert analyse_filter(spark, schema, "i = 77") is analyse_filter(spark, schema, "i = 77")


def test_columns_declared_not_null_may_be_null_in_files(spark):
    schema = StructType([StructField("x", FloatType(), nullable=False)])
    assert to_text(analyse_filter(spark, schema, "x is null").predicate) == "x IS NULL"


def test_deep_and_wide_texts(spark, schema):
    chain = " or ".join(f"(i = {n} and s = '{n}')" for n in range(300))
    assert analyse_filter(spark, schema, chain).predicate is not None


def test_no_job_and_little_time(spark, schema):
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("analyse", "analyse")
    taken = []
    for number in range(40):
        started = time.perf_counter()
        analyse_filter(spark, schema, f"i > {number} and s like 'a%{number}' or dec < {number}.5")
        taken.append(time.perf_counter() - started)
    assert list(tracker.getJobIdsForGroup("analyse")) == []
    spark.sparkContext._jsc.clearJobGroup()
    median = sorted(taken[20:])[10]
    print(f"analyse_filter: {median * 1000:.1f} ms warm")
    assert median < 0.25  # about 20 ms on an idle machine


def test_literal_types_are_the_columns(spark, schema):
    for name, data_type in (("y", pa.int8()), ("f", pa.float32()), ("dec", pa.decimal128(10, 2)), ("dt", pa.date32())):
        found = analyse_filter(spark, schema, f"{name} = {'current_date()' if name == 'dt' else 1}").predicate
        sides = (found.left, found.right)
        assert {side.result_type() for side in sides} == {data_type}
        assert any(isinstance(side, Literal) for side in sides)


def test_a_filter_travels(spark, schema):
    import pickle

    found = analyse_filter(spark, schema, "i = 1 and st.a in (1, 2)")
    assert pickle.loads(pickle.dumps(found)) == found
    assert SimpleNamespace(**vars(found)).columns == ("i", "st")
