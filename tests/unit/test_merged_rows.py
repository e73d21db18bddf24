"""Rows of a merged slice, found again by key and sequence number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from hudi_vector.read.logs.merged_rows import Asked, KeptColumns, is_small, select_rows

NUMBERS = np.random.default_rng(3)


def slice_of(count: int) -> pa.Table:
    """Rows of which each third has the key of its neighbour."""
    keys = [f"k{number - (number % 3 == 1)}" for number in range(count)]
    return pa.table(
        {
            "_hoodie_record_key": keys,
            "_hoodie_partition_path": ["p"] * count,
            "_hoodie_commit_seqno": [f"s{number}" for number in range(count)],
            "value": list(range(count)),
        }
    )


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_rows_come_in_the_order_they_are_asked_for(batch: int) -> None:
    rows = slice_of(60)
    at = NUMBERS.integers(0, 60, 25)
    asked = Asked(rows.take(pa.array(at)))
    shuffled = rows.take(pa.array(NUMBERS.permutation(60)))
    wanted = rows.column("value").take(pa.array(at)).to_pylist()
    found = select_rows(
        asked, shuffled.to_batches(max_chunksize=batch), lambda part: pa.table({"value": part["value"]})
    )
    assert found is not None
    assert found.column("value").to_pylist() == wanted
    kept = KeptColumns(shuffled).select(asked, ["value"])
    assert kept is not None
    assert kept.column("value").to_pylist() == wanted


def test_a_row_that_is_gone_is_told() -> None:
    rows = slice_of(9)
    asked = Asked(rows.slice(2, 3))
    assert select_rows(asked, rows.slice(3).to_batches(), lambda part: pa.table({"value": part["value"]})) is None
    assert KeptColumns(rows.slice(3)).select(asked, ["value"]) is None


def test_columns_of_another_type_are_not_taken_for_kept() -> None:
    kept = KeptColumns(slice_of(3))
    assert kept.has([pa.field("value", pa.int64())])
    assert not kept.has([pa.field("value", pa.int32())])
    assert not kept.has([pa.field("other", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "small"),
    [
        (pa.int64(), True),
        (pa.string(), True),
        (pa.timestamp("us"), True),
        (pa.binary(), False),
        (pa.list_(pa.int8()), False),
    ],
)
def test_what_is_kept_whole(kind: pa.DataType, small: bool) -> None:
    assert is_small(kind) == small
