"""The clock that leases go by, who holds the lease of a service, and the thread that renews one while it is needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import Storage, join
from hudi_vector.storage.side_files import generation_of, newest

__all__ = ["CLEAN", "LEASES", "LEASE_KIND", "LEASE_VERSION", "HeldLease", "Renewals", "clock_ms", "read_lease"]

LEASES = ".hoodie/blob_service/v1/leases"
LEASE_KIND, LEASE_VERSION = "lease", 1
CLEAN = "clean"
"""The service whose lease all that moves or deletes blobs shares."""

_LOG = logging.getLogger(__name__)
_RENEWALS = 3  # for each length of the lease
_LOOKS = 5


def clock_ms() -> int:
    """Milliseconds since 1970, UTC, by this machine's clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class HeldLease:
    """The newest state of a service's lease: whose it is, in words too, and until when (milliseconds, UTC)."""

    generation: int
    owner: str
    holder: str
    until_ms: int


def read_lease(storage: Storage, table: str, service: str) -> HeldLease | None:
    """Who holds the lease of a service, or held it last.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.
        service: The service.

    Returns:
        The newest state, None where there is none that is whole.
    """
    for _ in range(_LOOKS - 1):
        try:
            return _look(storage, table, service)
        except FileNotFoundError:  # it was followed and removed between the listing and the read
            continue
    return _look(storage, table, service)


def _look(storage: Storage, table: str, service: str) -> HeldLease | None:
    found = newest(storage, join(table, LEASES, service), LEASE_KIND, LEASE_VERSION)
    if found is None:
        return None
    body: dict[str, Any] = found[1]
    return HeldLease(generation_of(found[0]), **body)


class Renewals:
    """Renews a lease in the background, for as long as the block.

    A renewal that fails is only logged: the next one may succeed, and whoever works under the lease looks at it before
    each step that counts.

    Args:
        what: Whose lease it is, for the log.
        renew: Prolongs it.
        lease_ms: How long it holds without a renewal, milliseconds.

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
