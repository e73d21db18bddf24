"""The parts of an index that searches need, kept in the process's cache: the joined view and the key hashes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.files import (
    load_model,
    load_segment,
    load_segment_keys,
    model_uri,
    pack_uri,
    segment_content,
    segment_shape,
    segment_uri,
)
from hudi_vector.index.kinds.candidates import View
from hudi_vector.index.kinds.faiss_library import is_installed, library
from hudi_vector.index.kinds.joined import AnySegment, joined_view
from hudi_vector.index.kinds.model import IndexModel
from hudi_vector.index.manifest import ManifestEntry, PackPlace
from hudi_vector.index.packs.layout import PackHead, read_head
from hudi_vector.index.packs.lists import PackFile, stored_view
from hudi_vector.index.packs.stored import (
    head_content,
    head_of,
    keys_in,
    packs_of,
    read_segments,
    require_places,
)
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.cache import note, process_cache
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.storage import Storage, StorageOptions, open_storage
from hudi_vector.storage.parallel import ahead
from hudi_vector.table.recent import Recent

__all__ = [
    "damaged_segments",
    "forget_view",
    "kept_view",
    "load_key_hashes",
    "load_view",
    "read_ahead",
]

_Begin = tuple[IndexModel, Sequence[tuple[PackFile, bytes]]]

_AHEAD_BYTES = 8 << 20
"""Heads of packs are read before a search needs them up to so many bytes."""

_LOADING: Recent[tuple[object, ...], threading.Lock] = Recent(256)


def load_view(
    folder: str,
    model_id: str,
    entries: Sequence[ManifestEntry],
    options: StorageOptions,
    keep: bool,
    *,
    whole: bool = False,
) -> View:
    """Return the joined view of segments, read from their files or, with `keep`, taken from the process's cache.

    Candidates refer to segments by their position in `entries`; further segments of the same packs follow. Lists of
    packs are read when a search needs them; all are read at once with `whole`.
    Raises DataFileError if the model or a segment is missing or damaged, and MissingDependencyError if the kind needs
    faiss and it is not installed.
    """
    if not keep:
        return _joined(folder, model_id, entries, options, whole)
    key = _key(folder, model_id, entries)
    # Without the lock, concurrent threads would each build a view.
    with _LOADING.first(key, threading.Lock()):
        found = kept_view(folder, model_id, entries)
        note("segments", *(entry.segment for entry in entries), is_kept=found is not None)
        if found is None:
            found = _joined(folder, model_id, entries, options, whole)
            process_cache().put(key, found, found.nbytes)
    return found


def forget_view(folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> None:
    """Remove a view from the process's cache: a list of it could not be read."""
    process_cache().forget(_key(folder, model_id, entries))


def _joined(folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions, whole: bool) -> View:
    storage, packs = open_storage(folder, options), packs_of(entries)
    if not packs or any(entry.pack is None for entry in entries):
        return _joined_whole(storage, folder, model_id, entries)
    model, opened = _begin(storage, folder, model_id, list(packs))
    heads = [
        read_head(content, model, file.uri, place.bytes) for (file, content), place in zip(opened, packs, strict=True)
    ]
    view = stored_view(model, [file for file, _ in opened], heads, _places(heads, packs.values(), entries))
    if whole and view.lists is not None:
        view.lists.need(None)
    return view


def read_ahead(folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions) -> None:
    """Read what the first search of an index begins with: its model, and the heads of its packs if they are small.

    They are in the process's cache until that search takes them, and are not read ahead again while the cache remembers
    it. Raises DataFileError if one cannot be read.
    """
    if process_cache().get(_begun_key(folder, model_id)) is not None:
        return
    packs = list(packs_of(entries))
    is_small = sum(place.head for place in packs) <= min(_AHEAD_BYTES, process_cache().budget)
    if packs and is_small and all(entry.pack is not None for entry in entries):
        storage = open_storage(folder, options)
        if is_installed():
            storage.begun(partial(library, "ivf_sq8"))  # takes a tenth of a second, without a request
        model, opened = _read_begin(storage, folder, model_id, packs)
        nbytes = model.centroids.nbytes + sum(len(content) for _, content in opened)
        held = {place.name: one for place, one in zip(packs, opened, strict=True)}
        process_cache().put(_ahead_key(folder, model_id), (model, held), nbytes)
        process_cache().put(_begun_key(folder, model_id), True, 64)


def _begin(storage: Storage, folder: str, model_id: str, packs: Sequence[PackPlace]) -> _Begin:
    """Return a model, and packs with the bytes of their heads; what was read ahead is taken out of the cache."""
    found: tuple[IndexModel, dict[str, tuple[PackFile, bytes]]] | None
    found = process_cache().get(_ahead_key(folder, model_id))
    if found is None or any(place.name not in found[1] for place in packs):
        return _read_begin(storage, folder, model_id, packs)
    process_cache().forget(_ahead_key(folder, model_id))
    return found[0], [found[1][place.name] for place in packs]


