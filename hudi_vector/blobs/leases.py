"""Readers of the leases that a table's services hold."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.storage import Storage, join
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import names_of

__all__ = ["CLEAN", "COMPACT", "LEASE", "LEASES", "HeldLease", "lease_states", "read_lease"]

LEASES = ".hoodie/blob_service/v1/leases"
CLEAN = "clean"
"""The service whose lease everything that moves or deletes blobs must hold."""

COMPACT = "compact"
"""The service whose lease keeps compactions and clusterings of one table from running at the same time."""

_LOOKS = 5


@dataclass(frozen=True)
class HeldLease:
    """The newest state of a service's lease.

    `owner` is the holder's id, `holder` a description for messages, and `until_ms` the end in milliseconds since 1970,
    UTC.
    """

    generation: int
    owner: str
    holder: str
    until_ms: int


LEASE = Record("lease", 1, HeldLease, elsewhere=("generation",))


def read_lease(
    storage: Storage, table: str, service: str, held: tuple[str, HeldLease] | None = None
) -> HeldLease | None:
    """Return the newest whole state of a service's lease, or None if there is none.

    The lease may have expired: the state then names its last holder. `table` is the normalised base path. `held` is the
    name and the content of a state that is known, which is not read if it is still the newest. Raises DataFileError if
    the content is not that of a lease.
    """
    return lease_states(storage, table, service, held)[1]


def lease_states(
    storage: Storage, table: str, service: str, held: tuple[str, HeldLease] | None = None
) -> tuple[list[str], HeldLease | None]:
    """Return the names of all states of a service's lease, and what `read_lease` returns."""
    for _ in range(_LOOKS - 1):
        try:
            return _look(storage, table, service, held)
        except FileNotFoundError:  # the holder gave the lease back between the listing and the read
            continue
    return _look(storage, table, service, held)


def _look(
    storage: Storage, table: str, service: str, held: tuple[str, HeldLease] | None
) -> tuple[list[str], HeldLease | None]:
    folder = join(table, LEASES, service)
    names = names_of(storage, folder)
    if held is not None and names[:1] == [held[0]]:
        return names, held[1]
    found = LEASE.newest(storage, folder, names)
    return names, None if found is None else found.value()
