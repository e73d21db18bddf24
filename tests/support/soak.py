"""Random histories: new ones in each run, for as long as told, and failures in few steps."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.processes import alone

T = TypeVar("T")

RECORD = Path(__file__).resolve().parents[1] / "soak.json"
"""When each long test last ran, and all of them."""
LONG_TESTS = pytest.StashKey[list[str]]()
"""The long tests that a run has collected."""
NOT_RUN = {"date": None, "seed": None, "commit": None, "result": "not run", "minutes": None}


@dataclass(frozen=True)
class Soak:
    """Which seeds a test has, and for how many minutes it goes on; without minutes the usual number of times."""

    seed: int
    minutes: float | None = None

    @classmethod
    def told(cls) -> Soak:
        """As the variables of `make soak` say; a new seed where they say none."""
        seed, minutes = (os.environ.get(name, "").strip() for name in ("SOAK_SEED", "SOAK_MINUTES"))
        return cls(int(seed) if seed else secrets.randbelow(1 << 31), float(minutes) if minutes else None)

    def seeds(self, usual: int, clock: Callable[[], float] = time.monotonic) -> Iterator[int]:
        """The seeds of histories, from the first; the last that a failed test prints is that of the failure."""
        end = None if self.minutes is None else clock() + 60 * self.minutes
        for number in itertools.count():
            over = number >= usual if end is None else number and clock() >= end
            if over:
                return
            print(f"SOAK_SEED={self.seed + number}")
            yield self.seed + number


class Record:
    """The file that says of each long test when it last ran, on which commit, from which seed, and how it ended.

    Several runs of parts may go on at once: each writes its rows under a lock.
    """

    def __init__(self, file: Path, seed: int) -> None:
        self._file, self._seed, self._commit = file, seed, commit()
        self._ended: dict[str, tuple[str, float]] = {}

    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows by the ids of their tests."""
        return dict(json.loads(self._file.read_text("utf-8"))["tests"]) if self._file.exists() else {}

    def begin(self, tests: Sequence[str]) -> None:
        """Give each of all long tests a row, and keep none of tests that are gone."""
        with alone(self._file.parent):
            known = self.rows()
            self._write({test: known.get(test, NOT_RUN) for test in tests})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take what a phase of a test came to; with the last one the test has its row."""
        worst, before = self._ended.get(report.nodeid, ("passed", 0.0))
        worst, seconds = worst if report.outcome == "passed" else report.outcome, before + report.duration
        self._ended[report.nodeid] = worst, seconds
        if report.when == "teardown":
            date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            made = {"date": date, "seed": self._seed, "commit": self._commit, "result": worst}
            with alone(self._file.parent):
                self._write(self.rows() | {report.nodeid: {**made, "minutes": round(seconds / 60, 1)}})

    def _write(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        lines = ",\n".join(f"    {json.dumps(test)}: {json.dumps(rows[test])}" for test in sorted(rows))
        text = f'{{\n  "whole": {json.dumps(whole(rows))},\n  "tests": {{\n{lines}\n  }}\n}}\n'
        new = self._file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self._file)


def whole(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Since when all long tests have run, how many of them ended in which way, and the minutes of all."""
    counts: dict[str, int] = {}
    for row in rows.values():
        counts[row["result"]] = counts.get(row["result"], 0) + 1
    dates = [row["date"] for row in rows.values()]
    since = min(dates) if dates and None not in dates else None
    minutes = sum(row["minutes"] or 0 for row in rows.values())
    return {"since": since, "results": dict(sorted(counts.items())), "minutes": round(minutes, 1)}


def file_of(test: str) -> str:
    """The file of a test, of its id."""
    return test.partition("::")[0]


def longest_ago_first(files: Mapping[str, Sequence[str]], rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The files of tests, those first of which a test has not run, or ran longest ago."""
    oldest = {
        file: min((rows.get(test, NOT_RUN)["date"] or "" for test in tests), default="~")
        for file, tests in files.items()
    }
    return sorted(files, key=lambda file: oldest[file])


def commit() -> str | None:
    """The commit that is checked out, with a plus sign where files were changed since; None without a repository."""
    told = []
    for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no", ".", f":!{RECORD.name}"]):
        ran = subprocess.run(["git", *words], cwd=RECORD.parent, capture_output=True, text=True, check=False)
        if ran.returncode:
            return None
        told.append(ran.stdout.strip())
    return told[0] + ("+" if told[1] else "")


def minimal(history: Sequence[T], fails: Callable[[Sequence[T]], bool], tries: int) -> list[T]:
    """Fewer steps of a history that fail too: halves are left out, then quarters, at last single steps."""
    left, size = list(history), len(history)
    while size and tries:
        size = min(size, len(left) + 1) // 2
        at = 0
        while size and at < len(left) and tries:
            shorter, tries = left[:at] + left[at + size :], tries - 1
            if fails(shorter):
                left = shorter
            else:
                at += size
    return left
