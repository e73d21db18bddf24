"""Random histories: new ones in each run, for as long as told, and failures in few steps."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


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
