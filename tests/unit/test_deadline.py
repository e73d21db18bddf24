"""The time limit of a search: what it counts, what it says, and how it crosses to another process."""

from __future__ import annotations

import pickle
import time

import pytest

from hudi_vector.errors import HudiVectorError, SearchTimeoutError
from hudi_vector.query import deadline as module
from hudi_vector.query.deadline import NEVER, Deadline


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_it_ends_with_what_was_done(clock: list[float]) -> None:
    deadline = Deadline("products", 2.5, slices=7)
    deadline.check(rows=1000)
    clock[0] = 102.5
    deadline.check(rows=234, slices=1)
    clock[0] = 102.51
    with pytest.raises(SearchTimeoutError) as late:
        deadline.check(rows=1)
    assert str(late.value) == (
        "the search of 'products' did not end within 2.5 seconds; 1 of 7 file slices and 1,235 rows were searched until "
        "then; give it more time by hoodie.vector.search.timeout or the argument timeout, or less to read by an index or "
        "a filter"
    )
    assert isinstance(late.value, (HudiVectorError, TimeoutError))


def test_the_time_counts_from_when_the_search_began(clock: list[float]) -> None:
    Deadline("t", 5.0, begun=95.0).check()
    with pytest.raises(SearchTimeoutError):
        Deadline("t", 5.0, begun=94.9).check()


def test_another_process_gets_the_time_that_is_left(clock: list[float]) -> None:
    deadline = Deadline("t", 10.0, slices=3)
    clock[0] = 106.0
    packed = pickle.dumps(deadline)
    clock[0] = 5000.0  # the clock of another machine
    there = pickle.loads(packed)
    clock[0] = 5004.0
    there.check(slices=2)
    clock[0] = 5004.1
    with pytest.raises(SearchTimeoutError, match="within 10 seconds; 2 of 3 file slices and 0 rows"):
        there.check()


def test_without_a_limit_it_never_ends() -> None:
    NEVER.check(rows=5)
    pickle.loads(pickle.dumps(NEVER)).check()
    Deadline("t", None, begun=time.monotonic() - 1e9).check()
