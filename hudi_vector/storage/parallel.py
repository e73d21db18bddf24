"""Threads that wait for storage: a task of many small reads sends them at once, since each waits for its first byte.

No more requests are under way than the parallelism of this process allows. More work than that may be begun, where it
also decodes what it reads: then the requests of some work are sent while other work decodes. Requests are counted for
the search that they are sent for, however many searches run at once, and none is sent for a search that is over.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar

__all__ = [
    "Answer",
    "NotSentError",
    "Traffic",
    "ahead",
    "begun",
    "counted",
    "each",
    "one_request",
    "parallelism",
    "room",
    "set_parallelism",
    "threads_named",
    "together",
    "traffic",
    "turn",
    "while_wanted",
    "within_memory",
]

T = TypeVar("T")
R = TypeVar("R")

_USUAL = 64
_IN_FLIGHT_BYTES = 256 << 20
_LEVELS = 4
_AHEAD = 4
"""So much work that decodes is begun for each request that may be under way."""
_LOOK_SECONDS = 0.1
_HERE = threading.local()
_parallelism = _USUAL


def set_parallelism(requests: int) -> None:
    """Set how many requests this process sends at once, as ``hoodie.vector.io.parallelism`` says."""
    global _parallelism  # noqa: PLW0603 - one number for the process, like the budget of its cache
    _parallelism = requests


def parallelism() -> int:
    """Return how many requests this process sends at once."""
    return _parallelism


class NotSentError(BaseException):
    """A request was not sent, since what it was for is over.

    It ends work whose result is not awaited any more, and is no `Exception`, so that it passes what handles errors of
    storage. Where a check has found that it is too late, `while_wanted` raises the error of the check in its place.
    """


class _Purpose:
    """A search that requests are sent for, or one of its rounds of work; `check` raises an error once it is late.

    Attributes:
        is_over: Whether no request is sent any more.
        late: The error of the check, once there is one.
    """

    def __init__(self, above: _Purpose | None, check: Callable[[], Any] | None) -> None:
        self._above, self._check = above, check
        self.is_over = False
        self.late: Exception | None = None

    def require(self) -> None:
        """Raise NotSentError if this or what it is for is over or late."""
        if self._check is not None and self.late is None:
            try:
                self._check()
            except Exception as late:  # noqa: BLE001 - `while_wanted` raises it
                self.late = late
        if self.is_over or self.late is not None:
            raise NotSentError("what this was read for is over")
        if self._above is not None:
            self._above.require()


_PURPOSE: ContextVar[_Purpose | None] = ContextVar("hudi_vector_purpose", default=None)


@contextmanager
def while_wanted(check: Callable[[], Any] | None = None) -> Iterator[Callable[[], None]]:
    """Send requests, here and by the threads that work for the block, only until the block ends.

    `check` is called before each of them, and raises an error if it is too late, which the block then raises. The
    function that is yielded ends the sending before the block does.

    Example:
        >>> with while_wanted() as end:
        ...     end()
    """
    purpose = _Purpose(_PURPOSE.get(), check)

    def end() -> None:
        purpose.is_over = True

    before = _PURPOSE.set(purpose)
    try:
        yield end
    except NotSentError:
        if purpose.late is not None:
            raise purpose.late from None
        raise
    finally:
        end()
        _PURPOSE.reset(before)


def _require_wanted() -> None:
    purpose = _PURPOSE.get()
    if purpose is not None:
        purpose.require()


def each(work: Callable[[T], R], items: Iterable[T], most: int | None = None, *, decodes: bool = False) -> list[R]:
    """Return the results of `work` for all items, in their order; threads of this module do the work at once.

    At most `most` items are worked on at a time, where it is less than the parallelism of this process. Of work that
    `decodes` what it reads, more is begun, so that requests do not wait for it. Work that itself calls `each` gets
    other threads, so that none waits for a thread that waits for it; at the fifth level, items are worked on one after
    another. The first error ends all: it is raised at once, no further work is begun and no further request sent.
    """
    wanted = list(items)
    level = getattr(_HERE, "level", 0)
    if len(wanted) < 2 or level == _LEVELS:
        return [work(item) for item in wanted]
    at_once = _parallelism * (_AHEAD if decodes and _parallelism > 1 else 1)
    return _Round(work, wanted, level + 1).results(at_once if most is None else max(1, min(most, at_once)))


class _Round(Generic[T, R]):
    """Work for some items that is done by the threads of one level."""

    def __init__(self, work: Callable[[T], R], items: Sequence[T], level: int) -> None:
        self._work, self._items, self._level = work, items, level
        self._results: list[Any] = [None] * len(items)
        self._begun = self._done = 0
        self._failed: BaseException | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()

    def results(self, at_once: int) -> list[R]:
        """Do the work, so many items at a time, and return the results."""
        # A power of two, so that there are few pools; rounds of few items share those of a usual size.
        self._threads = threads_named(f"hudi-vector-io-{self._level}", 1 << (at_once - 1).bit_length())
        with while_wanted() as self._end:
            for _ in range(min(at_once, len(self._items))):
                self._begin()
            while not self._ended.wait(_LOOK_SECONDS):
                try:
                    _require_wanted()
                except NotSentError:
                    if self._failed is None:  # else this round ends, and its error is the one to raise
                        raise
        if self._failed is not None:
            raise self._failed
        return self._results

    def _begin(self) -> None:
        with self._lock:
            number = self._begun
            if number == len(self._items) or self._failed is not None:
                return
            self._begun += 1
        self._threads.submit(self._run, number)

    def _run(self, number: int) -> None:
        _HERE.level = self._level
        try:
            _require_wanted()
            self._results[number] = self._work(self._items[number])
        except BaseException as problem:  # noqa: BLE001 - the caller raises it
            self._stop(problem)
            return
        with self._lock:
            self._done += 1
            if self._done == len(self._items):
                self._ended.set()
        # Not in a loop, so that work of other searches that waits for a thread comes in between.
        self._begin()

    def _stop(self, problem: BaseException) -> None:
        with self._lock:
            self._failed = self._failed or problem
        self._end()
        self._ended.set()


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Return the results of calls that are made at once, in their order.

    Example:
        >>> together(lambda: 1, lambda: "a")
        [1, 'a']
    """
    return each(lambda call: call(), calls)


