"""The check that the base files of an index are unchanged since it was made, by size, mtime and footer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from hudi_vector.errors import DataFileError
from hudi_vector.index.catalog import Index
from hudi_vector.index.files import fingerprint_of
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.storage import FileInfo, StorageOptions, open_storage, parallel

__all__ = ["is_as_indexed", "verified", "was_as_indexed"]

_LOG = logging.getLogger("hudi_vector.index")
_THREADS = 16
_NEVER = -1
_MOST_COMPARED = 1 << 18

# Results of comparisons by URI, mtime and segment.
_SAME: dict[tuple[str, int, str], bool] = {}


def verified(index: Index, files: Sequence[FileInfo], options: StorageOptions) -> Index:
    """Return an index without the segments of files that were rewritten since, and log a warning if there are any.

    The entries of such files match no file, so that these files are scanned.
    """
    covered = index.covered(files)
    changed = {index.entry_at(file): file for file in files if index.entry_at(file) and not index.entry_of(file)}
    changed |= {entry: file for (file, entry), same in zip(covered, _same(covered, options), strict=True) if not same}
    if not changed:
        return index
    _LOG.warning(
        "%d of the %d files of the index '%s' were rewritten since it was made, '%s' the first; they are scanned "
        "until hudi_vector.index.refresh",
        len(changed),
        len(files),
        index.name,
        next(iter(changed.values())).uri,
    )
    entries = tuple(_left_out(entry) if entry in changed else entry for entry in index.manifest.entries)
    return replace(index, manifest=replace(index.manifest, entries=entries))


def _same(covered: Sequence[tuple[FileInfo, ManifestEntry]], options: StorageOptions) -> list[bool]:
    """Return, for each file, whether its footer is the indexed one."""
    return parallel.each(lambda one: is_as_indexed(one[0], one[1], options), covered, most=_THREADS)


def was_as_indexed(file: FileInfo, entry: ManifestEntry) -> bool | None:
    """Return the result of an earlier `is_as_indexed` in this process for the file as listed, or None without one.

    A base file of a Hudi table is not compared: a plan has its segment only if name and size are the indexed ones.
    """
    return entry.file.is_named_once or _SAME.get((file.uri, file.mtime_ns, entry.segment))


def is_as_indexed(file: FileInfo, entry: ManifestEntry, options: StorageOptions) -> bool:
    """Return True if a base file has the size and footer that were indexed.

    Returns False if the file cannot be read; whoever reads it later reports the error.
    """
    try:
        found = fingerprint_of(open_storage(file.uri, options), "", file)
    except DataFileError:
        return False
    same = (found.size, found.footer) == (entry.file.size, entry.file.footer)
    if len(_SAME) >= _MOST_COMPARED:
        _SAME.clear()
    _SAME[file.uri, file.mtime_ns, entry.segment] = same
    return same


def _left_out(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, mtime_ns=_NEVER))
