"""Pruning never drops a row that evaluation keeps, and drops what it can."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_vector.read.predicate.form import ColumnStats, evaluate, may_match, parse, row_group_stats
from hudi_vector.read.predicate.nodes import (
    TRUE,
    And,
    Cast,
    Column,
    Compare,
    In,
    IsNan,
    IsNull,
    Like,
    Literal,
    LocalTimestamp,
    Match,
    Not,
    Or,
)

NAN = float("nan")
SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "f": pa.float32(),
        "d": pa.float64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "r": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "wall": pa.timestamp("us"),
        "dec": pa.decimal128(10, 2),
    }
)


def may(text: str, rows: int = 10, **stats: ColumnStats) -> bool:
    return may_match(parse(text, SCHEMA), stats, rows, "UTC")


NUMBERS = ColumnStats(1, 5, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 0", False), ("i = 1", True), ("i = 5", True), ("i = 6", False), ("6 = i", False),
        ("i < 1", False), ("i <= 1", True), ("i > 5", False), ("i >= 5", True), ("1 > i", False), ("5 <= i", True),
        ("i in (0, 6)", False), ("i in (0, 3)", True), ("not i in (0, 3)", True), ("i between 6 and 9", False),
        ("i is null", False), ("i is not null", True), ("not i < 9", False), ("not (i < 9 or i = 3)", False),
        ("i > 5 and f = 1", False), ("i > 5 or f = 1", True), ("i > 5 or i < 1", False), ("i <=> null", False),
        ("i = null", False), ("not i = null", False), ("true", True), ("false", False), ("null", False),
        ("i > 5.5", False), ("i > 4.5", True), ("i = 9999999999", False), ("f > 5", True), ("i <> 3", True),
        ("i > 2e0", True), ("i > 9e9", True), ("not (i > 0 and i < 9)", False), ("i <=> 9", False), ("i <=> 3", True),
        ("not (i <=> null)", True), ("(i is null) is not null", True),
    ],
)  # fmt: skip
def test_whole_numbers(text, expected):
    assert may(text, i=NUMBERS) is expected


@pytest.mark.parametrize(("values", "expected"), [(1000, False), (1001, True)])
def test_a_long_list_is_not_compared_with_statistics(values, expected):
    assert may(f"i in ({', '.join(str(6 + i) for i in range(values))})", i=NUMBERS) is expected


@pytest.mark.parametrize(
    ("text", "stats", "expected"),
    [
        ("i = 3", ColumnStats(None, None, 10), False),
        ("i is not null", ColumnStats(None, None, 10), False),
        ("i is null", ColumnStats(None, None, 10), True),
        ("not i = 3", ColumnStats(3, 3, 2), False),
        ("not i = 3", ColumnStats(3, 3, None), False),
        ("not (i <=> 3)", ColumnStats(3, 3, 2), True),
        ("not (i <=> 3)", ColumnStats(3, 3, 0), False),
        ("i is null", ColumnStats(1, 5, None), True),
        ("i = 9", ColumnStats(1, None, 0), True),
        ("i = 0", ColumnStats(1, None, 0), False),
        ("i = 9", ColumnStats("1", "5", 0), True),
        ("i = 9", ColumnStats(True, True, 0), True),
        ("i = 9", ColumnStats(pa.scalar(1), pa.scalar(5), 0), False),
        ("i > 9", ColumnStats(1, 5, 0, exact=False), False),
    ],
)
def test_what_is_unknown_stays_possible(text, stats, expected):
    assert may(text, i=stats) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d > 4", True),  # a NaN is larger, and no writer counts it into the maximum
        ("d = 5", True),
        ("d < 1", False),
        ("d <= 0.5", False),
        ("not d >= 1", False),
        ("isnan(d)", True),
        ("d <> 4", True),
        ("d in (0.5, 0.25)", False),
    ],
)
def test_floats_have_no_upper_bound(text, expected):
    assert may(text, d=ColumnStats(1.0, 4.0, 0)) is expected


def test_floats_are_compared_as_floats():
    node = Compare("<=", Column("f", pa.float32()), Literal(0.1, pa.float32()))
    assert may_match(node, {"f": ColumnStats(0.10000000149011612, 1.0, 0)}, 9, "UTC")


def test_floats_with_nan_and_zeros():
    nan = Literal(NAN, pa.float64())
    column = Column("d", pa.float64())
    assert may_match(Compare("=", column, nan), {"d": ColumnStats(1.0, 4.0, 0)}, 9, "UTC")
    assert may_match(Compare("<", column, nan), {"d": ColumnStats(1.0, 4.0, 0)}, 9, "UTC")
    assert (
        may_match(Compare("<", column, Literal(0.0, pa.float64())), {"d": ColumnStats(NAN, NAN, 0)}, 9, "UTC") is True
    )
    assert may("d <= 0", d=ColumnStats(0.0, 4.0, 0))
    assert may("d >= 0", d=ColumnStats(-4.0, -0.0, 0))
    assert not may("d < 0", d=ColumnStats(-0.0, 1.0, 0))


@pytest.mark.parametrize(
    ("text", "stats", "expected"),
    [
        ("s = 'x'", ColumnStats("a", "m", 0), False),
        ("s > '\U0001f600'", ColumnStats("a", "\uffff", 0), False),
        ("s like 'n%'", ColumnStats("a", "m", 0), False),
        ("s like 'm%'", ColumnStats("a", "mz", 0), True),
        ("s like 'a_'", ColumnStats("b", "m", 0), False),
        ("s like '%a'", ColumnStats("b", "m", 0), True),
        ("s not like 'n%'", ColumnStats("a", "m", 0), True),
        ("s > 'zz'", ColumnStats("a", "z", 0, exact=False), True),
        ("s < 'a'", ColumnStats("a", "z", 0, exact=False), False),
        ("s = '\ud7ff'", ColumnStats("\ud800", "\ud801", 0), True),
        ("lower(s) = 'x'", ColumnStats("a", "b", 0), True),
        ("length(s) > 5", ColumnStats("a", "b", 0), True),
    ],
)
def test_texts(text, stats, expected):
    assert may(text, s=stats) is expected


def test_searched_beginnings():
    s = Column("s", pa.string())
    for prefix, expected in (("mm", True), ("mz", True), ("mzz", True), ("l", False), ("n", False), ("m", True)):
        assert may_match(Match(s, "starts", prefix), {"s": ColumnStats("ma", "mzz", 0)}, 9, "UTC") is expected
    assert may_match(Match(s, "ends", "x"), {"s": ColumnStats("a", "b", 0)}, 9, "UTC")
    assert not may_match(Match(s, "contains", "x"), {"s": ColumnStats(null_count=9)}, 9, "UTC")


@pytest.mark.parametrize(
    ("text", "name", "stats", "expected"),
    [
        ("day > '2024-01-02'", "day", ColumnStats(dt.date(2024, 1, 1), dt.date(2024, 1, 2), 0), False),
        ("day >= '2024-01-02'", "day", ColumnStats(dt.date(2024, 1, 1), dt.date(2024, 1, 2), 0), True),
        ("day > '2024-01-02'", "day", ColumnStats(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), 0), True),
        ("b", "b", ColumnStats(False, False, 3), False),
        ("not b", "b", ColumnStats(False, False, 3), True),
        ("not b", "b", ColumnStats(True, True, 0), False),
        ("dec > 5", "dec", ColumnStats(Decimal("1.5"), Decimal("4.99"), 0), False),
        ("dec > 4.985", "dec", ColumnStats(Decimal("1.5"), Decimal("4.99"), 0), True),
        ("wall > '1970-01-02'", "wall", ColumnStats(0, 5, 0), False),
        ("wall > '1970-01-02'", "wall", ColumnStats(dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc), None, 0), True),
        ("r = X'80'", "r", ColumnStats(b"\x00", b"\x7f", 0), False),
    ],
)
def test_other_types(text, name, stats, expected):
    assert may(text, **{name: stats}) is expected


def test_wall_clocks_in_the_session_zone():
    hour = 3_600_000_000
    node = Compare(">=", Column("at", pa.timestamp("us", tz="UTC")), LocalTimestamp(hour))
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    stats = {"at": ColumnStats(utc, utc + dt.timedelta(minutes=30), 0)}
    assert not may_match(node, stats, 9, "UTC")
    assert may_match(node, stats, 9, "Europe/Berlin")


def test_no_rows():
    assert not may_match(TRUE, {}, 0, "UTC")


def test_fields_of_structs_are_unknown():
    field = Column("i", pa.int64(), ("a",))
    assert may_match(Compare(">", field, Literal(9, pa.int64())), {"i": NUMBERS}, 9, "UTC")


INTS = st.one_of(st.none(), st.integers(-3, 3))
FLOATS = st.one_of(st.none(), st.sampled_from([-1.0, -0.0, 0.0, 1.0, NAN, float("inf"), float("-inf")]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600", "%"]))
INT, DOUBLE, TEXT = Column("i", pa.int64()), Column("d", pa.float64()), Column("s", pa.string())
OPS = st.sampled_from(["=", "<=>", "<", "<=", ">", ">="])


def _leaves():
    def compare(column, values):
        literal = values.map(lambda value: Literal(value, column.result_type()))
        return st.one_of(
            st.builds(Compare, OPS, st.just(column), literal),
            st.builds(Compare, OPS, literal, st.just(column)),
            st.builds(In, st.just(column), st.lists(literal, min_size=1, max_size=3).map(tuple)),
            st.just(IsNull(column)),
        )

    wide = Cast(INT, pa.decimal128(21, 1))
    return st.one_of(
        compare(INT, INTS),
        compare(DOUBLE, FLOATS),
        compare(TEXT, TEXTS),
        compare(Cast(INT, pa.float64()), FLOATS),
        st.builds(Compare, OPS, st.just(wide), st.sampled_from([Literal(Decimal("0.5"), wide.type)])),
        st.builds(
            Match, st.just(TEXT), st.sampled_from(["starts", "ends", "contains"]), st.sampled_from(["a", "", "é"])
        ),
        st.builds(Like, st.just(TEXT), st.sampled_from(["a%", "_", "%b", "\\%%", "ab_%"])),
        st.just(IsNan(DOUBLE)),
    )


PREDICATES = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(IsNull, inner),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(INTS, FLOATS, TEXTS), min_size=1, max_size=4), st.lists(PREDICATES, min_size=5, max_size=5))
def test_pruning_keeps_every_row_that_evaluation_keeps(rows, predicates):
    columns = [
        pa.array(values, t)
        for values, t in zip(zip(*rows, strict=True), (INT.type, DOUBLE.type, TEXT.type), strict=True)
    ]
    table = pa.table(dict(zip("ids", columns, strict=True)))
    file = io.BytesIO()
    pq.write_table(table, file)
    stats = row_group_stats(pq.read_metadata(file), 0, table.schema)
    for predicate in predicates:
        if evaluate(predicate, table, "UTC").any():
            assert may_match(predicate, stats, len(rows), "UTC")
        for name in "ids":  # also where some statistics are missing
            if evaluate(predicate, table, "UTC").any():
                assert may_match(predicate, {k: v for k, v in stats.items() if k != name}, len(rows), "UTC")


class TestRowGroupStats:
    def stats(self, table: pa.Table, schema: pa.Schema | None = None, **options) -> dict[str, ColumnStats]:
        file = io.BytesIO()
        pq.write_table(table, file, **options)
        return row_group_stats(pq.read_metadata(file), 0, schema or table.schema)

    def test_every_type(self):
        instant = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
        micros = int(instant.timestamp()) * 10**6
        table = pa.table(
            {
                "i": pa.array([2, None, 1], pa.int64()),
                "f": pa.array([1.5, NAN, None], pa.float32()),
                "d": pa.array([NAN, NAN, None]),
                "s": ["b", "a", None],
                "b": [True, None, False],
                "r": [b"\xff", b"\x00", None],
                "day": pa.array([5, 3, None], pa.date32()),
                "at": pa.array([instant, None, None], pa.timestamp("us", tz="UTC")),
                "wall": pa.array([1, 2, None], pa.timestamp("ms")),
                "dec": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(10, 2)),
            },
        )
        assert self.stats(table, SCHEMA, store_decimal_as_integer=True) == {
            "i": ColumnStats(1, 2, 1),
            "f": ColumnStats(1.5, 1.5, 1),
            "d": ColumnStats(None, None, 1),
            "s": ColumnStats("a", "b", 1),
            "b": ColumnStats(False, True, 1),
            "r": ColumnStats(b"\x00", b"\xff", 1),
            "day": ColumnStats(dt.date(1970, 1, 4), dt.date(1970, 1, 6), 1),
            "at": ColumnStats(micros, micros, 2),
            "wall": ColumnStats(1000, 2000, 1),
            "dec": ColumnStats(Decimal("-2.25"), Decimal("1.50"), 1),
        }
        assert self.stats(table, SCHEMA)["dec"] == ColumnStats(None, None, 1)

    @pytest.mark.parametrize(
        ("column", "wanted"),
        [
            (pa.array([1, 2], pa.uint32()), pa.int64()),
            (pa.array(["a"]), pa.binary()),
            (pa.array([b"a"]), pa.string()),
            (pa.array([1.5]), pa.float32()),
            (pa.array([5], pa.int32()), pa.date32()),
            (pa.array([5], pa.timestamp("us")), pa.timestamp("us", tz="UTC")),
            (pa.array([5], pa.timestamp("ns", tz="UTC")), pa.timestamp("us", tz="UTC")),
            (pa.array([1]), pa.decimal128(10, 2)),
            (pa.array(["5"]), pa.int64()),
        ],
    )
    def test_other_meanings_are_not_trusted(self, column, wanted):
        found = self.stats(pa.table({"x": column}), pa.schema({"x": wanted}))
        assert found == {"x": ColumnStats(None, None, 0)}

    def test_narrower_files(self):
        table = pa.table({"x": pa.array([1, 2], pa.int8()), "y": pa.array([0.1, 1.1], pa.float32())})
        found = self.stats(table, pa.schema({"x": pa.int64(), "y": pa.float64()}))
        assert found == {"x": ColumnStats(1, 2, 0), "y": ColumnStats(0.1, 1.1, 0)}

    @pytest.mark.parametrize("names", [("a.b", "a"), ("a", "a.b"), ("a",)])
    def test_a_field_of_a_struct_is_no_column_of_its_path(self, names):
        columns = {"a.b": pa.array([1, 2]), "a": pa.array([{"b": 100}, {"b": 200}])}
        found = self.stats(pa.table({name: columns[name] for name in names}), pa.schema({"a.b": pa.int64()}))
        assert found == ({"a.b": ColumnStats(1, 2, 0)} if "a.b" in names else {})

    def test_left_out(self):
        table = pa.table({"x": [1], "l": [[1]], "s": [{"x": 5}]})
        assert list(self.stats(table)) == ["x"]
        assert self.stats(table, write_statistics=False) == {}
        ancient = pa.table({"t": pa.array([1], pa.timestamp("us", tz="UTC"))})
        found = self.stats(ancient, use_deprecated_int96_timestamps=True)
        assert found.get("t", ColumnStats()).minimum is None
