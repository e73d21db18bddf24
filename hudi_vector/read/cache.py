"""An LRU cache of decoded columns, with one byte budget for the process.

Keys contain the identity of the file (URI, size, modification time), so a file that was written again is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from hudi_vector.storage.parallel import traffic

__all__ = ["ByteCache", "is_counting", "note", "note_on_disk", "process_cache"]


class ByteCache:
    """A mapping that removes the least recently used entries when they exceed a number of bytes.

    Example:
        >>> cache = ByteCache(100)
        >>> cache.put("a", "value", nbytes=60)
        >>> cache.put("b", "value", nbytes=60)
        >>> cache.get("a") is None
        True
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes in use."""
        return self._bytes

    @property
    def budget(self) -> int:
        """Return the largest number of bytes to hold."""
        return self._budget

    def resize(self, budget: int) -> None:
        """Change the budget and remove the entries that no longer fit."""
        with self._lock:
            self._budget = budget
            self._shrink()

    def get(self, key: Hashable) -> Any | None:
        """Return the value of a key, or None if the cache does not hold it."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Store a value, unless it alone is larger than the budget."""
        with self._lock:
            if nbytes > self._budget:
                return
            self._forget(key)
            self._entries[key] = (value, nbytes)
            self._bytes += nbytes
            self._shrink()

    def forget(self, key: Hashable) -> None:
        """Remove the value of a key, if there is one."""
        with self._lock:
            self._forget(key)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _forget(self, key: Hashable) -> None:
        _, nbytes = self._entries.pop(key, (None, 0))
        self._bytes -= nbytes

    def _shrink(self) -> None:
        while self._bytes > self._budget:
            self._forget(next(iter(self._entries)))


_PROCESS_CACHE = ByteCache(0)


def process_cache() -> ByteCache:
    """Return the cache of this process."""
    return _PROCESS_CACHE


def is_counting() -> bool:
    """Return True if the search that runs here counts what it finds in memory."""
    return traffic() is not None


def note_on_disk(kind: str, key: Hashable) -> None:
    """Count, for the report of the search, a thing of a kind that the cache on disk had."""
    counted = traffic()
    if counted is not None:
        counted.note_on_disk(kind, key)


def note(kind: str, *keys: Hashable, is_kept: bool) -> None:
    """Count, for the report of the search, things of a kind that were in memory or had to be read."""
    counted = traffic()
    if counted is not None:
        counted.note(kind, keys, is_kept)
