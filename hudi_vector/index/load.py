"""The parts of an index that searches need, kept in the process's cache: the joined view and the key hashes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.files import load_model, load_segment, load_segment_keys, segment_content
from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.kinds.joined import joined_view
from hudi_vector.index.manifest import ManifestEntry
from hudi_vector.read.cache import process_cache
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.storage import StorageOptions, open_storage
from hudi_vector.table.recent import Recent

__all__ = ["damaged_segments", "kept_view", "load_key_hashes", "load_view"]

_LOADING: Recent[tuple[object, ...], threading.Lock] = Recent(256)


def load_view(
    folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions, keep: bool
) -> View:
    """Return the joined view of segments, read from their files or, with `keep`, taken from the process's cache.

    Candidates refer to segments by their position in `entries`. Raises DataFileError if the model or a segment is
    missing or damaged, and MissingDependencyError if the kind needs faiss and it is not installed.
    """
    if not keep:
        return _joined(folder, model_id, entries, options)
    key = _key(folder, model_id, entries)
    # Without the lock, concurrent threads would each build a view.
    with _LOADING.first(key, threading.Lock()):
        found = kept_view(folder, model_id, entries)
        if found is None:
            found = _joined(folder, model_id, entries, options)
            process_cache().put(key, found, found.nbytes)
    return found


def _joined(folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions) -> View:
    storage = open_storage(folder, options)
    model, *contents = storage.together(
        partial(load_model, storage, folder, model_id),
        *(partial(segment_content, storage, folder, entry.segment, entry.bytes) for entry in entries),
    )
    pairs = zip(entries, contents, strict=True)
    segments = [load_segment(storage, folder, entry.segment, model, entry.file, found) for entry, found in pairs]
    return joined_view(model, segments)


def damaged_segments(
    folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions
) -> dict[str, str]:
    """Return why segments cannot be read, by segment name; if the model cannot be read, all are returned."""
    storage = open_storage(folder, options)
    try:
        model = load_model(storage, folder, model_id)
    except (DataFileError, UnsupportedTableError) as problem:
        return {entry.segment: str(problem) for entry in entries}

    def problem_of(entry: ManifestEntry) -> str | None:
        try:
            load_segment(storage, folder, entry.segment, model, entry.file)
        except (DataFileError, UnsupportedTableError) as problem:
            return str(problem)
        return None

    problems = zip(entries, storage.each(problem_of, entries), strict=True)
    return {entry.segment: problem for entry, problem in problems if problem is not None}


def kept_view(folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> View | None:
    """Return the view of segments from the process's cache, or None."""
    found: View | None = process_cache().get(_key(folder, model_id, entries))
    return found


def load_key_hashes(folder: str, entry: ManifestEntry, options: StorageOptions, keep: bool) -> KeyHashes | None:
    """Return the hashes of a base file's record keys from its segment, without reading codes; None if it has none.

    With `keep`, the process's cache is used. Raises DataFileError if the segment is missing or damaged, and
    UnsupportedTableError if another version of this package wrote it.
    """
    key = ("key hashes", folder, entry.segment)
    found: KeyHashes | None = process_cache().get(key) if keep else None
    if found is None:
        found = load_segment_keys(open_storage(folder, options), folder, entry.segment, entry.file, entry.bytes)
        if keep and found is not None:
            # Views would keep the mapped file's disk space in use after the file is deleted.
            found = found.copy()
            process_cache().put(key, found, found.nbytes)
    return found


def _key(folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> tuple[object, ...]:
    return ("index view", folder, model_id, tuple(entry.segment for entry in entries))
