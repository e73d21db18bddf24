"""The rows that leave a streaming search, their names, and the filters that depend on the row that asks."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, TimestampType

from hudi_vector.errors import InvalidArgumentError, UnknownColumnError
from hudi_vector.kernels.metrics import METRICS
from hudi_vector.query.asking.output import Column as Out
from hudi_vector.query.asking.output import Found, assemble, unmatched
from hudi_vector.query.asking.values import LEFT_MARK, asked_columns, bound, groups_of
from hudi_vector.query.join.sides import FoundRows, found_rows, joined_nearest
from hudi_vector.read.conform import conform
from hudi_vector.read.predicate.form import columns, evaluate, to_text
from hudi_vector.read.predicate.nodes import Column, Compare, conjunction
from hudi_vector.spark.search.output import schema_of
from hudi_vector.streaming.output import chosen, outputs_of

FIELDS = [
    pa.field("n", pa.int64()),
    pa.field("id", pa.int64()),
    pa.field("score", pa.float64()),
    pa.field("_distance", pa.float64()),
    pa.field("_rank", pa.int32()),
]
COLUMNS = [
    Out("n", "query", "n"),
    Out("id", "corpus", "id"),
    Out("score", "added", "score"),
    Out("_distance", "distance", ""),
    Out("_rank", "rank", ""),
]
ASKING = pa.table({"n": [10, 11, 12, 13]})
EVERY = np.arange(4)


def answer(rows, ids, metric="cosine"):
    distance = np.arange(len(rows)) / 4
    rank = np.array([1 + rows[:i].count(row) for i, row in enumerate(rows)])
    added = {"score": pa.array(METRICS[metric].scores(distance))}
    return Found(np.array(rows, np.int64), distance, rank, pa.table({"id": pa.array(ids, "int64")}), added)


def assembled(found, outer):
    alone = unmatched(found.query, 0, 4) if outer else None
    return conform(assemble(COLUMNS, found, ASKING, EVERY, alone), FIELDS)


def test_rows_that_found_something():
    found = assembled(answer([0, 0, 2], [5, 6, 7]), outer=False)
    assert found.to_pydict() == {
        "n": [10, 10, 12],
        "id": [5, 6, 7],
        "score": [1.0, 0.75, 0.5],
        "_distance": [0.0, 0.25, 0.5],
        "_rank": [1, 2, 1],
    }


def test_rows_that_found_nothing_stay_once_where_they_stood():
    found = assembled(answer([0, 0, 2], [5, 6, 7], "l2"), outer=True)
    assert found.column("n").to_pylist() == [10, 10, 11, 12, 13]
    assert found.column("id").to_pylist() == [5, 6, None, 7, None]
    assert found.column("_rank").to_pylist() == [1, 2, None, 1, None]
    assert found.column("score").to_pylist() == [1.0, 0.8, None, 1 / 1.5, None]


@pytest.mark.parametrize("outer", [True, False])
def test_nobody_found_anything(outer):
    found = assembled(Found.nothing(), outer)
    assert found.num_rows == (4 if outer else 0)
    assert found.schema.types == [field.type for field in FIELDS]


def test_answers_of_groups_become_one_in_the_order_of_the_rows():
    groups = [(answer([0, 0, 1], [1, 2, 3]), np.array([1, 3])), (answer([0, 1], [4, 5]), np.array([0, 2]))]
    both = found_rows(joined_nearest([(FoundRows(found), members) for found, members in groups]), ["id"])
    assert both.query.tolist() == [0, 1, 1, 2, 3]
    assert both.rows.column("id").to_pylist() == [4, 1, 2, 5, 3]
    assert both.rank.tolist() == [1, 1, 2, 1, 1]


def test_scores_are_larger_for_nearer_rows():
    distance = np.array([-2.0, 0.0, 3.0])
    assert METRICS["dot_product"].scores(distance).tolist() == [2.0, 0.0, -3.0]
    assert METRICS["l2"].scores(np.array([0.0, 3.0])).tolist() == [1.0, 0.25]
    assert not np.signbit(METRICS["dot_product"].scores(np.array([0.0]))).any()


STREAM = [StructField("id", LongType()), StructField("at", TimestampType(), True, {"spark.watermarkDelayMs": 1000})]
TABLE = [StructField(name, StringType()) for name in ("id", "name", "ID0")]


def names(**how):
    made = outputs_of(STREAM, TABLE, how.pop("clash", "prefix"), **{"outer": False, **how})
    return [output.column.name for output in made]


def test_names_that_are_taken():
    added = ["score", "_distance", "_rank"]
    assert names() == ["id", "at", "_hudi_search_id", "name", "ID0", *added]
    assert names(clash="suffix") == ["id", "at", "id0", "name", "ID00", *added]


def test_a_column_of_the_table_may_have_the_name_of_an_added_one():
    made = outputs_of(STREAM, [StructField("score", DoubleType())], "suffix", outer=False)
    assert [output.column.name for output in made] == ["id", "at", "score0", "score", "_distance", "_rank"]


def test_a_column_of_the_stream_may_not():
    with pytest.raises(InvalidArgumentError, match="the stream has a column '_Rank', the name of a column that the"):
        outputs_of([StructField("_Rank", LongType())], TABLE, "prefix", outer=False)


def test_the_watermark_is_kept():
    schema = schema_of(outputs_of(STREAM, TABLE, "prefix", outer=True))
    assert schema["at"].metadata == {"spark.watermarkDelayMs": 1000}
    assert schema["score"].nullable


def test_chosen_columns():
    assert [field.name for field in chosen(TABLE, ["NAME", "id", "name"], "t")] == ["name", "id"]
    with pytest.raises(UnknownColumnError, match="column 'nam' does not exist in 't'; did you mean 'name'"):
        chosen(TABLE, ["nam"], "t")


def left(name, kind):
    return Column(LEFT_MARK + name, kind)


def test_rows_are_grouped_by_what_the_filter_compares_with():
    predicate = conjunction(
        [
            Compare(">=", Column("price", pa.float64()), left("least", pa.float64())),
            Compare("=", Column("day", pa.date32()), left("day", pa.date32())),
            Compare("<", Column("price", pa.float64()), left("least", pa.float64())),
        ]
    )
    asked = asked_columns(predicate)
    assert asked == (left("least", pa.float64()), left("day", pa.date32()))
    day = dt.date(1970, 1, 3)
    rows = pa.table({"least": [1.0, 2.0, 1.0, None], "day": pa.array([day] * 4)})
    groups = groups_of(rows, np.array([0, 1, 2, 3]), asked)
    assert [(values, members.tolist()) for values, members in groups] == [
        ((1.0, 2), [0, 2]),
        ((2.0, 2), [1]),
        ((None, 2), [3]),
    ]
    alone = bound(predicate, asked, (1.0, 2))
    assert columns(alone) == {"price", "day"}
    assert to_text(alone) == "price >= 1.0 AND day = DATE '1970-01-03' AND price < 1.0"
    table = pa.table({"price": [0.5, 1.0], "day": [day, day]})
    first, *_ = bound(predicate, asked, (1.0, 2)).terms
    assert evaluate(first, table, "UTC").tolist() == [False, True]
    assert evaluate(bound(predicate, asked, (None, 2)), table, "UTC").tolist() == [False, False]


def test_values_of_every_kind_become_literals():
    rows = pa.table(
        {
            "t": pa.array([dt.datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us", tz="UTC")),
            "d": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
            "s": pa.array([{"x": 3}], pa.struct([("x", pa.int32())])),
        }
    )
    asked = (
        left("t", pa.timestamp("us", tz="UTC")),
        left("d", pa.decimal128(5, 2)),
        Column(LEFT_MARK + "s", pa.int32(), ("x",)),
    )
    [(values, _)] = groups_of(rows, np.array([0]), asked)
    assert values == (1_000_000, Decimal("1.50"), 3)
    for column, value in zip(asked, values, strict=True):
        same = Compare("=", column, column)
        assert evaluate(bound(same, (column,), (value,)), pa.table({"a": [1]}), "UTC").tolist() == [True]


def test_without_such_a_filter_there_is_one_group():
    [(values, members)] = groups_of(ASKING, np.array([1, 3]), ())
    assert values == ()
    assert members.tolist() == [0, 1]
