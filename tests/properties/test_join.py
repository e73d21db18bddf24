"""A join's task gives what comparing all pairs gives, whatever the condition, the side and the batches."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import join_oracle

from hudi_vector.query.asking.output import Column as Output
from hudi_vector.query.asking.queries import QueryColumns
from hudi_vector.query.asking.task import AskingTask
from hudi_vector.query.asking.values import LEFT_MARK
from hudi_vector.query.files.plain_files import PlainFiles
from hudi_vector.query.grouping.arguments import GROUP_RANK, Grouping, most_found
from hudi_vector.query.join import nearest
from hudi_vector.query.join.conditions import JoinCondition, same_row
from hudi_vector.query.join.held import HeldSide, as_content, in_order
from hudi_vector.query.join.nearest import Ask, SideFinder
from hudi_vector.query.join.sides import PlannedSide, RightSide
from hudi_vector.query.planner import SearchRequest, make_plan
from hudi_vector.read.predicate.nodes import And, Column, Compare, IsNull, Literal, Or
from hudi_vector.read.spec import VectorColumn
from hudi_vector.storage import StorageOptions

LIST = pa.list_(pa.field("element", pa.float32()))
LEFT = pa.schema([("id", pa.int64()), ("budget", pa.float64()), ("group", pa.string()), ("v", LIST)])
RIGHT = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("group", pa.string()), ("emb", LIST)])
COLUMNS = tuple(
    Output(*column)
    for column in [
        ("id", "query", "id"),
        ("right_id", "corpus", "id"),
        ("_rank", "rank", ""),
        ("_distance", "distance", ""),
        (GROUP_RANK, "added", GROUP_RANK),
    ]
)
SCHEMA = tuple(
    pa.field(name, kind)
    for name, kind in [
        ("id", pa.int64()),
        ("right_id", pa.int64()),
        ("_rank", pa.int32()),
        ("_distance", pa.float64()),
        (GROUP_RANK, pa.int32()),
    ]
)


@dataclass(frozen=True)
class Content:
    value: bytes


def mine(name: str, kind: pa.DataType) -> Column:
    return Column(LEFT_MARK + name, kind)


PRICE, BUDGET = Column("price", pa.float64()), mine("budget", pa.float64())
CHEAP = Compare("<", PRICE, BUDGET)
SAME_GROUP = Compare("=", Column("group", pa.string()), mine("group", pa.string()))
ITSELF = same_row([("id", "id", pa.int64())])


def less(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else a < b


def same(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else a == b


# Parts of a condition, and what they mean.
CONDITIONS = {
    "none": (JoinCondition(), lambda _, __: True),
    "cheap": (JoinCondition(both=CHEAP), lambda a, b: less(b["price"], a["budget"])),
    "group": (JoinCondition(both=SAME_GROUP), lambda a, b: same(a["group"], b["group"])),
    "group or no price": (
        JoinCondition(both=Or((SAME_GROUP, IsNull(PRICE)))),
        lambda a, b: b["price"] is None or same(a["group"], b["group"]),
    ),
    "cheap, of the left too": (
        JoinCondition(left=Compare(">", BUDGET, Literal(2.0, pa.float64())), both=And((CHEAP, SAME_GROUP))),
        lambda a, b: (a["budget"] or 0) > 2 and less(b["price"], a["budget"]) is True and same(a["group"], b["group"]),
    ),
    "not itself": (JoinCondition().and_not(ITSELF), lambda a, b: a["id"] != b["id"]),
    "not itself, cheap": (
        JoinCondition(both=CHEAP).and_not(ITSELF),
        lambda a, b: a["id"] != b["id"] and less(b["price"], a["budget"]),
    ),
}

numbers = st.integers(0, 6).map(float) | st.none()
groups = st.sampled_from(["a", "b", "c"]) | st.none()
# Few different vectors: many distances are the same.
vectors = st.lists(st.integers(-2, 2).map(float), min_size=3, max_size=3) | st.none()
rows = st.lists(st.tuples(numbers, groups, vectors), max_size=40)


def table(found: list[tuple[Any, Any, Any]], schema: pa.Schema) -> pa.Table:
    columns = [list(range(len(found))), *(list(column) for column in zip(*found, strict=True))] if found else [[]] * 4
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def held(right: pa.Table) -> RightSide:
    shuffled = right.take(pa.array(np.random.default_rng(0).permutation(right.num_rows)))
    content = Content(as_content(in_order(shuffled, shuffled.column_names)))
    return HeldSide(content, uuid.uuid4().hex, VectorColumn("emb", 3, "float", False), "UTC")


def planned(right: pa.Table, folder: Path, metric: str, k: int | None) -> RightSide:
    for old in folder.glob("*.parquet"):
        old.unlink()
    cuts = [0, right.num_rows // 3, right.num_rows // 2, right.num_rows]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        pq.write_table(right.slice(start, stop - start), folder / f"{number}.parquet", row_group_size=7)
    snapshot = PlainFiles([str(p) for p in folder.glob("*.parquet")], StorageOptions()).snapshot()
    snapshot = replace(snapshot, schema=RIGHT)
    column = VectorColumn("emb", 3, "float", False)
    return PlannedSide(make_plan(snapshot, SearchRequest(column, metric, k or 1), {}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("right")


@settings(max_examples=200)
@given(
    left=rows,
    right=rows,
    k=st.sampled_from([1, 2, 5, 50, None]),
    metric=st.sampled_from(["cosine", "l2", "dot_product"]),
    max_distance=st.sampled_from([None, 0.5, 2.0]),
    condition=st.sampled_from(sorted(CONDITIONS)),
    outer=st.booleans(),
    kind=st.sampled_from(["held", "planned"]),
    few_values=st.sampled_from([0, 0, 16]),
    most=st.sampled_from([1, 12, 4096]),
    widening=st.sampled_from([(1, 0), (1, 2), (4, 16)]),
    rows_at_once=st.sampled_from([3, 1 << 18]),
    batch=st.integers(1, 50),
    grouping=st.sampled_from(
        [None, None, Grouping(("group",)), Grouping(("price",), 2), Grouping(("group", "price"), 3)]
    ),
)
def test_a_join_is_what_comparing_all_pairs_gives(
    folder,
    left,
    right,
    k,
    metric,
    max_distance,
    condition,
    outer,
    kind,
    few_values,
    most,
    widening,
    rows_at_once,
    batch,
    grouping,
):
    if k is None and max_distance is None:
        max_distance = 1.0
    grouping = None if k is None else grouping
    shown = len(COLUMNS) - (grouping is None)
    asking, found = table(left, LEFT), table(right, RIGHT)
    parts, holds = CONDITIONS[condition]
    side = held(found) if kind == "held" else planned(found, folder, metric, k)
    task = AskingTask(
        QueryColumns.dense(VectorColumn("v", 3, "float", False), "left", 3, parts.left),
        SideFinder(side, Ask(metric, k, max_distance, parts, block_queries=4, grouping=grouping)),
        COLUMNS[:shown], SCHEMA[:shown], most_found(k, grouping), 0, outer, rows_at_once,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nearest, "_FEW_VALUES", few_values)
        patched.setattr(nearest, "_MOST_WIDENED", most)
        patched.setattr(nearest, "_TIMES_K", widening[0])
        patched.setattr(nearest, "_AND", widening[1])
        patched.setattr(nearest, "_ROWS_AT_ONCE", rows_at_once)
        made = [row for out in task.over(asking.to_batches(batch)) for row in out.to_pylist()]
    expected = join_oracle.joined(
        asking.to_pylist(),
        found.to_pylist(),
        k,
        metric,
        tie=lambda row: row["id"],
        holds=holds,
        max_distance=max_distance,
        outer=outer,
        groups=None if grouping is None else (grouping.columns, grouping.per_group),
    )
    got = [(row["id"], row["right_id"], row["_rank"], row["_distance"]) for row in made]
    # By left row and rank, in the order of the left rows.
    assert [(row[0], row[2] or 0) for row in got] == sorted((row[0], row[2] or 0) for row in got)
    if grouping is not None:
        ranks = [None if row["_rank"] is None else (row[GROUP_RANK], row["_rank"]) for row in made]
        got = [(*row[:2], rank, row[3]) for row, rank in zip(got, ranks, strict=True)]
    join_oracle.compare(got, expected, "id")
