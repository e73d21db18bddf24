"""Progress on a terminal and in the log."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest
from support.blob_states import DAY, NOW, OLD, BlobTable, blob

from hudi_vector import progress
from hudi_vector.progress import followed
from hudi_vector.table_services.erasure.api import look
from hudi_vector.table_services.marking.mark import find_unneeded


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
    wiped = "\r\x1b[K"
    assert terminal.getvalue() == "".join(f"{wiped}{done} of 3 data files read" for done in range(3)) + wiped
    look(table.uri, ["1"], ())
    assert f"{wiped}2 of 3 data files searched{wiped}" in terminal.getvalue()
