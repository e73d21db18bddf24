"""A thread-safe LRU mapping, bounded by the number of its entries and by what they weigh."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Recent"]

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A thread-safe mapping with a bounded number of entries that evicts the least recently used one.

    `weigh` returns what an entry weighs; together they weigh `most` or less, but for the newest.

    Example:
        >>> recent = Recent(2)
        >>> for name in ("a", "b", "c"):
        ...     recent.put(name, name.upper())
        >>> recent.get("a"), recent.get("c")
        (None, 'C')
    """

    def __init__(self, capacity: int, weigh: Callable[[V], int] = lambda _: 0, most: int = 0) -> None:
        self._capacity = capacity
        self._weigh, self._most, self._weight = weigh, most, 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        with self._lock:
            self._keep(key, value)

    def first(self, key: K, value: V) -> V:
        """Set the value of a key unless it has one, and return the value that the key then has."""
        with self._lock:
            if key not in self._entries:
                self._keep(key, value)
            return self._entries[key]

    def forget(self, chosen: Callable[[K], bool]) -> None:
        """Remove the entries whose key `chosen` accepts."""
        with self._lock:
            for key in [key for key in self._entries if chosen(key)]:
                self._weight -= self._weigh(self._entries.pop(key))

    def _keep(self, key: K, value: V) -> None:
        if key in self._entries:
            self._weight -= self._weigh(self._entries.pop(key))
        self._entries[key] = value
        self._weight += self._weigh(value)
        while len(self._entries) > self._capacity or (self._weight > self._most and len(self._entries) > 1):
            self._weight -= self._weigh(self._entries.popitem(last=False)[1])
