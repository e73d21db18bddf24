"""How far a service is: one line that is rewritten on a terminal, a log entry now and then elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["followed", "jobs_followed"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_TERMINAL_S, _LOG_S = 0.2, 30.0
_GROUP = "spark.jobGroup.id"


def followed(
    items: Iterable[T],
    total: int,
    what: str,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Pass items on and show how many are done.

    Args:
        items: What is worked at, one after the other.
        total: How many there are.
        what: What is done with them, such as ``files swept``.
        stream: Where a terminal may be; the standard error by default.
        clock: Seconds, for tests.

    Yields:
        The items.

    Example:
        >>> list(followed("ab", 2, "letters read"))
        ['a', 'b']
    """
    shown = sys.stderr if stream is None else stream
    on_terminal = shown.isatty()
    last = clock()
    for done, item in enumerate(items):
        if clock() - last >= (_TERMINAL_S if on_terminal else _LOG_S):
            last = clock()
            _show(shown if on_terminal else None, f"{done} of {total} {what}")
        yield item
    if on_terminal:
        _wipe(shown)


@contextlib.contextmanager
def jobs_followed(
    context: SparkContext,
    total: int,
    what: str,
    *,
    before: int = 0,
    whole: int | None = None,
    stream: TextIO | None = None,
    every: float | None = None,
) -> Iterator[None]:
    """Show how much is done of the Spark jobs that this thread runs meanwhile, by their tasks.

    Args:
        context: The Spark application.
        total: How many things are worked at, in tasks of about as many.
        what: What is done with them, such as ``files indexed``.
        before: How many others were done before these.
        whole: How many there are in all; `total` where these are all.
        stream: Where a terminal may be; the standard error by default.
        every: Seconds between two looks, for tests.

    Yields:
        Nothing.

    Example:
        >>> with jobs_followed(spark.sparkContext, 2, "files indexed"):
        ...     spark.sparkContext.parallelize([3, 4], 2).count()
        2
    """
    shown = sys.stderr if stream is None else stream
    on_terminal = shown.isatty()
    group, over = f"hudi-vector-{uuid.uuid4().hex}", threading.Event()

    def watch() -> None:
        while not over.wait(every or (_TERMINAL_S if on_terminal else _LOG_S)):
            done = before + int(_share_done(context, group) * total)
            _show(shown if on_terminal else None, f"{done} of {total if whole is None else whole} {what}")

    outer = context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        context.setLocalProperty(_GROUP, outer)  # type: ignore[arg-type] # None takes it away
        if on_terminal:
            _wipe(shown)


def _share_done(context: SparkContext, group: str) -> float:
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    found = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
    stages = [stage for stage in found if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages) / max(1, sum(stage.numTasks for stage in stages))


def _wipe(terminal: TextIO) -> None:
    terminal.write("\r\x1b[K")  # leaves no trace between the lines of the result
    terminal.flush()


def _show(terminal: TextIO | None, text: str) -> None:
    if terminal is None:
        _LOG.info("%s", text)
        return
    terminal.write(f"\r\x1b[K{text}")
    terminal.flush()
