"""Decoded columns kept in memory, under one byte budget per process, the least recently used leaving first.

Keys hold the identity of the file (URI, size, modification time), so that a file written anew is read anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

__all__ = ["ByteCache", "process_cache"]


class ByteCache:
    """A mapping that forgets the least recently used entries beyond a number of bytes.

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
        """Bytes held."""
        return self._bytes

    @property
    def budget(self) -> int:
        """Bytes that may be held."""
        return self._budget

    def resize(self, budget: int) -> None:
        """Change the budget, forgetting what no longer fits."""
        with self._lock:
            self._budget = budget
            self._shrink()

    def get(self, key: Hashable) -> Any | None:
        """The value kept under a key, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Any, nbytes: int) -> None:
        """Keep a value, unless it alone is larger than the budget."""
        with self._lock:
            if nbytes > self._budget:
                return
            self._forget(key)
            self._entries[key] = (value, nbytes)
            self._bytes += nbytes
            self._shrink()

    def clear(self) -> None:
        """Forget everything."""
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
    """The one cache of this process."""
    return _PROCESS_CACHE
