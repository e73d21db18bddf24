"""Renewals in the background."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from hudi_vector.storage.leases import Renewals, clock_ms, this_process


def test_the_clock_is_that_of_the_machine() -> None:
    assert abs(clock_ms() - time.time() * 1000) < 1000


def test_a_renewal_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    renewed = threading.Event()

    def renew() -> None:
        calls.append(clock_ms())
        if len(calls) < 3:
            raise OSError("no network")
        renewed.set()

    with Renewals("the lease of x", renew, lease_ms=30):
        assert renewed.wait(10)
    count = len(calls)
    assert caplog.messages.count("the lease of x was not renewed: no network") == 2
    time.sleep(0.05)
    assert len(calls) == count, "nothing is renewed after the block"


def test_a_renewal_may_be_called_for_and_the_end_need_not_be_waited_for() -> None:
    done: list[str] = []
    renewed, given_back = threading.Event(), threading.Event()

    def renew() -> None:
        done.append("renewed")
        renewed.set()

    def give_back() -> None:
        done.append("given back")
        given_back.set()

    renewals = Renewals("the lease of x", renew, 3_600_000, give_back)
    renewals.__enter__()
    renewals.soon()
    assert renewed.wait(10)
    renewals.end()
    assert given_back.wait(10)
    renewals.join(10)
    assert done == ["renewed", "given back"]


def test_what_was_called_for_before_the_end_is_not_done_any_more() -> None:
    entered, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def renew() -> None:
        done.append("renewed")
        entered.set()
        assert go_on.wait(10)

    with Renewals("the lease of x", renew, 3_600_000) as renewals:
        renewals.soon()
        assert entered.wait(10)
        renewals.soon()
        renewals.end()
        go_on.set()
    assert done == ["renewed"]


def test_a_holder_is_told_by_process_and_host() -> None:
    told = this_process()
    assert told.startswith(f"process {os.getpid()} of ")
    assert told.endswith(f" on {socket.gethostname()}")
