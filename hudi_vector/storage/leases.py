"""The clock that leases go by, who holds one, and the thread that renews one while it is needed."""

from __future__ import annotations

import getpass
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from hudi_vector.errors import HudiVectorError

__all__ = ["Renewals", "clock_ms", "this_process"]

_LOG = logging.getLogger(__name__)
_RENEWALS = 3  # for each length of the lease


def clock_ms() -> int:
    """Milliseconds since 1970, UTC, by this machine's clock."""
    return time.time_ns() // 1_000_000


def this_process() -> str:
    """This process in words, for those who find a lease that it holds."""
    return f"process {os.getpid()} of {_user()} on {socket.gethostname()}"


class Renewals:
    """Renews a lease in the background, for as long as the block.

    A renewal that fails is only logged: the next one may succeed, and whoever works under the lease looks at it before
    each step that counts.

    Args:
        what: Whose lease it is, for the log.
        renew: Prolongs it.
        lease_ms: How long it holds without a renewal, milliseconds.
        give_back: What the thread does last, if anything.

    Example:
        >>> with Renewals("the lease of an example", lambda: None, lease_ms=60_000):
        ...     pass
    """

    def __init__(
        self, what: str, renew: Callable[[], object], lease_ms: int, give_back: Callable[[], object] | None = None
    ) -> None:
        self._what = what
        self._renew = renew
        self._give_back = give_back
        self._pause = lease_ms / 1000 / _RENEWALS
        self._ended = False
        # The one queue that a finaliser may put to, in whatever thread and at whatever point it runs.
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._keep, name="hudi-vector-lease", daemon=True)

    def __enter__(self) -> Renewals:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self.join()

    def soon(self) -> None:
        """Renew now and not when it is time, in the background still."""
        self._calls.put(None)

    def end(self) -> None:
        """Let the thread come to its end; nobody waits for it, so that finalisers may call this."""
        self._ended = True
        self._calls.put(None)

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of the thread.

        Args:
            seconds: How long at most; None for as long as it takes.
        """
        self._thread.join(seconds)

    def _keep(self) -> None:
        while self._goes_on():
            try:
                self._renew()
            except (HudiVectorError, OSError) as problem:
                _LOG.warning("%s was not renewed: %s", self._what, problem)
        if self._give_back is not None:
            self._give_back()

    def _goes_on(self) -> bool:
        with suppress(queue.Empty):
            self._calls.get(timeout=self._pause)
        return not self._ended


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return f"user {os.getuid()}"
