"""The time limit of a search, and how far the search got."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from hudi_vector.errors import SearchTimeoutError, number_of
from hudi_vector.storage.parallel import while_wanted

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["NEVER", "Deadline"]

_AGAIN = 0.1  # seconds


class Deadline:
    """The time by which a search has to end. Every long loop of a search calls `check`.

    It reaches executors as the time that is left; each process counts its own work. Threads may share it.

    Args:
        table: The searched table, for the message.
        seconds: The limit; None for no limit.
        slices: How many file slices the search reads.
        begun: When the search began, by `time.monotonic`; now by default.
    """

    def __init__(self, table: str, seconds: float | None, slices: int = 0, begun: float | None = None) -> None:
        self._table, self._seconds, self._slices = table, seconds, slices
        self._ends = None if seconds is None else (time.monotonic() if begun is None else begun) + seconds
        self._rows = self._done = 0
        self._lock = threading.Lock()

    def check(self, rows: int = 0, slices: int = 0) -> None:
        """Count the rows and slices searched since the last call, and raise SearchTimeoutError if the time is over."""
        if self._ends is None:
            return
        with self._lock:
            self._rows += rows
            self._done += slices
        if time.monotonic() > self._ends:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise SearchTimeoutError with what was done so far."""
        done = ""
        if self._slices:
            with self._lock:
                done = (
                    f"; {self._done} of {number_of(self._slices, 'file slice')} and {self._rows:,} rows were searched "
                    "until then"
                )
        raise SearchTimeoutError(
            f"the search of '{self._table}' did not end within {self._seconds:g} seconds{done}; give it more time by "
            "hoodie.vector.search.timeout or the argument timeout, or less to read by an index or a filter"
        )

    def limiting(self) -> AbstractContextManager[Any]:
        """Return a block in which object stores are sent requests until the time is over, and none after the block."""
        return while_wanted(None if self._ends is None else self.check)

    @contextmanager
    def cancelling(self, context: SparkContext) -> Iterator[None]:
        """Cancel the Spark jobs of the block when the time is over, and raise SearchTimeoutError."""
        if self._ends is None:
            yield
            return
        tag, ended, late = f"hudi-vector-{uuid4().hex}", threading.Event(), threading.Event()

        def cancel() -> None:
            if ended.wait(max(0.0, self._ends - time.monotonic()) if self._ends else None):
                return
            late.set()
            # A job that begins after a cancellation is not cancelled by it.
            while not ended.wait(_AGAIN):
                context.cancelJobsWithTag(tag)

        watching = threading.Thread(target=cancel, name="hudi-vector-deadline", daemon=True)
        context.addJobTag(tag)
        watching.start()
        try:
            yield
        except Exception:
            if late.is_set():
                self.refuse()
            raise
        finally:
            ended.set()
            context.removeJobTag(tag)
        self.check()

    def __reduce__(self) -> tuple[Callable[..., Deadline], tuple[Any, ...]]:
        left = None if self._ends is None else self._ends - time.monotonic()
        return _resumed, (self._table, self._seconds, self._slices, left)


def _resumed(table: str, seconds: float | None, slices: int, left: float | None) -> Deadline:
    begun = None if left is None or seconds is None else time.monotonic() + left - seconds
    return Deadline(table, seconds, slices, begun)


NEVER = Deadline("", None)
"""The deadline of a search without a time limit."""
