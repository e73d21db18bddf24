"""Who reads which generation of an index: leases of readers, small side files beside the manifests.

A lease is advice (decision 13). A search whose segment is gone scans that file; the lease only keeps this from
happening to a reader that goes on with a generation which is no longer the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudi_vector.errors import UnsupportedTableError
from hudi_vector.index.manifest import manifest_named
from hudi_vector.storage import FileInfo, Storage, join
from hudi_vector.storage.leases import this_process
from hudi_vector.storage.side_files import generation_of, is_side_file, publish, unseal
from hudi_vector.storage.stored_values import shaped

__all__ = ["ReaderLease", "Readers", "needed_by", "publish_lease", "readers_folder", "readers_of"]

_KIND, _VERSION = "index-reader", 1
_HOUR_MS = 3_600_000
_SKEW_MS = 300_000
"""By how much the clocks of a reader and of whoever looks at its lease may differ."""


@dataclass(frozen=True)
class ReaderLease:
    """A generation of an index that somebody reads.

    `manifest` is the name of its manifest, `key` the list of files that is of; `holder` says in words who reads, and
    `until_ms` until when that is so, milliseconds since 1970.
    """

    key: str
    manifest: str
    holder: str
    until_ms: int


@dataclass(frozen=True)
class Readers:
    """What lies in the folder of the leases of an index.

    `leases` hold; `unclear` are sentences about files that may be leases which hold; `over` can go.
    """

    leases: tuple[ReaderLease, ...]
    unclear: tuple[str, ...]
    over: tuple[FileInfo, ...]


def readers_folder(folder: str, key: str = "") -> str:
    """Where the leases of the readers of an index lie.

    Args:
        folder: The index's folder.
        key: The list of files it is of, where several share the folder; none for all of them.
    """
    return join(folder, "readers", key)


def publish_lease(storage: Storage, folder: str, manifest: str, key: str, until_ms: int) -> str:
    """Tell others that this process reads a generation.

    Args:
        storage: The file system.
        folder: The index's folder.
        manifest: The name of the generation's manifest.
        key: The list of files it is of, where several share the folder.
        until_ms: Until when, milliseconds since 1970.

    Returns:
        The lease's URI.
    """
    place = readers_folder(folder, key)
    body = {"manifest": manifest, "holder": this_process(), "until_ms": until_ms}
    return join(place, publish(storage, place, _KIND, _VERSION, generation_of(manifest), body))


def readers_of(storage: Storage, folder: str, grace_ms: int, now_ms: int) -> Readers:
    """Who reads an index, of all lists of files that share its folder.

    A lease holds for five minutes longer than it says, since clocks differ. It can go once it ended longer ago than
    the grace or an hour, whichever is shorter, and than these five minutes. A file that cannot be read may be a lease
    that holds as long as it is younger than the grace, or than an hour where the grace is shorter.

    Args:
        storage: The file system.
        folder: The index's folder.
        grace_ms: How old a file that nobody needs must be to be deleted, milliseconds.
        now_ms: The time, milliseconds since 1970.

    Returns:
        The readers.
    """
    leases, unclear, over = [], [], []
    place = readers_folder(folder)
    for file in storage.list_files(place, recursive=True):
        is_young = now_ms - file.mtime_ns // 1_000_000 < max(grace_ms, _HOUR_MS)
        if not is_side_file(file.name):
            if not is_young:  # what a process that died left half written
                over.append(file)
            continue
        try:
            lease = _read(storage, place, file)
        except FileNotFoundError:  # given back since the listing, or followed by one that is listed as well
            continue
        except (OSError, UnsupportedTableError, ValueError) as problem:
            if is_young:
                unclear.append(f"the lease '{file.uri}' cannot be read: {problem}")
            else:
                over.append(file)
            continue
        if now_ms < lease.until_ms + _SKEW_MS:
            leases.append(lease)
        elif now_ms >= lease.until_ms + max(_SKEW_MS, min(grace_ms, _HOUR_MS)):
            over.append(file)
    return Readers(tuple(leases), tuple(unclear), tuple(over))


def needed_by(storage: Storage, folder: str, leases: Sequence[ReaderLease]) -> tuple[set[str], list[str]]:
    """What leases keep.

    Args:
        storage: The file system.
        folder: The index's folder.
        leases: The leases.

    Returns:
        The names of manifests, models and segments, and a sentence for each lease of which that cannot be told.
    """
    needed, unclear = set(), []
    for manifest, key, holder in sorted({(lease.manifest, lease.key, lease.holder) for lease in leases}):
        try:
            found = manifest_named(storage, folder, manifest, key)
        except (OSError, UnsupportedTableError) as problem:
            unclear.append(f"{holder} reads '{manifest}', which cannot be read: {problem}")
            continue
        if found is None:
            unclear.append(f"{holder} reads '{manifest}', which is gone or damaged")
            continue
        needed |= {manifest, f"{found.model_id}.arrow", *(entry.segment for entry in found.entries)}
    return needed, unclear


def _read(storage: Storage, place: str, file: FileInfo) -> ReaderLease:
    body = unseal(_KIND, _VERSION, storage.read(file.uri), file.uri)
    if body is None:
        raise ValueError("it is damaged")
    key = file.uri.removeprefix(f"{place}/").rpartition("/")[0]
    lease = shaped(ReaderLease, body, file.uri, key=key)
    if not is_side_file(lease.manifest):
        raise ValueError("it names no manifest")
    return lease
