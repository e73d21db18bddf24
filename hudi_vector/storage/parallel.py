"""Threads that wait for storage: a task of many small reads sends them at once, since each waits for its first byte.

They count what the search asks for that they work for, however many searches run at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

__all__ = [
    "Answer",
    "Traffic",
    "begun",
    "counted",
    "each",
    "one_request",
    "set_parallelism",
    "threads_named",
    "together",
    "traffic",
    "within_memory",
]

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


class _Threads(ThreadPoolExecutor):
    """Threads that work in the context of their caller, so that requests are counted for the caller's search."""

    def submit(self, work: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Have a thread do the work."""
        return super().submit(copy_context().run, work, *args, **kwargs)


@lru_cache(maxsize=64)
def threads_named(name: str, count: int) -> ThreadPoolExecutor:
    """Return the pool of `count` threads of this name, which all callers in this process share."""
    return _Threads(count, thread_name_prefix=name)


@dataclass
class Traffic:
    """The requests of one search to object stores, and the things that it finds in memory.

    Attributes:
        requests: The begin and the end of each request, in nanoseconds, and the bytes of an object in its answer.
        kept: By kind, what was in memory.
        read: By kind, what had to be read.
    """

    requests: list[tuple[int, int, int]] = field(default_factory=list)
    kept: dict[str, set[Hashable]] = field(default_factory=dict)
    read: dict[str, set[Hashable]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all answers."""
        return sum(nbytes for _, _, nbytes in self.requests)

    @property
    def waves(self) -> int:
        """Return the length of the longest chain of requests of which each began when the one before it had ended.

        Example:
            >>> Traffic([(0, 3, 10), (1, 2, 10), (3, 5, 10)]).waves
            2
        """
        count, ended = 0, -1
        for end, begin in sorted((end, begin) for begin, end, _ in self.requests):
            if begin >= ended:
                count, ended = count + 1, end
        return count

    def note(self, kind: str, keys: Iterable[Hashable], is_kept: bool) -> None:
        """Count things of a kind, each once; what was read is not counted again when it is found in memory later."""
        (self.kept if is_kept else self.read).setdefault(kind, set()).update(keys)

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many things of each kind were in memory, and how many were read."""
        kept = {kind: keys - self.read.get(kind, set()) for kind, keys in self.kept.items()}
        first, second = ({kind: len(of[kind]) for kind in sorted(of) if of[kind]} for of in (kept, self.read))
        return first, second


_TRAFFIC: ContextVar[Traffic | None] = ContextVar("hudi_vector_traffic", default=None)


def traffic() -> Traffic | None:
    """Return what is counted here; None if nothing is."""
    return _TRAFFIC.get()


@contextmanager
def counted(is_wanted: bool) -> Iterator[None]:
    """Count, if that is wanted, what is asked for in the block, here and by the threads that work for it."""
    if not is_wanted:
        yield
        return
    before = _TRAFFIC.set(Traffic())
    try:
        yield
    finally:
        _TRAFFIC.reset(before)


@dataclass
class Answer:
    """The answer to a request: its bytes, and by how many requests, one after the other, it came."""

    nbytes: int = 0
    requests: int = 1


@contextmanager
def one_request(opened_by: Traffic | None = None) -> Iterator[Answer]:
    """Count the block as a request; if nothing is counted here, for the search that opened the file."""
    answer, begun = Answer(), time.monotonic_ns()
    try:
        yield answer
    finally:
        seen, ended = _TRAFFIC.get() or opened_by, time.monotonic_ns()
        if seen is not None:
            step = (ended - begun) // answer.requests
            seen.requests += [(begun + n * step, begun + (n + 1) * step, 0) for n in range(answer.requests - 1)]
            seen.requests.append((begun + (answer.requests - 1) * step, ended, answer.nbytes))


# A process that was forked has the pools, and none of their threads.
os.register_at_fork(after_in_child=threads_named.cache_clear)
