"""The text front end: what it accepts, and what it refuses in one sentence."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from hudi_vector.errors import HudiVectorError, InvalidFilterError, UnknownColumnError
from hudi_vector.read.predicate.form import evaluate, parse, to_text

SCHEMA = pa.schema(
    {
        "Id": pa.int32(),
        "big": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "dec": pa.decimal128(10, 2),
        "wide": pa.decimal128(38, 30),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "wall": pa.timestamp("us"),
        "raw": pa.binary(),
        "st": pa.struct({"A": pa.int32(), "in": pa.struct({"b": pa.string()})}),
        "emb": pa.list_(pa.float32()),
        "twice": pa.int32(),
        "TWICE": pa.int32(),
        "date": pa.date32(),
    }
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("id=1", "Id = 1"),
        ("ID == 1 AND `big` != 2", "Id = 1 AND big <> 2"),
        ("id > 2.5", "CAST(Id AS decimal128(21, 1)) > 2.5"),
        ("id > 1e1", "CAST(Id AS double) > 10.0"),
        ("id < 3000000000", "CAST(Id AS int64) < 3000000000"),
        ("5 < id", "Id > 5"),
        ("id = -5 or id = + 5", "Id = -5 OR Id = 5"),
        ("not id = 1 and flag", "Id <> 1 AND flag"),
        ("not not flag", "NOT (NOT flag)"),
        ("id = 1 or id = 2 and id = 3", "Id = 1 OR (Id = 2 AND Id = 3)"),
        ("id between 1 and 3 and flag", "Id >= 1 AND Id <= 3 AND flag"),
        ("id not between 1 and 3", "NOT (Id >= 1 AND Id <= 3)"),
        ("id not in (1, 2)", "NOT (Id IN (1, 2))"),
        ("name not like 'a%'", "NOT (name LIKE 'a%')"),
        ("name is null or name is not null", "name IS NULL OR name IS NOT NULL"),
        ("dec = 1", "dec = 1"),
        ("dec > 1.234", "CAST(dec AS decimal128(11, 3)) > 1.234"),
        ("d = 1.5D", "d = 1.5"),
        ("f = 0.1", "CAST(f AS double) = 0.1"),
        ("f = 2", "f = 2.0"),
        ("day = '2024-02-29'", "day = DATE '2024-02-29'"),
        ("date > date '2024-01-01'", "date > DATE '2024-01-01'"),
        ("at in (timestamp '2024-01-01 00:00:00+01:00')", "at IN (TIMESTAMP '2023-12-31 23:00:00Z')"),
        ("at < timestamp '2024-01-01 00:00:00+18:00'", "at < TIMESTAMP '2023-12-31 06:00:00Z'"),
        ("at < timestamp '2024-01-01 00:00:00-18:00'", "at < TIMESTAMP '2024-01-01 18:00:00Z'"),
        ("at in (timestamp '2024-01-01')", "at = TIMESTAMP '2024-01-01 00:00:00'"),
        ("st.a = 1 and ST.IN.B = 'x'", "st.A = 1 AND st.in.b = 'x'"),
        ("id <=> null", "Id <=> NULL"),
        ("id = big", "CAST(Id AS int64) = big"),
        ("f < d", "CAST(f AS double) < d"),
        ("isnan(d)", "isnan(d)"),
        ("length(name) > 3", "length(name) > 3"),
        ("true", "TRUE"),
        ("1 = 1", "TRUE"),
        ("null", "NULL"),
        ("1 < 0.5", "FALSE"),
        ("((flag))", "flag"),
        ("(id = 1) = true", "(Id = 1) = TRUE"),
        ("raw = X''", "raw = X''"),
        ("name = '\\u00e9\\n\\%'", "name = 'é\n\\\\%'"),
        ("name = '\\012'", "name = '\n'"),
        ("name = '\\101\\1012'", "name = 'AA2'"),
        ("name = '\\0' or name = '\\09'", "name = '\0' OR name = '\x009'"),
        ("emb is not null", "emb IS NOT NULL"),
    ],
)
def test_accepted(text, meaning):
    assert to_text(parse(text, SCHEMA)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "id =", "id = 1 and", "id = 1 id", "id = 1)", "(id = 1", "id", "1", "name", "id = 'x'", "name = 5",
        "flag = 1", "day = '2024-2-1'", "day = '2024-02-30'", "day = '2024-01-01 10:00:00'",
        "day > timestamp '2024-01-01'",
        "at > date '2024-01-01'", "at = '2024-01-01 25:00:00'", "at in ('2024-01-01')",
        "at < timestamp '2024-01-01 00:00:00+18:01'", "at < timestamp '2024-01-01 00:00:00-99:99'",
        "at < '2024-01-01 00:00:00+10:60'", "wall = timestamp '2024-01-01'",
        "wall = '2024-01-01 00:00:00Z'", "dec = 1.5D", "wide = 1000000000", "f = 16777217", "id in (1.5)", "id in ()",
        "id in (big)", "id = 99999999999999999999", "id like 'a'", "name like 5", "name like 'a!b' escape '!'",
        "name like 'a' escape '!!'", "name = 'a''b'", "name = 'a' 'b'", 'name = "a"', "name = 'a", "id = 1; drop",
        "id = 1 -- c", "id = = 1", "id = 1 = 1", "id = 5S", "id = 1.5L", "rand() > 0.5", "upper(id) = 'A'", "twice = 1",
        "emb = 1", "st = 1", "id is true", "day = 5", "f = id",
        "id + 1 = 2", "raw = 'x'", "raw = X'0'",
        "date 'today' = day",
        "d < " + "9" * 39, "id < " + "9" * 400, "d < 1e99999999999999999999BD", "d < 0." + "1" * 39,
        "name = '\ud800'", "name like '\ud800%'",
        "name = '\\ud83d'", "name = '\\1'", "3 is null", "not", "not id", "id not 5", "st.A.b = 1", "1 = 'a'",
        "date '2024-01-01' = date '2024-01-01'", "(" * 200 + "flag" + ")" * 200, "not " * 200 + "flag", "day = name",
        "name = '\\201'", "lower(" * 1000 + "name" + ")" * 1000 + " = 'a'",
    ],
)  # fmt: skip
def test_refused_in_one_line(text):
    with pytest.raises(InvalidFilterError) as refused:
        parse(text, SCHEMA)
    assert len(str(refused.value)) < 700 + len(text)


@pytest.mark.parametrize("text", ["nme = 'x'", "st.c = 1", "`a b` = 1", "flagg"])
def test_unknown_names(text):
    with pytest.raises(UnknownColumnError, match="does not exist"):
        parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("st.c = 1", "field 'c' does not exist in the struct 'st'; its fields are A, in"),
        ("ST.IN.bb = 1", "field 'bb' does not exist in the struct 'st.in'; did you mean 'b'?"),
        ("st.in.b.c = 1", "'st.in.b' is of type string and has no field 'c'"),
    ],
)
def test_a_field_that_is_not_there_is_named_with_its_struct(text, sentence):
    with pytest.raises(HudiVectorError) as refused:
        parse(text, SCHEMA)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("text", "word"), [("name ilike 'a%'", "ilike"), ("id = 1 and name rlike 'a'", "rlike"), ("(id + 1) = 3", "+")]
)
def test_an_operator_that_is_not_there_is_named(text, word):
    with pytest.raises(
        InvalidFilterError, match=f"has '{re.escape(word)}' at position .*, where a comparison, IS, IN, BETWEEN, LIKE"
    ):
        parse(text, SCHEMA)


def test_errors_are_also_value_errors():
    with pytest.raises(ValueError, match="position 6"):
        parse("id = = 1", SCHEMA)
    assert issubclass(InvalidFilterError, HudiVectorError)


def test_long_chains_are_flat():
    text = " or ".join(f"id = {number}" for number in range(5000))
    mask = evaluate(parse(text, SCHEMA), pa.record_batch({"Id": pa.array([4999, 5000], pa.int32())}), "UTC")
    assert mask.tolist() == [True, False]
