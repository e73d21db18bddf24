"""Calls of searches: with retries after failures of storage, a time limit, one at a time or several."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hudi_vector.errors import (
    DataFileError,
    HudiVectorError,
    SearchTimeoutError,
    TableNotFoundError,
)
from hudi_vector.streaming.config import StreamConfig

__all__ = ["Call", "results"]

T = TypeVar("T")

# A folder that cannot be reached for a moment looks as if it were not there.
_STORAGE = (OSError, TableNotFoundError)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A search: what it does, and the rows it is for, as messages name them."""

    work: Callable[[], T]
    rows: str
    config: StreamConfig

    def sync(self) -> T:
        """Search, and wait for the answer.

        Returns:
            The answer.

        Raises:
            SearchTimeoutError: It took too long.
            DataFileError: Storage failed at every attempt.
        """
        return _Running.of(self).result()

    def begin(self) -> _Running[T]:
        """Search, without waiting for the answer."""
        return _Running.of(self)


@dataclass(frozen=True)
class _Running(Generic[T]):
    call: Call[T]
    future: Future[T]
    ends: float = field(default=0.0)

    @classmethod
    def of(cls, call: Call[T]) -> _Running[T]:
        ends = time.monotonic() + call.config.timeout
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(_attempted(call, ends))
            except BaseException as problem:  # noqa: BLE001 - whatever it is, the task has to hear of it
                future.set_exception(problem)

        # A separate thread can be waited for with a limit, and as a daemon it does not keep the process from ending
        # when storage never answers.
        threading.Thread(target=run, name="hudi-vector-stream", daemon=True).start()
        return cls(call, future, ends)

    def result(self) -> T:
        if not wait([self.future], timeout=max(0.0, self.ends - time.monotonic())).done:
            raise _too_long(self.call, None)
        return self.future.result()


def results(calls: Iterable[Call[T]], config: StreamConfig) -> Iterator[T]:
    """Yield the answers of searches, run one after the other or several at a time, as `config` says.

    `calls` are made when they are needed; `config` also says in which order the answers come.
    """
    if not config.is_async:
        for call in calls:
            yield call.sync()
        return
    running: deque[_Running[T]] = deque()
    for call in calls:
        if len(running) == config.concurrent:
            yield _next(running, config.ordered)
        running.append(call.begin())
    while running:
        yield _next(running, config.ordered)


def _next(running: deque[_Running[T]], ordered: bool) -> T:
    if ordered:
        return running.popleft().result()
    first = min(one.ends for one in running)
    done = wait([one.future for one in running], max(0.0, first - time.monotonic()), FIRST_COMPLETED).done
    chosen = next((one for one in running if one.future in done), None)
    if chosen is None:
        raise _too_long(min(running, key=lambda one: one.ends).call, None)
    running.remove(chosen)
    return chosen.result()


def _attempted(call: Call[T], ends: float) -> T:
    config, pause = call.config, call.config.delay
    for attempt in range(1, config.attempts + 1):
        try:
            return call.work()
        except _STORAGE as problem:
            if attempt == config.attempts:
                raise DataFileError(
                    f"the search for {call.rows} failed {_times(attempt)}: {_said(problem)}"
                ) from problem
            if time.monotonic() + pause > ends:
                raise _too_long(call, problem) from problem
        time.sleep(pause)
        pause *= 2 if config.grows else 1
    raise AssertionError("the last attempt returns or raises")


def _too_long(call: Call[T], problem: BaseException | None) -> SearchTimeoutError:
    return SearchTimeoutError(
        f"the search for {call.rows} did not end within {call.config.timeout:g} seconds"
        + (f"; its last attempt failed: {_said(problem)}" if problem else "")
        + "; set the config key 'timeout' to a longer time, or look after the storage"
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _said(problem: BaseException) -> str:
    return str(problem) if isinstance(problem, HudiVectorError) else f"{type(problem).__name__}: {problem}"
