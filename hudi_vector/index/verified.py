"""Whether the files that an index was made of are still what they were, by size, time and footer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hudi_vector.errors import DataFileError
from hudi_vector.index.catalog import Index
from hudi_vector.index.files import fingerprint_of
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.storage import FileInfo, StorageOptions, open_storage

__all__ = ["verified"]

_LOG = logging.getLogger("hudi_vector.index")
_THREADS = 16
_NEVER = -1


def verified(index: Index, files: Sequence[FileInfo], options: StorageOptions) -> Index:
    """An index without the segments of files that were written anew since; these are scanned, and logged as a warning.

    Args:
        index: The index.
        files: The files as they are listed now.
        options: How the storage is opened.

    Returns:
        The index, in which the entries of such files fit no file.
    """
    covered = index.covered(files)
    changed = {index.entry_at(file): file for file in files if index.entry_at(file) and not index.entry_of(file)}
    changed |= {
        entry: file for (file, entry), same in zip(covered, _same(index, covered, options), strict=True) if not same
    }
    if not changed:
        return index
    _LOG.warning(
        "%d of the %d files of the index '%s' were written anew since it was made, '%s' the first; they are scanned "
        "until hudi_vector.index.refresh",
        len(changed),
        len(files),
        index.name,
        next(iter(changed.values())).uri,
    )
    entries = tuple(_left_out(entry) if entry in changed else entry for entry in index.manifest.entries)
    return replace(index, manifest=replace(index.manifest, entries=entries))


def _same(index: Index, covered: Sequence[tuple[FileInfo, ManifestEntry]], options: StorageOptions) -> list[bool]:
    """Whether the footers are those that were indexed; a file that cannot be read is for its reader to tell."""

    def same(one: tuple[FileInfo, ManifestEntry]) -> bool:
        file, entry = one
        try:
            return fingerprint_of(open_storage(file.uri, options), index.table_uri, file) == entry.file
        except DataFileError:
            return False

    if len(covered) < 2:
        return [same(one) for one in covered]
    with ThreadPoolExecutor(min(_THREADS, len(covered))) as threads:
        return list(threads.map(same, covered))


def _left_out(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, mtime_ns=_NEVER))
