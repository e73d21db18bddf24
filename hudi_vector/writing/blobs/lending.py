"""Protection of the existing blobs that a write refers to.

Before the commit, the write makes sure that cleaners see its references to existing blobs. After the commit, it checks
that all referenced containers exist.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pyarrow.fs as pafs

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.leases import CLEAN, read_lease
from hudi_vector.blobs.registry import REGISTERED, read_registry
from hudi_vector.blobs.uploads.external_files import file_infos, pinned_paths
from hudi_vector.blobs.uploads.manifest import StagedContainer, Upload
from hudi_vector.errors import BlobWriteError, number_of
from hudi_vector.storage import StorageOptions, join, open_storage
from hudi_vector.storage.leases import clock_ms

__all__ = ["borrow", "borrowed", "require_stored", "require_there"]

_PATIENCE_MS = 600_000
_PAUSE_S = 1.0


def borrow(
    upload: Upload, lenders: tuple[str, ...], options: StorageOptions, patience_ms: int = _PATIENCE_MS
) -> list[str]:
    """Make sure that no cleaner removes the existing files that a write refers to; return their URIs.

    The manifest names these files, so every sweep that begins from now on keeps them. An earlier sweep of a lender
    holds that table's lease until it ends, and is waited for. An earlier sweep of this table has kept the files if the
    rows they were copied from were still retained; otherwise the files are found missing here or after the commit.

    Args:
        upload: The write, with its pins published.
        lenders: The tables to whose blobs it may refer.
        options: Hadoop's storage settings.
        patience_ms: How long to wait for a sweep, in milliseconds.

    Raises:
        BlobWriteError: A lender no longer lists the table as registered, its sweep does not end in time, or a file is
            gone.
    """
    if not upload.pins:
        return []
    area = BlobArea(upload.table, lenders)
    kept = borrowed(upload, lenders, options)
    for owner in sorted({owner for uri in kept if (owner := area.lender(uri))}):
        _await_sweep(owner, options, patience_ms)
        if read_registry(owner, options).get(upload.table) != REGISTERED:
            raise BlobWriteError(
                f"nothing was written: '{upload.table}' is not registered with '{owner}' any more, and refers to its "
                "blobs; register both tables again, or write the bytes"
            )
    require_there(kept, options, "nothing was written")
    return kept


def borrowed(upload: Upload, lenders: tuple[str, ...], options: StorageOptions) -> list[str]:
    """Return the URIs, sorted, of the files that existed before a write and that its rows refer to.

    Only files in the blob areas of the table and of its lenders are returned. The write must have published its pins.
    """
    area = BlobArea(upload.table, lenders)
    files = set(map(area.file, pinned_paths(upload, options)))
    return sorted(uri for uri in files if area.lender(uri) or area.owns(uri))


def require_stored(
    table: str, containers: Iterable[WrittenContainer | StagedContainer], options: StorageOptions, outcome: str
) -> None:
    """Check that the containers of a committed write exist and have their size.

    `table` is the normalised base path; `outcome` begins the message and says what became of the write. Raises
    BlobWriteError if a container is gone or has another size.
    """
    made = list(containers)
    infos = file_infos([join(table, each.path) for each in made], options, lenient=False)
    for container, info in zip(made, infos, strict=True):
        size = None if info is None or info.type != pafs.FileType.File else int(info.size)
        if size != container.bytes:
            raise BlobWriteError(
                f"{outcome}, but its container '{container.path}' "
                + ("is gone" if size is None else f"has {number_of(size, 'byte')} instead of {container.bytes}")
                + "; something removed it before that was noted: bring it back with restore_blobs, or write the rows "
                "again"
            )


def require_there(uris: list[str], options: StorageOptions, outcome: str) -> None:
    """Check that files exist; raise BlobWriteError, with a message that begins with `outcome`, if one is gone."""
    for uri, info in zip(uris, file_infos(uris, options, lenient=False), strict=True):
        if info is None or info.type != pafs.FileType.File:
            raise BlobWriteError(
                f"{outcome}: '{uri}', which its rows refer to, is gone; bring it back with restore_blobs of the "
                "table it is of, or write the rows again with the bytes"
            )


def _await_sweep(owner: str, options: StorageOptions, patience_ms: int) -> None:
    storage, began = open_storage(owner, options), clock_ms()
    while (held := read_lease(storage, owner, CLEAN)) is not None and clock_ms() < held.until_ms:
        if clock_ms() - began >= patience_ms:
            raise BlobWriteError(
                f"nothing was written: {held.holder} has been cleaning '{owner}' for {patience_ms // 1000} s, and the "
                "rows refer to its blobs; write again when that has ended"
            )
        time.sleep(_PAUSE_S)