def begun(call: Callable[[], R]) -> Callable[[], R]:
    """Begin a call in a thread of this module, and return a function that waits for its result, or raises its error.

    Waiting ends with an error when the search that waits is over or late, as in `while_wanted`.

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

    future = threads_named(f"hudi-vector-io-{level + 1}", _parallelism).submit(calling)

    def waited() -> R:
        while not wait([future], _LOOK_SECONDS).done:
            _require_wanted()
        return future.result()

    return waited


def ahead(calls: Iterable[Callable[[], R]]) -> Iterator[R]:
    """Begin the first call now, and return the results of all; each further call is made while a result is used.

    Example:
        >>> list(ahead([lambda: 1, lambda: "a"]))
        [1, 'a']
    """
    rest = iter(calls)
    first = next(rest, None)
    return iter(()) if first is None else _one_after_the_other(begun(first), rest)


def _one_after_the_other(result: Callable[[], R], rest: Iterator[Callable[[], R]]) -> Iterator[R]:
    for call in rest:
        found = result()
        result = begun(call)
        yield found
    yield result()


def within_memory(size: int) -> int:
    """Return how many files of so many bytes are worked on at once: 256 MiB of them; 0 if one alone is larger.

    Example:
        >>> within_memory(100 << 20), within_memory(1 << 30)
        (2, 0)
    """
    return _IN_FLIGHT_BYTES // max(size, 1)


class _Limit:
    """Lets threads hold parts of something of which there is only so much, in the order in which they come.

    `most` returns how much there is. A thread that wants more gets it when no other holds a part.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held = 0
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    @contextmanager
    def part(self, wanted: int) -> Iterator[None]:
        """Hold a part during the block."""
        own = (wanted, threading.Event())
        with self._lock:
            self._waiting.append(own)
            self._grant()
        try:
            own[1].wait()
            yield
        finally:
            with self._lock:
                if own[1].is_set():
                    self._held -= wanted
                else:
                    self._waiting.remove(own)
                self._grant()

    def _grant(self) -> None:
        while self._waiting and (not self._held or self._held + self._waiting[0][0] <= self._most()):
            wanted, granted = self._waiting.popleft()
            self._held += wanted
            granted.set()


