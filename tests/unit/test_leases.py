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


def test_the_block_ends_with_a_renewal_that_is_under_way() -> None:
    entered, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def renew() -> None:
        entered.set()
        assert go_on.wait(10)
        done.append("renewed")

    with Renewals("the lease of x", renew, lease_ms=30):
        assert entered.wait(10)
        threading.Timer(0.05, go_on.set).start()
    assert done == ["renewed"]


def test_a_holder_is_told_by_process_and_host() -> None:
    told = this_process()
    assert told.startswith(f"process {os.getpid()} of ")
    assert told.endswith(f" on {socket.gethostname()}")
