"""The values used last, for several threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping of a bounded number of entries; the least recently used one leaves first.

    Example:
        >>> recent = Recent(2)
        >>> for name in ("a", "b", "c"):
        ...     recent.put(name, name.upper())
        >>> recent.get("a"), recent.get("c")
        (None, 'C')
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value kept under a key, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        with self._lock:
            self._keep(key, value)

    def first(self, key: K, value: V) -> V:
        """Keep a value unless there is one; the one that is kept."""
        with self._lock:
            if key not in self._entries:
                self._keep(key, value)
            return self._entries[key]

    def forget(self, chosen: Callable[[K], bool]) -> None:
        """Drop the entries whose key is chosen."""
        with self._lock:
            for key in [key for key in self._entries if chosen(key)]:
                del self._entries[key]

    def _keep(self, key: K, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
