"""Progress on a terminal and in the log."""

from __future__ import annotations

import io
import itertools
import logging
import re
import sys
from pathlib import Path

import pytest
from support.blob_states import DAY, NOW, OLD, BlobTable, blob

from hudi_vector import progress
from hudi_vector.progress import followed, without_bars
from hudi_vector.table_services.erasure.api import look
from hudi_vector.table_services.marking.mark import find_unneeded

GONE = "\x1b[1A\x1b[2K"
"""What removes the line above the cursor."""


class Terminal(io.StringIO):
    """A terminal that keeps what it showed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _a_terminal_with_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # none is drawn on a dumb one


def counts(terminal: io.StringIO, what: str) -> list[str]:
    """The counts that a terminal showed, each once, without the bar next to them."""
    shown = re.findall(rf"(\d+) of (\d+) {what}", terminal.getvalue())
    return list(dict.fromkeys(" of ".join(each) for each in shown))


def test_a_terminal_shows_a_bar_that_goes_away() -> None:
    terminal, seconds = Terminal(), iter([n * 0.15 for n in range(100)])
    assert list(followed("abcd", 4, "letters read", stream=terminal, clock=lambda: next(seconds))) == list("abcd")
    assert counts(terminal, "letters read") == ["1 of 4", "3 of 4"]
    assert "\u2501" in terminal.getvalue()
    assert terminal.getvalue().endswith(GONE)


def test_a_job_that_fails_leaves_no_bar() -> None:
    terminal, seconds = Terminal(), itertools.count()
    failing = (1 // number for number in (1, 1, 0, 1))
    with pytest.raises(ZeroDivisionError):
        list(followed(failing, 4, "letters read", stream=terminal, clock=lambda: next(seconds)))
    assert counts(terminal, "letters read")
    assert terminal.getvalue().endswith(GONE)


def test_bars_can_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    terminal, seconds = Terminal(), itertools.count(step=20)
    with caplog.at_level(logging.INFO), without_bars():
        assert list(followed("abcd", 4, "letters read", stream=terminal, clock=lambda: next(seconds))) == list("abcd")
    assert terminal.getvalue() == ""
    assert caplog.messages


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


def test_a_mark_and_a_search_for_keys_show_how_many_data_files_they_have_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = BlobTable(tmp_path / "t", OLD)
    for number in range(3):
        instant = table.instant()
        table.base(f"f{number}", instant, {1: blob(f"/elsewhere/{number}", managed=False)})
        table.complete(instant, "commit")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_TERMINAL_S", 0.0)
    find_unneeded(table.uri, grace_ms=DAY, now_ms=NOW)
    assert counts(terminal, "data files read") == ["0 of 3", "1 of 3", "2 of 3"]
    assert terminal.getvalue().endswith(GONE)
    look(table.uri, ["1"], tuple)
    assert "2 of 3" in counts(terminal, "data files searched")