def _read_begin(storage: Storage, folder: str, model_id: str, packs: Sequence[PackPlace]) -> _Begin:
    """Read a model, and packs with the bytes of their heads, all at once."""
    model, *opened = storage.together(
        partial(load_model, storage, folder, model_id),
        *(partial(head_content, storage, folder, place) for place in packs),
    )
    return model, opened


def _begun_key(folder: str, model_id: str) -> tuple[object, ...]:
    return ("index begun", folder, model_id)


def _ahead_key(folder: str, model_id: str) -> tuple[object, ...]:
    return ("index ahead", folder, model_id)


def _places(
    heads: Sequence[PackHead], of_packs: Iterable[Sequence[ManifestEntry]], entries: Sequence[ManifestEntry]
) -> list[Ints]:
    """Return the place in a view of each segment of each pack: that among `entries`, or behind them if it is not there.

    `of_packs` has the entries of each pack. Raises DataFileError if a segment is not where its entry says.
    """
    place_of, more, places = {entry.segment: place for place, entry in enumerate(entries)}, len(entries), []
    for head, own in zip(heads, of_packs, strict=True):
        require_places(head, own)
        numbers = np.full(len(head.files), -1, np.int64)
        for entry in own:
            assert entry.pack is not None
            numbers[entry.pack.number] = place_of[entry.segment]
        others = np.flatnonzero(numbers < 0)
        numbers[others] = np.arange(more, more + len(others))
        more += len(others)
        places.append(numbers)
    return places


def _joined_whole(storage: Storage, folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> View:
    """Return the view of segments of which some have separate files; all of them are read.

    Each of these files is checked while the one before it is joined, and released when it is joined itself.
    """
    alone = [entry for entry in entries if entry.pack is None]
    model, *contents = storage.together(
        partial(load_model, storage, folder, model_id),
        *(partial(segment_content, storage, folder, entry.segment, entry.bytes) for entry in alone),
    )
    held = dict(zip((entry.segment for entry in alone), contents, strict=True))
    del contents
    in_packs: dict[str, AnySegment] = {}
    read = read_segments(storage, folder, model, [entry for entry in entries if entry.pack is not None])
    for name, found in read.items():
        if isinstance(found, DataFileError | UnsupportedTableError):
            raise found
        in_packs[name] = found[0]

    def loaded(entry: ManifestEntry) -> AnySegment:
        if entry.segment in in_packs:
            return in_packs.pop(entry.segment)
        return load_segment(storage, folder, entry.segment, model, entry.file, held.pop(entry.segment))

    shapes = None
    if model.codes != "graph":
        shapes = [
            segment_shape(folder, entry.segment, model, held[entry.segment]) if entry.segment in held else
            in_packs[entry.segment].shape for entry in entries
        ]  # fmt: skip
    return joined_view(model, ahead(partial(loaded, entry) for entry in entries), shapes)


def damaged_segments(
    folder: str, model_id: str, entries: Sequence[ManifestEntry], options: StorageOptions
) -> dict[str, str]:
    """Return why segments cannot be read, by segment name; if the model cannot be read, all are returned.

    They are read from where they are stored, since what the cache on disk has of them may be what is damaged.
    """
    storage = open_storage(folder, options)
    alone = [segment_uri(folder, entry.segment) for entry in entries if entry.pack is None]
    packs = [pack_uri(folder, place.name) for place in packs_of(entries)]
    storage.forget_kept([model_uri(folder, model_id), *packs, *alone])
    try:
        model = load_model(storage, folder, model_id)
    except (DataFileError, UnsupportedTableError) as problem:
        return {entry.segment: str(problem) for entry in entries}
    read = read_segments(storage, folder, model, entries)
    return {
        name: str(found) for name, found in read.items() if isinstance(found, DataFileError | UnsupportedTableError)
    }


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
        storage = open_storage(folder, options)
        if entry.pack is None:
            found = load_segment_keys(storage, folder, entry.segment, entry.file, entry.bytes)
        else:
            found = _packed_keys(storage, folder, entry, entry.pack)
        if keep and found is not None:
            # Views would keep the mapped file's disk space in use after the file is deleted.
            found = found.copy()
            process_cache().put(key, found, found.nbytes)
    return found


def _packed_keys(storage: Storage, folder: str, entry: ManifestEntry, place: PackPlace) -> KeyHashes | None:
    key = ("pack head", folder, place.name)
    opened: tuple[PackFile, PackHead] | None = process_cache().get(key)
    if opened is None:
        opened = head_of(storage, folder, place, load_model(storage, folder, place.model_id))
        process_cache().put(key, opened, opened[1].nbytes)
    file, head = opened
    require_places(head, [entry])
    return keys_in(file, head, place.number)


def _key(folder: str, model_id: str, entries: Sequence[ManifestEntry]) -> tuple[object, ...]:
    lie = tuple((entry.segment, None if entry.pack is None else entry.pack.name) for entry in entries)
    return ("index view", folder, model_id, lie)
