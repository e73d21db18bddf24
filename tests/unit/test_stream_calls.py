"""How searches of a stream are called: attempts, pauses, time, and several at once."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from hudi_vector.errors import DataFileError, SearchTimeoutError, TableNotFoundError, UnsupportedTableError
from hudi_vector.streaming.calls import Call, results
from hudi_vector.streaming.config import StreamConfig

QUICK = StreamConfig(delay=0.01, timeout=5.0)


class Flaky:
    """Fails some times, then answers."""

    def __init__(self, failures, problem):
        self.failures, self.problem, self.times = failures, problem, []

    def __call__(self):
        self.times.append(time.monotonic())
        if len(self.times) <= self.failures:
            raise self.problem
        return "found"


@pytest.mark.parametrize("problem", [DataFileError("gone"), OSError("cut off"), TableNotFoundError("not there")])
def test_storage_is_asked_again(problem):
    work = Flaky(2, problem)
    assert list(results([Call(work, "the row with id = 1", QUICK)], QUICK)) == ["found"]
    assert len(work.times) == 3


def test_no_more_attempts_than_allowed_and_the_rows_are_named():
    work = Flaky(9, OSError("cut off"))
    config = replace(QUICK, attempts=2)
    with pytest.raises(DataFileError) as failed:
        Call(work, "the row with id = 1", config).sync()
    assert str(failed.value) == "the search for the row with id = 1 failed 2 times: OSError: cut off"
    assert len(work.times) == 2


def test_what_is_no_failure_of_storage_is_not_tried_again():
    work = Flaky(1, UnsupportedTableError("no"))
    with pytest.raises(UnsupportedTableError, match="no"):
        Call(work, "x", QUICK).sync()
    assert len(work.times) == 1


@pytest.mark.parametrize(("grows", "pauses"), [(False, [0.1, 0.1, 0.1]), (True, [0.1, 0.2, 0.4])])
def test_pauses(monkeypatch, grows, pauses):
    slept = []
    monkeypatch.setattr("hudi_vector.streaming.calls.time.sleep", slept.append)
    Call(Flaky(3, OSError("x")), "x", replace(QUICK, delay=0.1, grows=grows, attempts=4)).sync()
    assert slept == pauses


def test_a_search_that_hangs_is_given_up():
    forever = threading.Event()
    begun = time.monotonic()
    with pytest.raises(SearchTimeoutError) as failed:
        Call(forever.wait, "the row with id = 7", replace(QUICK, timeout=0.2)).sync()
    assert time.monotonic() - begun < 2
    assert "the search for the row with id = 7 did not end within 0.2 seconds" in str(failed.value)
    forever.set()


def test_pauses_count_as_time():
    work = Flaky(9, OSError("cut off"))
    with pytest.raises(SearchTimeoutError, match="its last attempt failed: OSError: cut off"):
        Call(work, "x", replace(QUICK, timeout=0.3, delay=10.0)).sync()


class Busy:
    """Searches that count how many of them run."""

    def __init__(self):
        self.running, self.most, self.lock = 0, 0, threading.Lock()

    def work(self, number, seconds):
        def run():
            with self.lock:
                self.running += 1
                self.most = max(self.most, self.running)
            time.sleep(seconds)
            with self.lock:
                self.running -= 1
            return number

        return run


def asked(busy, seconds, config):
    return [Call(busy.work(n, s), f"row {n}", config) for n, s in enumerate(seconds)]


def test_one_at_a_time():
    busy = Busy()
    assert list(results(asked(busy, [0.01] * 4, QUICK), QUICK)) == [0, 1, 2, 3]
    assert busy.most == 1


def test_several_at_a_time_in_order():
    busy, config = Busy(), replace(QUICK, is_async=True, concurrent=3)
    assert list(results(asked(busy, [0.3, 0.05, 0.05, 0.05, 0.05], config), config)) == [0, 1, 2, 3, 4]
    assert busy.most == 3


def test_several_at_a_time_in_the_order_they_end():
    busy, config = Busy(), replace(QUICK, is_async=True, concurrent=3, ordered=False)
    found = list(results(asked(busy, [0.5, 0.05, 0.1, 0.05], config), config))
    assert sorted(found) == [0, 1, 2, 3]
    assert found[0] == 1
    assert found[-1] == 0
    assert busy.most == 3


@pytest.mark.parametrize("ordered", [True, False])
def test_one_that_hangs_among_several(ordered):
    config = replace(QUICK, is_async=True, concurrent=2, ordered=ordered, timeout=0.2)
    forever = threading.Event()
    calls = [Call(lambda: 1, "row 0", config), Call(forever.wait, "row 1", config)]
    with pytest.raises(SearchTimeoutError, match="row 1"):
        list(results(calls, config))
    forever.set()


def test_calls_are_made_when_they_are_needed():
    made = []

    def calls(config):
        for number in range(4):
            made.append(number)
            yield Call(lambda: 1, "x", config)

    assert next(results(calls(QUICK), QUICK)) == 1
    assert made == [0]
