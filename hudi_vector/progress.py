"""Progress of a long step: one line that is rewritten on a terminal, or a log entry every 30 seconds elsewhere."""

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

__all__ = ["followed", "jobs_followed", "tasks_followed"]

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
    """Yield the items and show how many of them are done, for example ``3 of 10 files swept``.

    Args:
        items: The items, which are worked on one after the other.
        total: The number of items.
        what: What is done with them, for example ``files swept``.
        stream: The stream that may be a terminal; standard error by default.
        clock: A clock in seconds, for tests.

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
    """Show the progress of the Spark jobs that this thread runs within the block, measured by their finished tasks.

    Args:
        context: The Spark application.
        total: The number of items; each task is taken to handle an equal share.
        what: What is done with them, for example ``files indexed``.
        before: The number of other items that were done before.
        whole: The number of items in all; `total` by default.
        stream: The stream that may be a terminal; standard error by default.
        every: Seconds between two updates, for tests.

    Example:
        >>> with jobs_followed(spark.sparkContext, 2, "files indexed"):
        ...     spark.sparkContext.parallelize([3, 4], 2).count()
        2
    """

    def text(group: str) -> str:
        done, known = _tasks(context, group)
        return f"{before + int(done / max(1, known) * total)} of {total if whole is None else whole} {what}"

    with _watched(context, text, stream, every):
        yield


@contextlib.contextmanager
def tasks_followed(
    context: SparkContext, what: str, *, stream: TextIO | None = None, every: float | None = None
) -> Iterator[None]:
    """Show how many tasks of the Spark jobs that this thread runs within the block are done, and how many are known.

    Args:
        context: The Spark application.
        what: The step, for example ``rows checked``.
        stream: The stream that may be a terminal; standard error by default.
        every: Seconds between two updates, for tests.

    Example:
        >>> with tasks_followed(spark.sparkContext, "rows counted"):
        ...     spark.range(3).count()
        3
    """

    def text(group: str) -> str:
        done, known = _tasks(context, group)
        return f"{what}: {done} of {known} tasks" if known else what

    with _watched(context, text, stream, every):
        yield


@contextlib.contextmanager
def _watched(
    context: SparkContext, text: Callable[[str], str], stream: TextIO | None, every: float | None
) -> Iterator[None]:
    """Run the block's Spark jobs as one group, and show the text of the group from time to time."""
    shown = sys.stderr if stream is None else stream
    on_terminal = shown.isatty()
    group, over = f"hudi-vector-{uuid.uuid4().hex}", threading.Event()

    def watch() -> None:
        while not over.wait(every or (_TERMINAL_S if on_terminal else _LOG_S)):
            _show(shown if on_terminal else None, text(group))

    outer = context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        context.setLocalProperty(_GROUP, outer)  # type: ignore[arg-type] # None removes the property
        if on_terminal:
            _wipe(shown)


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Return how many tasks of the jobs of a group are done, and how many there are in all stages known by now."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    found = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
    stages = [stage for stage in found if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


def _wipe(terminal: TextIO) -> None:
    terminal.write("\r\x1b[K")  # clears the line, so that the result's output follows without it
    terminal.flush()


def _show(terminal: TextIO | None, text: str) -> None:
    if terminal is None:
        _LOG.info("%s", text)
        return
    terminal.write(f"\r\x1b[K{text}")
    terminal.flush()
