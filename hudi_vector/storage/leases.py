"""The clock of leases, the text that names a lease's holder, and the thread that renews a lease."""

from __future__ import annotations

import getpass
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType

from hudi_vector.errors import HudiVectorError

__all__ = ["Renewals", "clock_ms", "this_process"]

_LOG = logging.getLogger(__name__)
_RENEWALS = 3  # per duration of the lease


def clock_ms() -> int:
    """Return the milliseconds since 1970, UTC, by this machine's clock."""
    return time.time_ns() // 1_000_000


def this_process() -> str:
    """Return a description of this process for readers of a lease that it holds."""
    return f"process {os.getpid()} of {_user()} on {socket.gethostname()}"


class Renewals:
    """A context manager that renews a lease in the background, three times per duration of the lease.

    A failed renewal is only logged: the next one may succeed, and the holder checks the lease before each step that
    matters. `what` names the lease in the log, `renew` prolongs the lease, and `lease_ms` is its duration in
    milliseconds.

    Example:
        >>> with Renewals("the lease of an example", lambda: None, lease_ms=60_000):
        ...     pass
    """

    def __init__(self, what: str, renew: Callable[[], object], lease_ms: int) -> None:
        self._what = what
        self._renew = renew
        self._pause = lease_ms / 1000 / _RENEWALS
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="hudi-vector-lease", daemon=True)

    def __enter__(self) -> Renewals:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(self._pause):
            try:
                self._renew()
            except (HudiVectorError, OSError) as problem:
                _LOG.warning("%s was not renewed: %s", self._what, problem)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return f"user {os.getuid()}"
