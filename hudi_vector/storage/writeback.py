"""Bytes of a local file on their way to the disk while more are written, so that waiting for them is short."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache
from typing import Any

__all__ = ["begin_writeback"]

_START = 2  # SYNC_FILE_RANGE_WRITE of <fcntl.h>


def begin_writeback(descriptor: int, offset: int, count: int) -> None:
    """Ask the kernel to begin to write some bytes to the disk; nothing is waited for, and nothing is promised.

    Linux leaves new bytes in memory until there are many of them, so that a file's fsync would find them all there.
    Only that fsync makes them durable and tells of errors, which stay noted with the file until then.

    Args:
        descriptor: Of the file, open for writing.
        offset: The first byte.
        count: How many bytes.
    """
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, count, _START)


@lru_cache(maxsize=1)
def _sync_file_range() -> Any | None:
    """The system call, which Python has no name for; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call