def _limits() -> tuple[_Limit, _Limit, _Limit]:
    processors = len(os.sched_getaffinity(0))
    return _Limit(lambda: _parallelism), _Limit(lambda: _IN_FLIGHT_BYTES), _Limit(lambda: processors)


_REQUESTS, _BYTES, _TURNS = _limits()


@contextmanager
def turn() -> Iterator[None]:
    """Compute in the block, which waits for nothing: of the threads of this module only as many do as processors."""
    if getattr(_HERE, "level", 0):
        with _TURNS.part(1):
            yield
    else:
        yield


@contextmanager
def room(nbytes: int) -> Iterator[None]:
    """Hold so many bytes of answers in the block; it waits while all threads hold 256 MiB.

    A thread that holds some already does not wait for more.
    """
    if getattr(_HERE, "has_room", False):
        yield
        return
    with _BYTES.part(nbytes):
        _HERE.has_room = True
        try:
            yield
        finally:
            _HERE.has_room = False


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
    """The requests of one search to object stores, and the things that it finds in memory and in the cache on disk.

    Attributes:
        requests: The begin and the end of each request, in nanoseconds, and the bytes of an object in its answer.
        kept: By kind, what was in memory.
        read: By kind, what had to be read.
        on_disk: By kind, what the cache on disk had.
    """

    requests: list[tuple[int, int, int]] = field(default_factory=list)
    kept: dict[str, set[Hashable]] = field(default_factory=dict)
    read: dict[str, set[Hashable]] = field(default_factory=dict)
    on_disk: dict[str, set[Hashable]] = field(default_factory=dict)

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

    def note_on_disk(self, kind: str, key: Hashable) -> None:
        """Count a thing that the cache on disk had, once."""
        self.on_disk.setdefault(kind, set()).add(key)

    def counts(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return how many things of each kind were in memory, how many on disk, and how many were read."""
        kept = {
            kind: keys - self.read.get(kind, set()) - self.on_disk.get(kind, set()) for kind, keys in self.kept.items()
        }
        first, second, third = (
            {kind: len(of[kind]) for kind in sorted(of) if of[kind]} for of in (kept, self.on_disk, self.read)
        )
        return first, second, third


_TRAFFIC: ContextVar[Traffic | None] = ContextVar("hudi_vector_traffic", default=None)


def traffic() -> Traffic | None:
    """Return what is counted here; None if nothing is."""
    return _TRAFFIC.get()


@contextmanager
def counted(is_wanted: bool) -> Iterator[None]:
    """Count, if that is wanted, what is asked for in the block, here and by the threads that work for it.

    These send no request any more when the block has ended.
    """
    if not is_wanted:
        yield
        return
    before = _TRAFFIC.set(Traffic())
    try:
        with while_wanted():
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
    """Count the block as a request; if nothing is counted here, for the search that opened the file.

    A thread of this module waits until fewer requests are under way than may be. Raises NotSentError if the answer is
    not wanted any more.
    """
    if getattr(_HERE, "level", 0):
        with _REQUESTS.part(1), _noted(opened_by) as answer:
            yield answer
    else:
        with _noted(opened_by) as answer:
            yield answer


@contextmanager
def _noted(opened_by: Traffic | None) -> Iterator[Answer]:
    _require_wanted()
    answer, begun = Answer(), time.monotonic_ns()
    try:
        yield answer
    finally:
        seen, ended = _TRAFFIC.get() or opened_by, time.monotonic_ns()
        if seen is not None:
            step = (ended - begun) // answer.requests
            seen.requests += [(begun + n * step, begun + (n + 1) * step, 0) for n in range(answer.requests - 1)]
            seen.requests.append((begun + (answer.requests - 1) * step, ended, answer.nbytes))


def _forget_threads() -> None:
    """Make new pools and limits in a process that was forked: it has those of its parent, but none of the threads."""
    global _REQUESTS, _BYTES, _TURNS
    threads_named.cache_clear()
    _REQUESTS, _BYTES, _TURNS = _limits()


os.register_at_fork(after_in_child=_forget_threads)
