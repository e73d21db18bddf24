"""Who holds the lease of a service of a table, or held it last."""

from __future__ import annotations

from dataclasses import dataclass

from hudi_vector.storage import Storage, join
from hudi_vector.storage.side_files import generation_of, newest
from hudi_vector.storage.stored_values import shaped

__all__ = ["CLEAN", "COMPACT", "LEASES", "LEASE_KIND", "LEASE_VERSION", "HeldLease", "read_lease"]

LEASES = ".hoodie/blob_service/v1/leases"
LEASE_KIND, LEASE_VERSION = "lease", 1
CLEAN = "clean"
"""The service whose lease all that moves or deletes blobs shares."""

COMPACT = "compact"
"""The service whose lease keeps two compactions of one table apart, and clusterings from both."""

_LOOKS = 5


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

    Raises:
        DataFileError: It says what no lease says.
    """
    for _ in range(_LOOKS - 1):
        try:
            return _look(storage, table, service)
        except FileNotFoundError:  # it was followed and removed between the listing and the read
            continue
    return _look(storage, table, service)


def _look(storage: Storage, table: str, service: str) -> HeldLease | None:
    folder = join(table, LEASES, service)
    found = newest(storage, folder, LEASE_KIND, LEASE_VERSION)
    return None if found is None else shaped(HeldLease, found[1], folder, generation=generation_of(found[0]))
