"""Early writeback of a local file while more is written, so that the final fsync is short."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

__all__ = ["begin_writeback"]

_START = 2  # SYNC_FILE_RANGE_WRITE of <fcntl.h>


def begin_writeback(descriptor: int, offset: int, count: int) -> None:
    """Ask the kernel to start writing bytes of a file to the disk, without waiting and without any guarantee.

    They are `count` bytes from `offset` of a file that is open for writing. Linux keeps new bytes in memory until there
    are many of them, so that a file's fsync would have to write them all. Only the fsync makes the bytes durable; it
    also reports write errors, which the kernel remembers until then.
    """
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, count, _START)


@lru_cache(maxsize=1)
def _sync_file_range() -> Any | None:
    """Return the system call ``sync_file_range``, which Python does not wrap, or None if the system lacks it."""
    if not sys.platform.startswith("linux"):
        return None
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call
