"""Tests of what may not be read or written, for those who run as root too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_NOBODY = 65534


@contextlib.contextmanager
def without_root(folder: Path) -> Iterator[None]:
    """Root has no more rights within the block than nobody has, who owns this folder and all below it."""
    if os.geteuid():
        yield
        return
    for each in (folder, *folder.rglob("*")):
        os.chown(each, _NOBODY, _NOBODY)
    shut = {each: each.stat().st_mode for each in folder.parents if each.stat().st_mode & 0o11 != 0o11}
    for each, mode in shut.items():
        each.chmod(mode | 0o11)  # the group may still be that of root
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        for each, mode in shut.items():
            each.chmod(mode)
