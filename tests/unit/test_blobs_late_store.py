"""Blobs on an object store that answers late: what reads and table services ask for, and in how many waves.

Requests and waves are counted, never seconds. Each request takes a quarter of a second, so that requests that are sent
together are seen together on a busy machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.loaded import module

from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.reading.rows import blob_rows
from hudi_vector.blobs.struct import BlobColumns
from hudi_vector.errors import BlobReadError
from hudi_vector.storage import StorageOptions

slow = module("benchmarks/slow_store.py", "late_blobs_slow_store")

DELAY = 0.25
CONTAINERS, EACH, SIZE = 60, 33, 20_000
CONTENT = [np.random.default_rng(number).bytes(EACH * SIZE) for number in range(CONTAINERS)]


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with slow.slow_store(delay=0) as running:
        for number, content in enumerate(CONTENT):
            running.client.put_object(Bucket="lake", Key=f"containers/{number}", Body=content)
        running.warm()
        yield running


Place = tuple[int, int]
"""A container, and which of its blobs."""


def fetched(store: Any, places: list[tuple[str, int | None, int | None]], **settings: Any) -> list[bytes | None]:
    columns = BlobColumns.of(blob_rows(places))
    found: list[bytes | None] = BlobFetcher(StorageOptions.of(store.settings), **settings).fetch(columns).to_pylist()
    return found


def watched(store: Any, places: list[Place]) -> Any:
    """Read blobs, check their bytes, and return what was asked for."""
    wanted = [(f"s3a://lake/containers/{number}", at * SIZE, SIZE) for number, at in places]
    store.set_delay(DELAY)
    with store.watched() as seen:
        found = fetched(store, wanted)
    store.set_delay(0)
    assert found == [CONTENT[number][at * SIZE : (at + 1) * SIZE] for number, at in places]
    return seen


def test_blobs_side_by_side_are_one_request_a_container(store: Any) -> None:
    """200 blobs in 60 containers, 3 or 4 in each."""
    places = [(number % CONTAINERS, 10 + number // CONTAINERS) for number in range(200)]
    seen = watched(store, random.Random(1).sample(places, len(places)))
    assert (len(seen.requests), seen.heads, seen.bytes) == (60, 0, 200 * SIZE), slow.summary(seen)
    assert seen.waves <= 3, slow.summary(seen)


def test_scattered_blobs_are_at_most_twice_their_bytes(store: Any) -> None:
    places = random.Random(2).sample([(number, at) for number in range(CONTAINERS) for at in range(EACH)], 200)
    seen = watched(store, places)
    assert (seen.gets, seen.heads) == (len(seen.requests), 0)
    assert seen.bytes <= 2 * 200 * SIZE
    assert len(seen.requests) <= 140, slow.summary(seen)
    assert seen.waves <= 6, slow.summary(seen)


def test_what_is_gone_or_too_short_is_said_as_of_any_file(store: Any) -> None:
    there, short, gone, folder = (f"s3a://lake/containers{each}" for each in ("/0", "/1", "/none", ""))
    size = EACH * SIZE
    wanted = [
        (there, 5, 9),
        (short, 5, size),
        (short, 7, 3),
        (short, size + 1, 2),
        (gone, 0, 4),
        (there, size - 3, None),
    ]
    expected = [CONTENT[0][5:14], None, CONTENT[1][7:10], None, None, CONTENT[0][-3:]]
    assert fetched(store, wanted, on_error="null") == expected
    reasons = {
        (short, 5, size): f"the file is too short, it has {size} bytes",
        (short, size + 1, 2): f"the file is too short, it has {size} bytes",
        (gone, 0, 4): "the file is gone, or was never there",
        (folder, 0, 4): "it is a directory",
    }
    for place, reason in reasons.items():
        with pytest.raises(BlobReadError, match=f"cannot be read: {reason}$"):
            fetched(store, [(there, 5, 9), place])


def test_an_empty_container_has_no_bytes(store: Any) -> None:
    store.client.put_object(Bucket="lake", Key="empty", Body=b"")
    assert fetched(store, [("s3a://lake/empty", 0, 3), ("s3a://lake/empty", None, None)], on_error="null") == [
        None,
        b"",
    ]
