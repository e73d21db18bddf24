"""Progress on a terminal and in the log."""

from __future__ import annotations

import io
import logging

import pytest

from hudi_vector.table_services.progress import followed


class Terminal(io.StringIO):
    """A terminal that keeps what it showed."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_that_goes_away() -> None:
    terminal, seconds = Terminal(), iter([n * 0.15 for n in range(100)])
    assert list(followed("abcd", 4, "letters read", stream=terminal, clock=lambda: next(seconds))) == list("abcd")
    lines = [text for text in terminal.getvalue().split("\r\x1b[K") if text]
    assert lines
    assert all(line.endswith(" of 4 letters read") for line in lines)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_elsewhere_it_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    seconds = iter(range(0, 10_000, 10))
    stream = io.StringIO()
    with caplog.at_level(logging.INFO):
        assert list(followed(range(9), 9, "files swept", stream=stream, clock=lambda: next(seconds))) == list(range(9))
    assert stream.getvalue() == ""
    assert 1 <= len(caplog.messages) <= 4
    assert caplog.messages[0] == "2 of 9 files swept"


def test_what_is_quick_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert list(followed([], 0, "files swept", stream=io.StringIO())) == []
    assert caplog.messages == []
