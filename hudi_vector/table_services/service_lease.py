"""The lease that prevents two runs of a service on one table.

The lease is the newest whole side file of ``{table}/.hoodie/blob_service/v1/leases/{service}/``; it says who runs and
until when. The holder renews it in the background. If the holder dies, another run can take over once the lease has
run out. The lease is advisory: two runs that begin at the same moment may both hold it until the next renewal. That
does no harm, because every step of a service can be repeated.

A holder gives the lease back by removing its states, and the older ones that it found: a lease without a state is free.
It removes nothing that another run has published, so it need not look first.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from hudi_vector.blobs.leases import LEASE, LEASES, HeldLease, lease_states, read_lease
from hudi_vector.errors import RefusedError
from hudi_vector.storage import StorageOptions, join, normalise, open_storage
from hudi_vector.storage.leases import Renewals, clock_ms, this_process

__all__ = ["LEASE_MS", "ServiceLease"]

LEASE_MS = 600_000
"""The milliseconds for which a lease holds without a renewal."""

_LOG = logging.getLogger(__name__)
_LOCAL = StorageOptions()


class ServiceLease:
    """A lease to run a service, held for the length of the block: ``with ServiceLease(table, "clean") as lease``.

    Entering raises RefusedError if another run holds the lease. A lease that cannot be released on exit is logged and
    runs out by itself.

    Args:
        table: The table's base path.
        service: The name of the service; services that change the same files share one name.
        options: Options to open storage.
        lease_ms: How long the lease holds without a renewal, milliseconds.
        now_ms: The clock, in milliseconds since 1970, for tests.
        meanwhile: A call that only reads, made as soon as the lease is published, while it is looked whether it is
            held; `seen` returns its result.

    Example:
        >>> import tempfile
        >>> with ServiceLease(tempfile.mkdtemp(), "clean") as lease:
        ...     lease.check()
    """

    def __init__(
        self,
        table: str,
        service: str,
        *,
        options: StorageOptions = _LOCAL,
        lease_ms: int = LEASE_MS,
        now_ms: Callable[[], int] = clock_ms,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._table = normalise(table)
        self._service = service
        self._storage = open_storage(self._table, options)
        self._folder = join(self._table, LEASES, service)
        self._lease_ms = lease_ms
        self._now = now_ms
        self._owner = uuid.uuid4().hex
        self._until = 0
        self._meanwhile = meanwhile
        self.seen: Callable[[], Any] = meanwhile
        self._held: tuple[str, HeldLease] | None = None  # the newest state that this run has published
        self._states: list[str] = []  # what is removed when the lease is given back
        self._last: list[Callable[[], object]] = []
        self._lost: str | None = None
        self._renewals = Renewals(f"the lease of the {service} of {self._table}", self.renew, lease_ms)

    def check(self) -> None:
        """Raise RefusedError if the lease ran out or is known to be taken over; storage is not read."""
        if self._lost is None and self._now() >= self._until:
            self._lost = "it was not renewed in time"
        if self._lost is not None:
            raise RefusedError(
                f"the {self._service} of '{self._table}' lost its lease: {self._lost}; what it did is recorded, "
                "so run it again"
            )

    def renew(self) -> None:
        """Prolong the lease; raise RefusedError if it ran out or was taken over.

        An OSError of storage is passed on; the lease then still holds until it runs out.
        """
        found = self._newest()
        if found is None or found.owner != self._owner:
            self._lost = "its files are gone" if found is None else f"{found.holder} has taken it over"
        self.check()
        assert found is not None
        self._publish(found.generation + 1, self._now() + self._lease_ms)

    def __enter__(self) -> ServiceLease:
        self._states, found = lease_states(self._storage, self._table, self._service)
        self._require_free(found)
        self._publish(0 if found is None else found.generation + 1, self._now() + self._lease_ms)
        self.seen = self._storage.begun(self._meanwhile)
        try:
            # Another run may have published the same generation: both see the same file as the newest, one gives up.
            self._require_free(self._newest())
        except BaseException:
            with suppress(OSError):
                self._release()  # or it would hold up the run after the other one
            raise
        self._renewals.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._renewals.__exit__(kind, error, trace)
        self._storage.together(self._release_or_say, *self._last)

    def at_release(self, *calls: Callable[[], object]) -> None:
        """Make calls when the lease is given back, at the same time; what they raise is raised then."""
        self._last += calls

    def _release_or_say(self) -> None:
        try:
            self._release()
        except OSError as problem:
            _LOG.warning("the lease of the %s of %s runs out by itself: %s", self._service, self._table, problem)

    def _require_free(self, found: HeldLease | None) -> None:
        if found is not None and found.owner != self._owner and self._now() < found.until_ms:
            until = datetime.fromtimestamp(found.until_ms / 1000, timezone.utc)
            raise RefusedError(
                f"another {self._service} of '{self._table}' is under way: {found.holder} holds its lease until "
                f"{until:%Y-%m-%d %H:%M:%S} UTC; wait until it has ended, or until then if that process died"
            )

    def _release(self) -> None:
        """Remove the states of the lease, on a local disk the newest one last."""
        states, self._states = sorted(self._states), []
        self._storage.remove_all(join(self._folder, name) for name in states)

    def _publish(self, generation: int, until_ms: int) -> None:
        lease = HeldLease(generation, self._owner, this_process(), until_ms)
        name = LEASE.publish(self._storage, self._folder, lease, generation)
        self._held, self._until = (name, lease), until_ms
        self._states.append(name)

    def _newest(self) -> HeldLease | None:
        return read_lease(self._storage, self._table, self._service, self._held)
