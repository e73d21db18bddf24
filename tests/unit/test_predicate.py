"""Every node of the pure form, on rows chosen to tell right from nearly right; no Spark."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.errors import InvalidFilterError, UnknownColumnError
from hudi_vector.read.predicate.form import columns, conjuncts, evaluate, parse, restrict, to_text
from hudi_vector.read.predicate.nodes import (
    FALSE,
    NULL,
    TRUE,
    And,
    Arithmetic,
    CaseWhen,
    Cast,
    ChangeCase,
    Coalesce,
    Column,
    Compare,
    In,
    IsNan,
    IsNull,
    Length,
    Like,
    Literal,
    LocalTimestamp,
    Match,
    Not,
    Or,
)

NAN, INF = float("nan"), float("inf")
INSTANT = pa.timestamp("us", tz="UTC")


def kept(predicate, column: pa.Array, zone: str = "UTC") -> list[bool]:
    return evaluate(predicate, pa.record_batch({"x": column}), zone).tolist()


def col(data_type: pa.DataType) -> Column:
    return Column("x", data_type)


def lit(value: object, data_type: pa.DataType) -> Literal:
    return Literal(value, data_type)


class TestComparisons:
    FLOATS = pa.array([1.0, NAN, None, INF, -INF, -0.0, 0.0])

    @pytest.mark.parametrize(
        ("op", "value", "expected"),
        [
            ("=", NAN, [0, 1, 0, 0, 0, 0, 0]),
            (">", 1.0, [0, 1, 0, 1, 0, 0, 0]),
            (">=", NAN, [0, 1, 0, 0, 0, 0, 0]),
            ("<", NAN, [1, 0, 0, 1, 1, 1, 1]),
            ("<=", NAN, [1, 1, 0, 1, 1, 1, 1]),
            (">", INF, [0, 1, 0, 0, 0, 0, 0]),
            ("=", 0.0, [0, 0, 0, 0, 0, 1, 1]),
            ("<", 0.0, [0, 0, 0, 0, 1, 0, 0]),
            ("<=>", NAN, [0, 1, 0, 0, 0, 0, 0]),
            ("<=>", None, [0, 0, 1, 0, 0, 0, 0]),
            ("=", None, [0, 0, 0, 0, 0, 0, 0]),
        ],
    )
    @pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
    def test_floats_order_nan_last_and_zeros_alike(self, op, value, expected, data_type):
        node = Compare(op, col(data_type), lit(value, data_type))
        assert kept(node, self.FLOATS.cast(data_type)) == [bool(flag) for flag in expected]

    @pytest.mark.parametrize(
        ("op", "expected"),
        [
            ("=", [False, True, False, False]),
            ("<", [True, False, False, False]),
            ("<=", [True, True, False, False]),
            (">", [False, False, True, False]),
            (">=", [False, True, True, False]),
            ("<=>", [False, True, False, False]),
        ],
    )
    @pytest.mark.parametrize(
        ("data_type", "values"),
        [
            (pa.int8(), [-128, 0, 127]),
            (pa.int64(), [-(2**63), 0, 2**63 - 1]),
            (pa.string(), ["a", "é", "\U0001f600"]),
            (pa.string(), ["\uffff", "\U00010000", "\U0010ffff"]),  # UTF-16 would order these otherwise
            (pa.binary(), [b"\x00", b"\x7f\xff", b"\x80"]),
            (pa.date32(), [-700000, 0, 2**31 - 1]),
            (INSTANT, [-(10**17), 0, 10**17]),
            (pa.timestamp("us"), [-1, 0, 1]),
            (pa.decimal128(38, 10), [Decimal("-1"), Decimal("0.0000000001"), Decimal("9999999999999999999999999999")]),
        ],
    )
    def test_ordered_types(self, op, expected, data_type, values):
        column = pa.array([*values, None], data_type)
        assert kept(Compare(op, col(data_type), lit(values[1], data_type)), column) == expected

    def test_booleans_order_false_first(self):
        column = pa.array([True, False, None])
        assert kept(Compare("<", col(pa.bool_()), TRUE), column) == [False, True, False]
        assert kept(col(pa.bool_()), column) == [True, False, False]

    def test_two_columns(self):
        rows = pa.table({"a": [1.0, NAN, None, NAN], "b": [1.0, NAN, None, 2.0]})
        same = Compare("<=>", Column("a", pa.float64()), Column("b", pa.float64()))
        larger = Compare(">", Column("a", pa.float64()), Column("b", pa.float64()))
        assert evaluate(same, rows, "UTC").tolist() == [True, True, True, False]
        assert evaluate(larger, rows, "UTC").tolist() == [False, False, False, True]


class TestLogic:
    ROWS = pa.table({"a": [True, True, True, False, False, False, None, None, None], "b": [True, False, None] * 3})
    A, B = Column("a", pa.bool_()), Column("b", pa.bool_())

    def value(self, node) -> list[object]:
        true = evaluate(node, self.ROWS, "UTC")
        null = evaluate(IsNull(node), self.ROWS, "UTC")
        return [None if n else bool(t) for t, n in zip(true, null, strict=True)]

    def test_three_truth_values(self):
        assert self.value(And((self.A, self.B))) == [True, False, None, False, False, False, None, False, None]
        assert self.value(Or((self.A, self.B))) == [True, True, True, True, False, None, True, None, None]
        assert self.value(Not(self.A)) == [False] * 3 + [True] * 3 + [None] * 3

    def test_constants_stand_for_every_row(self):
        for node, expected in ((TRUE, True), (FALSE, False), (NULL, False), (Not(NULL), False), (IsNull(NULL), True)):
            assert evaluate(node, self.ROWS, "UTC").tolist() == [expected] * 9
        assert evaluate(TRUE, self.ROWS.slice(0, 0), "UTC").tolist() == []

    def test_result_is_a_numpy_mask(self):
        mask = evaluate(self.A, self.ROWS, "UTC")
        assert mask.dtype == np.bool_
        assert mask.shape == (9,)


class TestIn:
    def test_null_in_the_list_leaves_the_rest_unknown(self):
        node = In(col(pa.int64()), (lit(1, pa.int64()), lit(None, pa.int64())))
        column = pa.array([1, 2, None])
        assert kept(node, column) == [True, False, False]
        assert kept(Not(node), column) == [False, False, False]
        assert kept(IsNull(node), column) == [False, True, True]

    def test_without_null(self):
        node = In(col(pa.string()), (lit("a", pa.string()), lit("b", pa.string())))
        assert kept(Not(node), pa.array(["a", "c", None])) == [False, True, False]

    @pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
    def test_floats(self, data_type):
        column = pa.array([NAN, 0.0, -0.0, 1.5, None], data_type)
        assert kept(In(col(data_type), (lit(NAN, data_type),)), column) == [True, False, False, False, False]
        assert kept(In(col(data_type), (lit(-0.0, data_type),)), column) == [False, True, True, False, False]
        assert kept(Not(In(col(data_type), (lit(1.5, data_type),))), column) == [True, True, True, False, False]

    def test_floats_are_looked_up_as_floats(self):
        node = In(col(pa.float32()), (lit(0.1, pa.float32()), lit(3.4e38, pa.float32())))
        assert kept(node, pa.array([0.1, 3.4e38, 0.2], pa.float32())) == [True, True, False]

    @pytest.mark.parametrize(
        ("data_type", "value"),
        [(pa.bool_(), True), (pa.binary(), b"\xff"), (pa.date32(), 3), (INSTANT, 7), (pa.decimal128(5, 2), Decimal(1))],
    )
    def test_other_types(self, data_type, value):
        assert kept(In(col(data_type), (lit(value, data_type),)), pa.array([value, None], data_type)) == [True, False]


class TestText:
    def like(self, pattern: str, texts: list[str | None], escape: str = "\\") -> list[bool]:
        return kept(Like(col(pa.string()), pattern, escape), pa.array(texts, pa.string()))

    def test_like_counts_code_points_and_crosses_lines(self):
        assert self.like("a_c", ["abc", "a\nc", "a\U0001f600c", "ac", "abbc", None]) == [True] * 3 + [False] * 3
        assert self.like("%b%", ["a\nb\nc", "b", "x"]) == [True, True, False]
        assert self.like("_", ["é", "e\u0301", ""]) == [True, False, False]
        assert self.like("", ["", "a"]) == [True, False]

    def test_like_escapes(self):
        assert self.like("a!%", ["a%", "ab"], "!") == [True, False]
        assert self.like("!!", ["!", "!!"], "!") == [True, False]
        assert self.like(r"\_", ["_", "a"]) == [True, False]
        assert self.like("%%_", ["_", "%"], "%") == [False, False]  # the escape wins over the wildcard: "%_"
        assert self.like("%%_", ["%a", "aa"], "%") == [True, False]

    def test_like_takes_regular_expressions_literally(self):
        assert self.like(r".*", ["abc", ".*"]) == [False, True]
        assert self.like("a\x00^$[]()\\\\E%", ["a\x00^$[]()\\Eb", "a"]) == [True, False]

    @pytest.mark.parametrize(("pattern", "escape"), [("a!b", "!"), ("a!", "!"), ("\\", "\\")])
    def test_like_with_a_wrong_escape(self, pattern, escape):
        with pytest.raises(InvalidFilterError, match="LIKE pattern"):
            self.like(pattern, ["a"], escape)

    def test_match(self):
        column = pa.array(["abc", "cab", "", None])
        assert kept(Match(col(pa.string()), "starts", "a"), column) == [True, False, False, False]
        assert kept(Match(col(pa.string()), "ends", "b"), column) == [False, True, False, False]
        assert kept(Match(col(pa.string()), "contains", ""), column) == [True, True, True, False]
        assert kept(Not(Match(col(pa.string()), "starts", "a")), column) == [False, True, True, False]
        assert kept(Match(col(pa.binary()), "contains", b"\x00"), pa.array([b"a\x00b", b"a"])) == [True, False]

    def test_length(self):
        column = pa.array(["\U0001f600e\u0301", "", None])
        assert kept(Compare("=", Length(col(pa.string())), lit(3, pa.int32())), column) == [True, False, False]
        assert kept(Compare("=", Length(col(pa.binary())), lit(2, pa.int32())), pa.array([b"\xff\x00"])) == [True]

    def test_case(self):
        column = pa.array(["Straße", "ÉA", None, "Éa"])
        upper = Compare("=", ChangeCase(col(pa.string()), upper=True), lit("STRASSE", pa.string()))
        lower = Compare("=", ChangeCase(col(pa.string()), upper=False), lit("éa", pa.string()))
        assert kept(upper, column) == [True, False, False, False]
        assert kept(lower, column) == [False, True, False, True]


class TestNumbers:
    def test_integers_wrap_around(self):
        node = Compare("<", Arithmetic("+", col(pa.int8()), lit(1, pa.int8())), lit(0, pa.int8()))
        assert kept(node, pa.array([127, 126, None], pa.int8())) == [True, False, False]

    def test_remainder_has_the_sign_of_the_dividend(self):
        node = Compare("=", Arithmetic("%", col(pa.int64()), lit(3, pa.int64())), lit(-1, pa.int64()))
        assert kept(node, pa.array([-4, 2, -1, -(2**63)])) == [True, False, True, False]
        by_zero = IsNull(Arithmetic("%", col(pa.int64()), lit(0, pa.int64())))
        assert kept(by_zero, pa.array([1])) == [True]

    def test_widening(self):
        wide = pa.decimal128(22, 2)
        node = Compare("=", Cast(col(pa.int64()), wide), lit(Decimal("9223372036854775807.00"), wide))
        assert kept(node, pa.array([2**63 - 1, 2**63 - 2])) == [True, False]
        as_double = Compare("=", Cast(col(pa.int64()), pa.float64()), lit(2.0**63, pa.float64()))
        assert kept(as_double, pa.array([2**63 - 1, 2**53])) == [True, False]

    def test_isnan_is_never_null(self):
        assert kept(Not(IsNan(col(pa.float32()))), pa.array([NAN, 1.0, None], pa.float32())) == [False, True, True]


class TestTime:
    def test_wall_clock_literals_follow_the_zone(self):
        column = pa.array([0, -3_600_000_000], INSTANT)
        node = Compare("=", col(INSTANT), LocalTimestamp(0))
        assert kept(node, column, "UTC") == [True, False]
        assert kept(node, column, "Europe/Berlin") == [False, True]
        assert kept(node, column, "+01:00") == [False, True]

    @pytest.mark.parametrize(
        ("wall_clock", "utc"),
        [("2024-03-31 02:30:00", "2024-03-31 01:30:00"), ("2024-10-27 02:30:00", "2024-10-27 00:30:00")],
    )
    def test_gap_moves_on_and_overlap_is_the_earlier(self, wall_clock, utc):
        micros = int(np.datetime64(wall_clock, "us").astype(int))
        column = pa.array([int(np.datetime64(utc, "us").astype(int))], INSTANT)
        assert kept(Compare("=", col(INSTANT), LocalTimestamp(micros)), column, "Europe/Berlin") == [True]

    def test_unknown_zone(self):
        with pytest.raises(InvalidFilterError, match="time zone 'Mars/Olympus'"):
            kept(Compare("=", col(INSTANT), LocalTimestamp(0)), pa.array([0], INSTANT), "Mars/Olympus")

    def test_dates_of_instants_round_down(self):
        hour = 3_600_000_000
        column = pa.array([-1, 0, 23 * hour, 24 * hour], INSTANT)
        assert kept(Compare("=", Cast(col(INSTANT), pa.date32()), lit(-1, pa.date32())), column) == [
            True, False, False, False,
        ]  # fmt: skip
        shifted = Compare("=", Cast(col(INSTANT), pa.date32(), hour), lit(1, pa.date32()))
        assert kept(shifted, column) == [False, False, True, True]

    def test_dates_to_instants(self):
        hour = 3_600_000_000
        node = Compare("=", Cast(col(pa.date32()), INSTANT, hour), lit(-hour, INSTANT))
        assert kept(node, pa.array([0, 1, None], pa.date32())) == [True, False, False]
        wall = Compare("=", Cast(col(INSTANT), pa.timestamp("us"), hour), lit(hour, pa.timestamp("us")))
        assert kept(wall, pa.array([0, 1], INSTANT)) == [True, False]


class TestChoices:
    def test_coalesce(self):
        node = Compare("=", Coalesce((col(pa.int64()), lit(3, pa.int64()))), lit(3, pa.int64()))
        assert kept(node, pa.array([3, None, 4])) == [True, True, False]

    def test_case_takes_the_first_true_branch(self):
        x, one = col(pa.int64()), lit(1, pa.int64())
        node = CaseWhen(((Compare("=", x, one), FALSE), (Compare(">=", x, one), TRUE)), IsNull(x))
        assert kept(node, pa.array([1, 2, 0, None])) == [False, True, False, True]


class TestColumns:
    STRUCT = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])

    def test_struct_fields_of_a_null_struct_are_null(self):
        column = pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}], self.STRUCT)
        assert kept(Compare("=", Column("x", pa.int32(), ("a",)), lit(1, pa.int32())), column) == [True, False, False]
        assert kept(IsNull(Column("x", pa.string(), ("b", "c"))), column) == [False, True, True]
        assert kept(IsNull(Column("x", self.STRUCT)), column) == [False, True, False]

    def test_masked_struct(self):
        fields = pa.array([1, 2], pa.int32())
        column = pa.StructArray.from_arrays([fields], names=["a"], mask=pa.array([False, True]))
        assert kept(IsNull(Column("x", pa.int32(), ("a",))), column) == [False, True]

    @pytest.mark.parametrize(
        ("column", "data_type", "value"),
        [
            (pa.array([5], pa.int32()), pa.int64(), 5),
            (pa.array(["a"]).dictionary_encode(), pa.string(), "a"),
            (pa.array(["a"], pa.large_string()), pa.string(), "a"),
            (pa.array(["a"], pa.string_view()), pa.string(), "a"),
            (pa.array([1], pa.timestamp("ms", tz="UTC")), INSTANT, 1000),
            (pa.array([1500], pa.timestamp("ns")), pa.timestamp("us"), 1),
            (pa.array([-1], pa.timestamp("ns")), pa.timestamp("us"), -1),
            (pa.array([-(2**63)], pa.timestamp("ns", tz="Asia/Tokyo")), INSTANT, -(2**63) // 1000),
            (pa.array([1], pa.timestamp("us", tz="Europe/Berlin")), INSTANT, 1),
        ],
    )
    def test_other_physical_types_are_converted(self, column, data_type, value):
        assert kept(Compare("=", col(data_type), lit(value, data_type)), column) == [True]

    def test_all_null_column(self):
        assert kept(IsNull(col(pa.int64())), pa.nulls(2)) == [True, True]

    def test_chunks(self):
        rows = pa.table({"x": pa.chunked_array([[1, 2], [], [3]], pa.int64())})
        assert evaluate(Compare(">", col(pa.int64()), lit(1, pa.int64())), rows, "UTC").tolist() == [False, True, True]

    def test_absent_column(self):
        with pytest.raises(UnknownColumnError, match="'y'"):
            kept(Column("y", pa.bool_()), pa.array([True]))


class TestShape:
    SCHEMA = pa.schema({"a": pa.int32(), "b": pa.int32(), "s": pa.struct({"t": pa.string()})})

    def test_columns_are_top_level(self):
        assert columns(parse("a = 1 or s.t = 'x'", self.SCHEMA)) == {"a", "s"}
        assert columns(TRUE) == frozenset()

    def test_conjuncts_and_restrict(self):
        predicate = parse("a = 1 and (b = 2 and (a = 3 or b = 4))", self.SCHEMA)
        assert [to_text(term) for term in conjuncts(predicate)] == ["a = 1", "b = 2", "a = 3 OR b = 4"]
        assert to_text(restrict(predicate, ["a"])) == "a = 1"
        assert to_text(restrict(predicate, {"a", "b"})) == to_text(predicate)
        assert restrict(predicate, ["s"]) is None
        assert conjuncts(TRUE) == (TRUE,)

    def test_pickle_and_hash(self):
        predicate = parse("a in (1, 2) and not s.t like 'x%' and b <=> null", self.SCHEMA)
        assert pickle.loads(pickle.dumps(predicate)) == predicate
        assert len({predicate, pickle.loads(pickle.dumps(predicate))}) == 1
        assert len(pickle.dumps(predicate)) < 2000


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("x <> 1", "x <> 1"),
        ("not (x = 1 or x is not null)", "NOT (x = 1 OR x IS NOT NULL)"),
        ("x in (1, null)", "x IN (1, NULL)"),
        ("`weird name` = 'it\\'s'", "`weird name` = 'it\\'s'"),
        ("d >= date '0999-12-31'", "d >= DATE '0999-12-31'"),
        ("t < timestamp '2024-01-01 00:00:00.5Z'", "t < TIMESTAMP '2024-01-01 00:00:00.500000Z'"),
        ("t < '2024-01-01'", "t < TIMESTAMP '2024-01-01 00:00:00'"),
        ("n = '2024-01-01'", "n = TIMESTAMP_NTZ '2024-01-01 00:00:00'"),
        ("b = x'0aff'", "b = X'0AFF'"),
        ("(x = 1 or x = 2) and x = 3", "(x = 1 OR x = 2) AND x = 3"),
        ("lower(`weird name`) like 'a!%' escape '!'", "lower(`weird name`) LIKE 'a!%' ESCAPE '!'"),
    ],
)
def test_text_for_people(text, printed):
    schema = pa.schema(
        {
            "x": pa.int64(),
            "weird name": pa.string(),
            "d": pa.date32(),
            "t": INSTANT,
            "n": pa.timestamp("us"),
            "b": pa.binary(),
        }
    )
    assert to_text(parse(text, schema)) == printed


def test_long_lists_are_cut_short():
    values = ", ".join(map(str, range(100)))
    assert to_text(parse(f"x in ({values})", pa.schema({"x": pa.int64()}))).endswith("19, … 80 more)")


def test_dates_beyond_pythons_calendar_can_be_printed():
    assert "1970-01-01" in to_text(Compare("=", col(pa.date32()), lit(2**31 - 1, pa.date32())))
