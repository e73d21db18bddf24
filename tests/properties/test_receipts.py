"""Receipts as JSON: every receipt comes back as it was, and no change of one goes unseen."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hudi_vector.errors import InvalidArgumentError
from hudi_vector.query.receipts.receipt import (
    SETTINGS,
    Access,
    Arguments,
    Files,
    FoundRow,
    Groups,
    IndexRead,
    Queries,
    Receipt,
    ReceiptContent,
    SnapshotRead,
    as_receipt,
)
from hudi_vector.query.replays.compared import differences

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
COUNT = st.integers(0, 1 << 40)
POSITIVE = st.integers(1, 1 << 40)
FLOATS = st.floats(allow_nan=False)
INSTANT = st.text("0123456789", min_size=17, max_size=17)

vectors = st.tuples(st.integers(0, 3), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(allow_nan=False, allow_infinity=False))
)
rows = st.builds(
    FoundRow,
    query=COUNT,
    rank=POSITIVE,
    key=st.none() | TEXT,
    partition=st.none() | TEXT,
    file=st.none() | TEXT,
    row=st.none() | COUNT,
    distance=FLOATS.map(float.hex),
)
contents = st.builds(
    ReceiptContent,
    version=st.just(1),
    package=TEXT,
    table=TEXT,
    snapshot=st.builds(
        SnapshotRead,
        instant=INSTANT,
        completed=INSTANT,
        pending=st.lists(INSTANT, max_size=2).map(tuple),
        as_of=st.none() | INSTANT,
        files=st.builds(Files, count=COUNT, bytes=COUNT, sha256=TEXT),
    ),
    search=st.builds(
        Arguments,
        column=TEXT,
        metric=st.sampled_from(["l2", "cosine"]),
        k=POSITIVE,
        max_distance=st.none() | FLOATS.map(float.hex),
        filter=st.none() | TEXT,
        zone=TEXT,
        columns=st.lists(TEXT, max_size=3).map(tuple),
        groups=st.none()
        | st.builds(
            Groups,
            columns=st.lists(TEXT, min_size=1, max_size=2).map(tuple),
            per_group=POSITIVE,
            drop_nulls=st.booleans(),
        ),
    ),
    access=st.builds(
        Access,
        mode=st.sampled_from(["exact", "approximate"]),
        execution=st.sampled_from(["local", "distributed"]),
        slices=st.dictionaries(TEXT, COUNT, max_size=2),
        index=st.none()
        | st.builds(
            IndexRead,
            folder=TEXT,
            kind=TEXT,
            metric=TEXT,
            model=TEXT,
            generation=COUNT,
            manifest=TEXT,
            nprobes=st.none() | POSITIVE,
            refine_factor=st.none() | POSITIVE | st.floats(1, 1e6),
        ),
    ),
    settings=st.dictionaries(st.sampled_from(SETTINGS), TEXT),
    queries=st.builds(Queries.of, vectors, st.booleans()),
    rows=st.lists(rows, max_size=4).map(tuple),
)


@given(content=contents, indent=st.none() | st.integers(0, 4))
def test_a_receipt_comes_back_as_it_was(content: ReceiptContent, indent: int | None) -> None:
    receipt = Receipt.of(content)
    pretty = json.dumps(json.loads(receipt.to_json()), indent=indent)
    for given_as in (receipt, receipt.document(), receipt.to_json(), pretty):
        assert as_receipt(given_as) == receipt
    assert [row["distance"].hex() for row in receipt.rows()] == [row.distance for row in content.rows]
    if content.queries.vectors is not None:
        found = content.queries.array()
        assert Queries.of(found, True) == content.queries
        assert content.queries.array(found if len(found) != 1 else found[0]).tobytes() == found.tobytes()


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _leaves(each, (*path, key))]
    if isinstance(value, list):
        return [leaf for key, each in enumerate(value) for leaf in _leaves(each, (*path, key))]
    return [path]


@given(content=contents, data=st.data())
def test_a_change_of_any_value_is_seen(content: ReceiptContent, data: st.DataObject) -> None:
    document = Receipt.of(content).document()
    *above, last = data.draw(st.sampled_from(_leaves(document)))
    place = document
    for key in above:
        place = place[key]
    before = place[last]
    place[last] = data.draw(
        (st.none() | COUNT | TEXT | st.booleans()).filter(lambda new: new != before or new is not before)
    )
    if json.dumps(place[last]) == json.dumps(before):
        return
    with pytest.raises(InvalidArgumentError):
        as_receipt(document)


@given(before=st.lists(rows, max_size=6), data=st.data())
def test_answers_differ_where_rows_do(before: list[FoundRow], data: st.DataObject) -> None:
    assert list(differences(before, before)) == []
    if not before:
        return
    number = data.draw(st.integers(0, len(before) - 1))
    changed = list(before)
    changed[number] = replace(before[number], distance=data.draw(FLOATS.map(float.hex)))
    is_same = changed[number].distance == before[number].distance
    assert (list(differences(before, changed)) == []) == is_same
    assert list(differences(before, before[:number] + before[number + 1 :])) != []
