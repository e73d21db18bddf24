"""Progress of a long step: a bar on a terminal, or a log entry every 30 seconds elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from pyspark import SparkContext
    from rich.progress import Progress

__all__ = ["followed", "is_shown", "jobs_followed", "tasks_followed", "without_bars"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_TERMINAL_S, _LOG_S = 0.2, 30.0
_GROUP = "spark.jobGroup.id"
_BARS = ContextVar("bars", default=True)


def is_shown(stream: TextIO) -> bool:
    """Return True if progress is shown on a stream: it is a terminal, and the caller did not ask for quiet."""
    return stream.isatty() and _BARS.get()


@contextlib.contextmanager
def without_bars() -> Iterator[None]:
    """Let the jobs of this block show no progress on a terminal.

    Example:
        >>> with without_bars():
        ...     list(followed("ab", 2, "letters read"))
        ['a', 'b']
    """
    before = _BARS.set(False)
    try:
        yield
    finally:
        _BARS.reset(before)


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
    shown = _Shown(sys.stderr if stream is None else stream, what)
    last = clock()
    try:
        for done, item in enumerate(items):
            if clock() - last >= shown.every:
                last = clock()
                shown.show(done, total)
            yield item
    finally:
        shown.close()


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
    of = total if whole is None else whole

    def counted(group: str) -> tuple[int, int]:
        done, known = _tasks(context, group)
        return before + int(done / max(1, known) * total), of

    with _watched(context, counted, what, stream, every):
        yield


@contextlib.contextmanager
def tasks_followed(
    context: SparkContext, what: str, *, stream: TextIO | None = None, every: float | None = None
) -> Iterator[None]:
    """Show how many tasks of the Spark jobs that this thread runs within the block are done, and how many are known.

    Args:
        context: The Spark application.
        what: The step, for example ``writing the rows``.
        stream: The stream that may be a terminal; standard error by default.
        every: Seconds between two updates, for tests.

    Example:
        >>> with tasks_followed(spark.sparkContext, "counting the rows"):
        ...     spark.range(3).count()
        3
    """
    with _watched(context, lambda group: _tasks(context, group), f"tasks: {what}", stream, every):
        yield


@contextlib.contextmanager
def _watched(
    context: SparkContext,
    counted: Callable[[str], tuple[int, int]],
    what: str,
    stream: TextIO | None,
    every: float | None,
) -> Iterator[None]:
    """Run the block's Spark jobs as one group, and show from time to time how much is done, as `counted` says of it."""
    shown = _Shown(sys.stderr if stream is None else stream, what)
    group, over = f"hudi-vector-{uuid.uuid4().hex}", threading.Event()

    def watch() -> None:
        while not over.wait(every or shown.every):
            shown.show(*counted(group))

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
        shown.close()


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Return how many tasks of the jobs of a group are done, and how many there are in all stages known by now."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    found = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
    stages = [stage for stage in found if stage is not None]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


class _Shown:
    """The progress of one job: a bar that begins when the job takes long and goes away with it, or log entries."""

    def __init__(self, stream: TextIO, what: str) -> None:
        self._stream, self._what = stream, what
        self._has_bar = is_shown(stream)
        self._bar: Progress | None = None
        self.every = _TERMINAL_S if self._has_bar else _LOG_S

    def show(self, done: int, total: int) -> None:
        """Show how many items are done."""
        if not self._has_bar:
            _LOG.info("%s", f"{done} of {total} {self._what}")
            return
        if self._bar is None:
            self._bar = _bar_on(self._stream)
            self._bar.add_task(self._what, total=total, completed=done)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, refresh=True)

    def close(self) -> None:
        """Remove the bar, so that the result's output follows without it."""
        if self._bar is not None:
            self._bar.stop()


def _bar_on(stream: TextIO) -> Progress:
    """Return a bar that is drawn when it is updated, and not by a thread, which might write among a result's rows."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.completed} of {task.total} {task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
