"""The pure parts of a join: the routing rule, conditions, the order of held rows, batches, partitions, names."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.errors import InvalidArgumentError, InvalidFilterError
from hudi_vector.query.asking.queries import AskedRows
from hudi_vector.query.asking.task import gathered
from hudi_vector.query.asking.values import LEFT_MARK, asked_columns, bound, values_at
from hudi_vector.query.grouping.arguments import GROUP_RANK, Grouping
from hudi_vector.query.join.conditions import same_row, split
from hudi_vector.query.join.held import HeldSide, as_content, in_order
from hudi_vector.query.join.nearest import Ask, SideFinder
from hudi_vector.query.join.parallel import few_rows, partitions_wanted
from hudi_vector.query.join.routing import ROUTES, RightFacts, choose_route
from hudi_vector.read.predicate.form import to_text
from hudi_vector.read.predicate.nodes import TRUE, And, Column, Compare, IsNull, Literal, Not
from hudi_vector.read.spec import VectorColumn
from hudi_vector.spark.join.request import right_names

LIMIT = 1000


@pytest.mark.parametrize(
    ("facts", "route", "passed_over"),
    [
        (RightFacts("hudi"), "search", []),
        (RightFacts("hudi", barred={"search": "a merge mode"}, size=10), "broadcast", ["search"]),
        (RightFacts("hudi", barred={"search": "a merge mode"}, size=2000), "temp", ["search", "broadcast"]),
        (RightFacts("lance"), "lance", []),
        (RightFacts("lance", barred={"lance": "pylance is not there"}, size=5), "broadcast", ["lance"]),
        (RightFacts("files"), "external", []),
        (RightFacts("files", barred={"external": "switched off"}), "search", ["external"]),
        (RightFacts("plan", "a Join", size=LIMIT), "broadcast", []),
        (RightFacts("plan", "a Join", size=LIMIT + 1), "temp", ["broadcast"]),
        (RightFacts("plan", "a Join", size=None), "temp", ["broadcast"]),
        (RightFacts("plan", "a Join", barred={"temp": "pylance is not there"}), "crossjoin", ["broadcast", "temp"]),
        (RightFacts("hudi", pairs_by_spark="Soundex"), "crossjoin", ["search", "broadcast", "temp"]),
        (RightFacts("files", pairs_by_spark="Soundex"), "crossjoin", ["external", "search", "broadcast", "temp"]),
    ],
)
def test_the_first_route_that_is_open_is_taken(facts, route, passed_over):
    chosen = choose_route(facts, "auto", LIMIT)
    assert chosen.name == route
    assert [name for name, _ in chosen.passed_over] == passed_over
    assert all(reason for _, reason in chosen.passed_over)
    text = chosen.describe()
    assert text.splitlines()[0].startswith(f"  route       {route}: the right side is ")
    assert all(f"    not {name}: " in text for name in passed_over)


@pytest.mark.parametrize("kind", ["hudi", "lance", "files", "plan"])
def test_a_route_can_be_asked_for(kind):
    for route in ROUTES:
        try:
            chosen = choose_route(RightFacts(kind, size=10**9), route, LIMIT)
        except InvalidArgumentError as refused:
            assert f"hoodie.vector.join.path = '{route}' was asked for, and the right side is" in str(refused)
            assert "\n" not in str(refused)
        else:
            assert chosen.name == route
            assert chosen.reason.startswith("as asked")
    # What computes its rows can only be held, written or paired; those work for everything.
    for route in ("broadcast", "temp", "crossjoin"):
        assert choose_route(RightFacts(kind), route, 0).name == route


@pytest.mark.parametrize(
    ("facts", "asked", "sentence"),
    [
        (RightFacts("plan", "a Join is between"), "search", "the right side is computed (a Join is between)"),
        (RightFacts("hudi"), "lance", "the right side is a Hudi table"),
        (RightFacts("hudi", barred={"search": "the table is bootstrapped"}), "search", "the table is bootstrapped"),
        (RightFacts("plan", pairs_by_spark="Soundex"), "broadcast", "only Spark can evaluate the condition over both"),
    ],
)
def test_a_route_that_is_not_open_is_refused(facts, asked, sentence):
    with pytest.raises(InvalidArgumentError) as refused:
        choose_route(facts, asked, LIMIT)
    assert sentence in str(refused.value)


INT, TEXT = pa.int64(), pa.string()
LEFT_STRUCT = pa.struct([("id", INT), ("budget", INT)])


def of_left(name: str) -> Column:
    return Column("l", INT, (name,))


def test_a_condition_falls_into_three_parts():
    price, stock = Column("price", INT), Column("r", INT, ("stock",))
    terms = (
        Compare("<", price, Literal(9, INT)),
        Compare(">", of_left("budget"), Literal(1, INT)),
        Compare("<", price, of_left("budget")),
        Compare(">", stock, Literal(0, INT)),
        Not(IsNull(Column("l", LEFT_STRUCT))),
    )
    found = split(And(terms), "…", ["id", "budget"])
    # That a struct of a side is not NULL says nothing.
    assert [to_text(part) for part in found.right.terms[:2]] == ["price < 9", "stock > 0"]
    assert found.left == Compare(">", Column(LEFT_MARK + "budget", INT), Literal(1, INT))
    assert found.both == Compare("<", price, Column(LEFT_MARK + "budget", INT))
    assert (found.left_names, found.asked_left, found.right_names) == (("budget",), ("budget",), ("price",))
    assert not found.pairs_only


def test_a_bare_name_of_both_sides_is_refused():
    both = Compare("=", Column("ID", INT), of_left("id"))
    with pytest.raises(InvalidFilterError, match=r"names 'ID', a column of both sides; write r\.ID .* or l\.ID"):
        split(both, "ID = l.id", ["id", "budget"])
    said = Compare("=", Column("r", INT, ("id",)), of_left("id"))
    assert split(said, "r.id = l.id", ["id"]).both == Compare("=", Column("id", INT), Column(LEFT_MARK + "id", INT))


def test_excluding_a_row_from_itself_alone_leaves_out_one_pair():
    pair = same_row([("id", "id", INT)])
    condition = split(TRUE, "true", []).and_not(pair)
    assert condition.pairs_only
    assert not split(Compare("<", Column("a", INT), of_left("b")), "a < l.b", ["b"]).and_not(pair).pairs_only


def with_values(predicate, values, row):
    asked = asked_columns(predicate)
    return bound(predicate, asked, values_at(pa.table(values), np.array([row]), asked)[0])


def test_the_values_of_a_left_row_take_their_columns_place():
    predicate = Compare("<", Column("day", pa.date32()), Column(LEFT_MARK + "until", pa.date32()))
    values = {"until": pa.array([None, 3], pa.date32())}
    assert with_values(predicate, values, 1).right == Literal(3, pa.date32())
    assert with_values(predicate, values, 0).right == Literal(None, pa.date32())
    micros = pa.timestamp("us", tz="UTC")
    seen = with_values(Column(LEFT_MARK + "at", micros), {"at": pa.array([5], pa.timestamp("us", tz="Asia/Tokyo"))}, 0)
    assert seen == Literal(5, micros)
    before = with_values(Column(LEFT_MARK + "at", pa.timestamp("us")), {"at": pa.array([-1], pa.timestamp("ns"))}, 0)
    assert before == Literal(-1, pa.timestamp("us"))
    inner = Column(LEFT_MARK + "s", INT, ("x",))
    assert with_values(inner, {"s": pa.array([{"x": 7}])}, 0) == Literal(7, INT)


@dataclass(frozen=True)
class Content:
    value: bytes


LEFT_OUT = [
    # One row is left out, and its group then ties with another, whose record key is smaller.
    ("id", [(5, "a", "x", 0.0), (9, "a", "x", 1.0), (1, "b", "x", 1.0), (7, "c", "x", 2.0)], 1, 1, [1]),
    ("id", [(5, "a", "x", 0.0), (3, "a", "x", 1.0), (4, "b", "x", 1.0), (7, "c", "x", 2.0)], 2, 1, [3, 4]),
    # Its group falls back, or is gone; it is not the first of its group.
    ("id", [(5, "a", "x", 0.0), (9, "a", "x", 3.0), (1, "b", "x", 1.0), (7, "c", "x", 2.0)], 2, 2, [1, 7]),
    ("id", [(5, "a", "x", 0.0), (1, "b", "x", 1.0), (7, "c", "x", 2.0)], 2, 1, [1, 7]),
    ("id", [(2, "a", "x", 0.0), (5, "a", "x", 1.0), (6, "a", "x", 2.0), (1, "b", "x", 3.0)], 1, 2, [2, 6]),
    # A column that tells rows apart badly leaves out many.
    ("owner", [(1, "a", "x", 0.0), (2, "a", "x", 0.1), (3, "a", "x", 0.2), (4, "b", "x", 0.3), (6, "b", "x", 0.4),
               (8, "c", "y", 0.5), (7, "a", "y", 0.6)], 1, 1, [8]),
]  # fmt: skip


@pytest.mark.parametrize(("column", "rows", "k", "per_group", "expected"), LEFT_OUT)
def test_a_row_that_is_left_out_may_move_its_group(column, rows, k, per_group, expected):
    kinds = {"id": INT, "doc": TEXT, "owner": TEXT, "far": pa.float64()}
    right = pa.table(dict(zip(kinds, zip(*rows, strict=True), strict=True)), pa.schema(list(kinds.items())))
    right = right.append_column("emb", pa.array([[far] for far in right.column("far").to_pylist()]))
    side = HeldSide(
        Content(as_content(in_order(right, ["id"]))), uuid4().hex, VectorColumn("emb", 1, "double", False), "UTC"
    )
    condition = split(TRUE, "true", []).and_not(same_row([(column, column, kinds[column])]))
    finder = SideFinder(side, Ask("l2", k, None, condition, grouping=Grouping(("doc",), per_group)))
    asking = pa.table({"id": [5], "owner": ["x"]})
    found = finder.find(AskedRows(asking, np.array([0]), (np.zeros((1, 1)),)), ["id"])
    assert found.rows.column("id").to_pylist() == expected
    docs = dict(zip(*(right.column(name).to_pylist() for name in ("id", "doc")), strict=True))
    groups = list(dict.fromkeys(docs[row] for row in expected))
    assert found.added[GROUP_RANK].to_pylist() == [groups.index(docs[row]) + 1 for row in expected]


def test_held_rows_stand_in_the_order_of_ties_whatever_order_they_came_in():
    rows = pa.table(
        {
            "a": [2.0, None, 1.0, 1.0, 1.0, None],
            "b": ["x", "ä", "z", None, "z", "Z"],
            "v": [[1], [2], [3], [4], [0], None],
        }
    )
    orders = set()
    for seed in range(20):
        shuffled = rows.take(pa.array(np.random.default_rng(seed).permutation(len(rows))))
        orders.add(str(in_order(shuffled, rows.column_names).to_pylist()))
    assert len(orders) == 1
    assert in_order(rows, rows.column_names).column("v").to_pylist() == [None, [2], [4], [0], [3], [1]]
    assert in_order(rows.slice(0, 0), rows.column_names).num_rows == 0
    assert in_order(rows.select(["v"]), ["v"]).num_rows == 6


def test_batches_are_gathered_until_they_are_many_rows_or_bytes():
    batch = pa.record_batch({"a": np.arange(10)})
    assert [t.num_rows for t in gathered([batch] * 5, 20, 1 << 30)] == [20, 20, 10]
    assert [t.num_rows for t in gathered([batch] * 3, 1 << 30, 100)] == [20, 10]
    assert list(gathered([], 1, 1)) == []


@pytest.mark.parametrize(
    ("partitions", "size", "wanted"), [(1, 10, 4), (4, 10, None), (9, 10, None), (None, 10, 4), (None, 1 << 40, None)]
)
def test_left_rows_are_moved_only_where_cores_would_be_idle(partitions, size, wanted):
    assert partitions_wanted(partitions, 4, size) == wanted
    assert few_rows(4) == 2 * few_rows(2)


def test_clashing_right_names_get_a_prefix_until_they_are_free():
    assert right_names(["id", "name"], {"id", "_rank"}) == ["right_id", "name"]
    assert right_names(["ID", "right_ID"], {"id"}) == ["right_right_ID", "right_ID"]
    assert right_names(["_rank"], {"_rank"}) == ["right__rank"]
    with pytest.raises(InvalidArgumentError, match="two columns of one name"):
        right_names(["a", "A"], set())


def test_reasons_may_come_as_any_mapping():
    facts = RightFacts("plan", size=None, barred=MappingProxyType({"temp": "switched off"}))
    assert ("temp", "switched off") in choose_route(facts, "auto", 0).passed_over
