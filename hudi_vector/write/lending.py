"""Blobs that are there already and that a write refers to: cleaners are made to see it before the commit."""

from __future__ import annotations

import time

import pyarrow.fs as pafs

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.leases import CLEAN, read_lease
from hudi_vector.blobs.manifest import Upload
from hudi_vector.blobs.pins import file_infos, pinned_paths
from hudi_vector.blobs.registry import REGISTERED, read_registry
from hudi_vector.errors import BlobWriteError
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.storage.leases import clock_ms

__all__ = ["borrow", "require_there"]

_PATIENCE_MS = 600_000
_PAUSE_S = 1.0


def borrow(
    upload: Upload, lenders: tuple[str, ...], options: StorageOptions, patience_ms: int = _PATIENCE_MS
) -> list[str]:
    """Make sure that no cleaner takes what a write refers to, from now on.

    The manifest names these files. A sweep that begins from now on reads it and keeps them. One of another table that
    began before holds its lease until it ends, and is waited for; one of this table has kept them because the rows they
    were copied from were still retained, or else they are found missing, here or after the commit.

    Args:
        upload: The write, with its pins published.
        lenders: The tables that it may refer to.
        options: How storage is opened.
        patience_ms: How long to wait for a sweep, milliseconds.

    Returns:
        The files of both kinds, by URI.

    Raises:
        BlobWriteError: A table is not registered any more, its cleaner does not end, or a file is gone.
    """
    if not upload.pins:
        return []
    area = BlobArea(upload.table, lenders)
    files = set(map(area.file, pinned_paths(upload, options)))
    owners = {uri: owner for uri in files if (owner := area.lender(uri))}
    for owner in sorted(set(owners.values())):
        _await_sweep(owner, options, patience_ms)
        if read_registry(owner, options).get(upload.table) != REGISTERED:
            raise BlobWriteError(
                f"nothing was written: '{upload.table}' is not registered with '{owner}' any more, and refers to its "
                "blobs; register both tables again, or write the bytes"
            )
    kept = sorted({*owners, *filter(area.owns, files)})
    require_there(kept, options, "nothing was written")
    return kept


def require_there(uris: list[str], options: StorageOptions, outcome: str) -> None:
    """Make sure that files are there.

    Args:
        uris: The files.
        options: How storage is opened.
        outcome: What became of the write, for the message.

    Raises:
        BlobWriteError: One is gone.
    """
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
