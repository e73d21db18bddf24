"""What the processes of one run share: a folder, and turns in it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time may work in a folder."""
    with (folder / "turns.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
