"""Work that is done at once by the threads that wait for storage."""

from __future__ import annotations

import threading

import pytest

from hudi_vector.storage import parallel


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
    running, highest, lock = 0, 0, threading.Lock()

    def work(_: int) -> None:
        nonlocal running, highest
        with lock:
            running += 1
            highest = max(highest, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    parallel.each(work, range(12), most=most)
    assert highest <= most


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


def test_the_parallelism_is_that_of_the_process() -> None:
    parallel.set_parallelism(1)
    try:
        names: set[str] = set(parallel.each(lambda _: threading.current_thread().name, range(8)))
    finally:
        parallel.set_parallelism(32)
    assert len(names) == 1
