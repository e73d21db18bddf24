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

T = TypeVar("T")

RECORD = Path(__file__).resolve().parents[1] / "soak.json"
"""When the long tests last ran, all of them."""


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

    def is_whole(self, marks: str, words: str, names_places: bool) -> bool:
        """Whether a run has all long tests: none left out by words or by places, and histories as often as usual."""
        return marks == "soak" and not words and not names_places and self.minutes is None

    def record(self, file: Path, counts: Mapping[str, int], seconds: float) -> dict[str, Any]:
        """Note a whole run that is over, with the commit that was tested."""
        outcomes = {name: counts.get(name, 0) for name in ("passed", "failed", "error", "skipped")}
        is_well = outcomes["passed"] and not outcomes["failed"] and not outcomes["error"]
        noted = {
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seed": self.seed,
            "commit": commit(),
            "result": "passed" if is_well else "failed",
            "minutes": round(seconds / 60, 1),
            "tests": outcomes,
        }
        file.write_text(json.dumps(noted, indent=2) + "\n", encoding="utf-8")
        return noted

    def seeds(self, usual: int, clock: Callable[[], float] = time.monotonic) -> Iterator[int]:
        """The seeds of histories, from the first; the last that a failed test prints is that of the failure."""
        end = None if self.minutes is None else clock() + 60 * self.minutes
        for number in itertools.count():
            over = number >= usual if end is None else number and clock() >= end
            if over:
                return
            print(f"SOAK_SEED={self.seed + number}")
            yield self.seed + number


def commit() -> str | None:
    """The commit that is checked out, with a plus sign where files were changed since; None without a repository."""
    told = []
    for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
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
