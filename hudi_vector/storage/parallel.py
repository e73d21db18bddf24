"""Threads that wait for storage: a task of many small reads sends them at once, since each waits for its first byte."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

__all__ = ["begun", "each", "set_parallelism", "threads_named", "together", "within_memory"]

T = TypeVar("T")
R = TypeVar("R")

_USUAL = 32
_IN_FLIGHT_BYTES = 256 << 20
_LEVELS = 4
_HERE = threading.local()
_parallelism = _USUAL


def set_parallelism(requests: int) -> None:
    """Set how many requests this process sends at once, as ``hoodie.vector.io.parallelism`` says."""
    global _parallelism  # noqa: PLW0603 - one number for the process, like the budget of its cache
    _parallelism = requests


def each(work: Callable[[T], R], items: Iterable[T], most: int | None = None) -> list[R]:
    """Return the results of `work` for all items, in their order; threads of this module do the work at once.

    At most `most` items are worked on at a time, where it is less than the parallelism of this process. Work that
    itself calls `each` gets other threads, so that none waits for a thread that waits for it; at the fifth level, items
    are worked on one after another. After an error no further work is begun, and the error is raised.
    """
    wanted = list(items)
    level = getattr(_HERE, "level", 0)
    if len(wanted) < 2 or level == _LEVELS:
        return [work(item) for item in wanted]
    threads = _parallelism if most is None else max(1, min(most, _parallelism))

    def working(item: T) -> R:
        _HERE.level = level + 1
        return work(item)

    return list(threads_named(f"hudi-vector-io-{level + 1}", threads).map(working, wanted))


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Return the results of calls that are made at once, in their order.

    Example:
        >>> together(lambda: 1, lambda: "a")
        [1, 'a']
    """
    return each(lambda call: call(), calls)


def begun(call: Callable[[], R]) -> Callable[[], R]:
    """Begin a call in a thread of this module, and return a function that waits for its result, or raises its error.

    Example:
        >>> begun(lambda: 1)()
        1
    """
    level = getattr(_HERE, "level", 0)
    if level == _LEVELS:
        result = call()
        return lambda: result

    def calling() -> R:
        _HERE.level = level + 1
        return call()

    return threads_named(f"hudi-vector-io-{level + 1}", _parallelism).submit(calling).result


def within_memory(size: int) -> int:
    """Return how many files of so many bytes are worked on at once: 256 MiB of them; 0 if one alone is larger.

    Example:
        >>> within_memory(100 << 20), within_memory(1 << 30)
        (2, 0)
    """
    return _IN_FLIGHT_BYTES // max(size, 1)


@lru_cache(maxsize=64)
def threads_named(name: str, count: int) -> ThreadPoolExecutor:
    """Return the pool of `count` threads of this name, which all callers in this process share."""
    return ThreadPoolExecutor(count, thread_name_prefix=name)


# A process that was forked has the pools, and none of their threads.
os.register_at_fork(after_in_child=threads_named.cache_clear)
