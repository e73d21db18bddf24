"""Searches and services that ended, for metrics to count; without a listener nothing is done for them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

__all__ = ["Listener", "RunningSearch", "ServiceRun", "failure_heard", "heard_as", "listen", "listener"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class ServiceRun:
    """A run of a table service that ended, with its result or with an error.

    `where` and `table` are its first two arguments: a session, settings or None, and the table as the user named it.
    """

    service: str
    where: Any
    table: Any
    seconds: float
    result: Any = None
    error: BaseException | None = None


@dataclass
class RunningSearch:
    """A search that runs: its Hudi table, None if it has none, and where it runs and by which plan, once that is known.

    `plan` stays None where Spark searches a plan of Spark.
    """

    source: Any
    execution: str = "unknown"
    plan: Any = None
    is_planned: bool = False

    def planned(self, plan: Any, execution: str) -> None:
        """Note the plan; a later one replaces it."""
        self.plan, self.execution, self.is_planned = plan, execution, True


class Listener(Protocol):
    """A counter of what ends. Its methods raise nothing: what they count has ended well without them."""

    def searched(self, report: Any, snapshot: Any) -> None:
        """Count a search, by its report and the snapshot that was searched; None without one."""

    def failed(self, search: RunningSearch, error: BaseException) -> None:
        """Count a search that ended with an error."""

    def served(self, run: ServiceRun) -> None:
        """Count a run of a service."""


_listener: Listener | None = None


def listener() -> Listener | None:
    """Return the listener of this process, or None."""
    return _listener


def listen(new: Listener | None) -> None:
    """Make this the listener of the process; None ends the listening."""
    global _listener  # noqa: PLW0603 - one for the process, as the reports are
    _listener = new


@contextmanager
def failure_heard(source: Any, execution: str = "unknown") -> Iterator[RunningSearch]:
    """Let the listener hear if the search in the block ends with an error, which is raised as before.

    `source` is the Hudi table that is searched, None for anything else.
    """
    running = RunningSearch(source, execution)
    try:
        yield running
    except BaseException as problem:
        if _listener is not None:
            _listener.failed(running, problem)
        raise


def heard_as(service: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that lets the listener hear how each run of a service ended; its errors are raised as before.

    The first two arguments of the function are those of `ServiceRun`.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if _listener is None:
                return function(*args, **kwargs)
            where = args[0] if args else kwargs.get("spark")
            table = args[1] if len(args) > 1 else kwargs.get("table")
            begun = time.monotonic()
            try:
                result = function(*args, **kwargs)
            except BaseException as problem:
                _tell(ServiceRun(service, where, table, time.monotonic() - begun, error=problem))
                raise
            _tell(ServiceRun(service, where, table, time.monotonic() - begun, result))
            return result

        return run

    return decorated


def _tell(run: ServiceRun) -> None:
    if _listener is not None:
        _listener.served(run)
