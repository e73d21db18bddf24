"""Work that is done at once by the threads that wait for storage."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from hudi_vector.options import IO_PARALLELISM
from hudi_vector.storage import parallel

SOON = 60
"""Seconds that nothing here takes."""


class Most:
    """Counts how many threads are within its block at the same time, at most."""

    def __init__(self) -> None:
        self.entered = self.at_once = self._now = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.entered += 1
            self._now += 1
            self.at_once = max(self.at_once, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


@pytest.fixture
def _three() -> Iterator[None]:
    """The process sends three requests at once."""
    parallel.set_parallelism(3)
    yield
    parallel.set_parallelism(IO_PARALLELISM.default)


def test_results_keep_the_order_and_all_run_at_once() -> None:
    together = threading.Barrier(20, timeout=60)

    def work(number: int) -> int:
        together.wait()  # goes on only when all twenty are here
        return number * number

    assert parallel.each(work, range(20)) == [number * number for number in range(20)]
    assert parallel.together(lambda: 1, lambda: "a", lambda: None) == [1, "a", None]
    assert parallel.each(work, []) == []


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_so_many_at_once(most: int) -> None:
    running = Most()

    def work(_: int) -> None:
        with running:
            time.sleep(0.01)

    parallel.each(work, range(12), most=most)
    parallel.each(work, range(12), most=most, decodes=True)
    assert running.at_once <= most


def test_work_within_work_never_waits_for_itself() -> None:
    def deep(level: int) -> int:
        return 1 if level == 6 else sum(parallel.each(lambda _: deep(level + 1), range(3), most=1))

    assert deep(0) == 3**6


def test_an_error_is_raised_and_later_calls_work() -> None:
    def work(number: int) -> int:
        if number == 5:
            raise ValueError("the fifth")
        return number

    with pytest.raises(ValueError, match="the fifth"):
        parallel.each(work, range(50))
    assert parallel.each(work, range(5)) == [0, 1, 2, 3, 4]


def test_the_error_of_the_work_is_raised_whenever_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(number: int) -> None:
        if number == 3:
            raise ValueError("the third")

    monkeypatch.setattr(parallel, "_LOOK_SECONDS", 0)  # whoever waits looks all the time
    for _ in range(200):
        with pytest.raises(ValueError, match="the third"), parallel.while_wanted():
            parallel.each(work, range(8))


def test_the_parallelism_is_that_of_the_process() -> None:
    parallel.set_parallelism(1)
    try:
        names: set[str] = set(parallel.each(lambda _: threading.current_thread().name, range(8)))
    finally:
        parallel.set_parallelism(IO_PARALLELISM.default)
    assert len(names) == 1


@pytest.mark.usefixtures("_three")
def test_more_work_is_begun_than_requests_are_under_way() -> None:
    working, asking, all_here = Most(), Most(), threading.Barrier(12, timeout=SOON)

    def work(_: int) -> None:
        with working:
            with parallel.one_request(), asking:
                time.sleep(0.01)
            all_here.wait()  # twelve have their answers, and none of them has gone on

    parallel.each(work, range(24), decodes=True)
    assert (working.at_once, asking.at_once, asking.entered) == (12, 3, 24)


@pytest.mark.usefixtures("_three")
def test_requests_within_work_within_work_are_counted_together() -> None:
    asking = Most()

    def ask(_: int) -> None:
        with parallel.one_request(), asking:
            time.sleep(0.01)

    parallel.each(lambda _: parallel.each(ask, range(4)), range(6))
    assert (asking.at_once, asking.entered) == (3, 24)


@pytest.mark.usefixtures("_three")
def test_no_request_is_sent_after_an_error() -> None:
    asking, failed = Most(), threading.Event()

    def work(number: int) -> None:
        with parallel.one_request(), asking:
            if number == 0:
                raise ValueError("the first")
            failed.wait(SOON)

    begun = time.monotonic()
    with pytest.raises(ValueError, match="the first"):
        parallel.each(work, range(24), decodes=True)
    assert time.monotonic() - begun < SOON, "the requests under way are not waited for"
    sent = asking.entered
    failed.set()
    assert parallel.each(lambda number: number, range(24)) == list(range(24))
    assert asking.entered == sent <= 4, "one more may have begun before the error was noted"


@pytest.mark.usefixtures("_three")
def test_a_check_ends_work_that_waits_for_its_answers() -> None:
    asking, answered, late = Most(), threading.Event(), threading.Event()

    def check() -> None:
        if late.is_set():
            raise TimeoutError("it is late")

    def work(_: int) -> None:
        with parallel.one_request(), asking:
            if asking.entered == 3:
                late.set()
            answered.wait(SOON)

    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="it is late"), parallel.while_wanted(check):
        parallel.each(work, range(24), decodes=True)
    assert time.monotonic() - begun < SOON
    answered.set()
    assert parallel.each(lambda number: number, range(24)) == list(range(24))
    assert asking.entered == 3


def test_a_check_ends_waiting_for_what_was_begun() -> None:
    answered = threading.Event()

    def check() -> None:
        raise TimeoutError("it is late")

    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="it is late"), parallel.while_wanted(check):
        parallel.begun(lambda: answered.wait(2 * SOON))()
    assert time.monotonic() - begun < SOON
    answered.set()
    assert parallel.begun(lambda: 1)() == 1


def test_nothing_is_sent_for_what_is_over() -> None:
    ended, asking = threading.Event(), Most()

    def call() -> None:
        ended.wait(SOON)
        with parallel.one_request(), asking:
            pass

    with parallel.while_wanted():
        result = parallel.begun(call)
        with parallel.while_wanted():
            pass
    ended.set()
    with pytest.raises(parallel.NotSentError):
        result()
    assert not asking.entered
    with parallel.one_request(), asking:
        pass
    assert asking.entered == 1


@pytest.mark.parametrize(("size", "at_once"), [(100 << 20, 2), (300 << 20, 1), (1, 20)])
def test_answers_are_held_up_to_a_number_of_bytes(size: int, at_once: int) -> None:
    holding = Most()

    def work(_: int) -> None:
        with parallel.room(size), parallel.room(1 << 40), holding:
            time.sleep(0.01)

    parallel.each(work, range(20), decodes=True)
    assert (holding.at_once <= at_once, holding.entered) == (True, 20)


def test_as_many_threads_compute_as_there_are_processors() -> None:
    computing = Most()

    def work(_: int) -> None:
        with parallel.turn(), computing:
            time.sleep(0.01)

    parallel.each(work, range(20))
    assert (computing.at_once <= len(os.sched_getaffinity(0)), computing.entered) == (True, 20)
