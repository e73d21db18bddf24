"""What searches need of an index, kept in the process's cache between them: the joined view, and hashes of keys."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.files import load_model, load_segment, load_segment_keys
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
    """Read segments and join them, or take the view that is kept.

    Args:
        folder: The index's folder.
        model_id: The model of the segments.
        entries: The segments, and the files they were made of.
        options: How the storage is opened.
        keep: Whether the view is kept in the process's cache.

    Returns:
        The view; candidates name segments by their places.

    Raises:
        DataFileError: The model or a segment is gone or damaged.
        MissingDependencyError: The kind needs faiss, which is not installed.
    """
    if not keep:
        return _joined(folder, model_id, entries, options)
    key = _key(folder, model_id, entries)
    # Threads that ask at once would each hold one.
    with _LOADING.first(key, threading.Lock()):
        found = kept_view(folder, model_id, entries)
        if found is None:
            found = _joined(folder, model_id, entries, options)
            process_cache().put(key, found, found.nbytes)
    return found


def _joined(folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions) -> View:
    storage = open_storage(folder, options)
    model = load_model(storage, folder, model_id)
    return joined_view(model, [load_segment(storage, folder, entry.segment, model, entry.file) for entry in entries])


def damaged_segments(
    folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions
) -> dict[str, str]:
    """What is wrong with segments: those that cannot be read, each with the reason.

    Args:
        folder: The index's folder.
        model_id: The model of the segments.
        entries: The segments.
        options: How the storage is opened.

    Returns:
        The reason by the segment's name; without the model, all of them.
    """
    storage, wrong = open_storage(folder, options), {}
    try:
        model = load_model(storage, folder, model_id)
    except (DataFileError, UnsupportedTableError) as problem:
        return {entry.segment: str(problem) for entry in entries}
    for entry in entries:
        try:
            load_segment(storage, folder, entry.segment, model, entry.file)
        except (DataFileError, UnsupportedTableError) as problem:
            wrong[entry.segment] = str(problem)
    return wrong


def kept_view(folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> View | None:
    """The view of segments that is in the process's cache, or None.

    Args:
        folder: The index's folder.
        model_id: The model of the segments.
        entries: The segments.
    """
    found: View | None = process_cache().get(_key(folder, model_id, entries))
    return found


def load_key_hashes(folder: str, entry: ManifestEntry, options: StorageOptions, keep: bool) -> KeyHashes | None:
    """The hashes of the record keys of a base file, out of its segment; codes are not read for them.

    Args:
        folder: The index's folder.
        entry: The segment, and the file it was made of.
        options: How the storage is opened.
        keep: Whether they are kept in the process's cache.

    Returns:
        The hashes; None where the segment has none.

    Raises:
        DataFileError: The segment is gone or damaged.
        UnsupportedTableError: Another version of this package wrote it.
    """
    key = ("key hashes", folder, entry.segment)
    found: KeyHashes | None = process_cache().get(key) if keep else None
    if found is None:
        found = load_segment_keys(open_storage(folder, options), folder, entry.segment, entry.file)
        if keep and found is not None:
            # Views of a mapped file would hold all of it on the disk once it is deleted.
            found = found.copy()
            process_cache().put(key, found, found.nbytes)
    return found


def _key(folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> tuple[object, ...]:
    return ("index view", folder, model_id, tuple(entry.segment for entry in entries))
