"""The making of packs, of segments in separate files, and of packs that are small or hold segments of files gone."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.calibration.held_out import Each
from hudi_vector.index.catalog import Index
from hudi_vector.index.files import load_model, pack_uri
from hudi_vector.index.kinds.kinds import KINDS
from hudi_vector.index.kinds.model import IndexModel
from hudi_vector.index.kinds.segment import Segment
from hudi_vector.index.manifest import IndexManifest, ManifestEntry, PackPlace
from hudi_vector.index.packs.layout import pack_content
from hudi_vector.index.packs.stored import head_bytes, head_of, packs_of, read_segments, require_places
from hudi_vector.storage import Storage, StorageOptions, open_storage, scheme_of

__all__ = ["is_to_pack", "packed", "segments_to_repack"]

_LOG = logging.getLogger("hudi_vector.index")
_PACK_BYTES = 64 << 20
_SMALL_BYTES = 16 << 20
"""Packs of fewer bytes are put together."""
_MOST_ROWS = (1 << 32) - 1


def packed(
    folder: str, manifest: IndexManifest, options: StorageOptions, each: Each, names: Iterable[str] | None = None
) -> IndexManifest:
    """Put segments into packs of up to 64 MiB, or of one segment, and return the manifest that says where they lie.

    `names` are the segments to be put into new packs; by default those that `is_to_pack` selects. The files in which
    segments lay stay, since earlier manifests name them; compaction deletes them.
    """
    chosen = None if names is None else frozenset(names)
    wanted = [
        entry
        for entry in manifest.entries
        if (is_to_pack(folder, manifest.kind, entry) if chosen is None else entry.segment in chosen)
    ]
    works = [_Work(folder, manifest.model_id, tuple(group), options) for group in _groups(wanted)]
    made = {entry.segment: entry for entries in (each(_make_pack, works) if works else ()) for entry in entries}
    return replace(manifest, entries=tuple(made.get(entry.segment, entry) for entry in manifest.entries))


def segments_to_repack(index: Index, options: StorageOptions) -> list[str]:
    """Return the names of the segments that should be put into new packs.

    They are those in separate files that `is_to_pack` selects, those in packs that also hold segments of base files
    that are gone, and those in small packs if there are several.
    """
    storage, manifest = open_storage(index.folder, options), index.manifest
    packs = packs_of(manifest.entries)
    separate = [entry.segment for entry in manifest.entries if is_to_pack(index.folder, manifest.kind, entry)]
    if not packs:
        return separate
    model = _model_of(index.folder, manifest.model_id, options)
    partly_dead = storage.each(lambda place: _has_dead(index, place, model, options), packs)
    small = [place for place in packs if place.bytes < _SMALL_BYTES]
    chosen = {place for place, dead in zip(packs, partly_dead, strict=True) if dead}
    chosen |= set(small) if len(small) + bool(separate) > 1 else set()
    return separate + [entry.segment for place in chosen for entry in packs[place]]


def _has_dead(index: Index, place: PackPlace, model: IndexModel, options: StorageOptions) -> bool:
    """Return True if a pack holds a segment that the index does not name, and whose base file is gone."""
    try:
        _, head = head_of(open_storage(index.folder, options), index.folder, place, model)
    except (DataFileError, UnsupportedTableError) as problem:
        _LOG.warning("a pack is left as it is: %s; see hudi_vector.index.verify", problem)
        return False
    dead = [index.uri_of(packed.file.path) for packed in head.files if packed.file.path not in index.entries]
    found = open_storage(index.folder, options).each(lambda uri: open_storage(uri, options).info(uri), dead)
    return None in found


def is_to_pack(folder: str, kind: str, entry: ManifestEntry) -> bool:
    """Return True if a segment of an index of this kind has a separate file, and would be read faster from a pack.

    On a local disk separate files are read as fast, and damage to one touches no other. Graphs are read whole.
    """
    return entry.pack is None and scheme_of(folder) != "file" and KINDS[kind].codes != "graph"


def _groups(entries: Sequence[ManifestEntry]) -> Iterator[list[ManifestEntry]]:
    """Yield the entries in groups that make one pack, by path, so that a partition's files are in few packs."""
    group: list[ManifestEntry] = []
    size = rows = 0
    for entry in sorted(entries, key=lambda entry: entry.file.path):
        if group and (size + entry.bytes > _PACK_BYTES or rows + entry.rows > _MOST_ROWS):
            yield group
            group, size, rows = [], 0, 0
        group.append(entry)
        size, rows = size + entry.bytes, rows + entry.rows
    if group:
        yield group


@dataclass(frozen=True)
class _Work:
    """The input of making one pack, sent to executors."""

    folder: str
    model_id: str
    entries: tuple[ManifestEntry, ...]
    options: StorageOptions


def _make_pack(work: _Work) -> list[ManifestEntry]:
    """Make a pack of segments, unless a whole one is there, and return their entries with their places in it.

    Segments that cannot be read stay where they are.
    """
    storage, model = open_storage(work.folder, work.options), _model_of(work.folder, work.model_id, work.options)
    name = _name_of(work)
    place = _there(storage, work, name, model)
    if place is not None:
        return _placed(work, place)
    read = read_segments(storage, work.folder, model, work.entries)
    whole = [(entry, found) for entry in work.entries if isinstance(found := read[entry.segment], tuple)]
    if len(whole) < len(work.entries):  # of base files that are gone, or damaged, which verify says and refresh mends
        others = [entry for entry in work.entries if not isinstance(read[entry.segment], tuple)]
        able = replace(work, entries=tuple(entry for entry, _ in whole))
        return [*others, *(_make_pack(able) if whole else ())]
    segments = [found[0] for _, found in whole if isinstance(found[0], Segment)]
    content, head = pack_content(model, segments, [found[1] for _, found in whole])
    with suppress(FileExistsError):  # on an object store, another process wrote the same content first
        storage.publish(pack_uri(work.folder, name), content)
    return _placed(work, PackPlace(name, len(content), head, 0))


def _placed(work: _Work, place: PackPlace) -> list[ManifestEntry]:
    """Return the entries of a pack's segments, in the order in which they lie there."""
    return [replace(entry, pack=replace(place, number=number)) for number, entry in enumerate(work.entries)]


def _name_of(work: _Work) -> str:
    names = "\n".join(entry.segment for entry in work.entries)
    return f"{hashlib.sha256(names.encode()).hexdigest()[:16]}-{work.model_id}.pack"


def _there(storage: Storage, work: _Work, name: str, model: IndexModel) -> PackPlace | None:
    """Return the place of a pack that is there already, or None; a damaged one is removed."""
    uri = pack_uri(work.folder, name)
    found = storage.info(uri)
    if found is None:
        return None
    with suppress(DataFileError, UnsupportedTableError):
        place = PackPlace(name, found.size, head_bytes(storage, uri, found.size), 0)
        _, head = head_of(storage, work.folder, place, model)
        entries = _placed(work, place)
        require_places(head, entries)
        read = read_segments(storage, work.folder, model, entries)
        if all(isinstance(each, tuple) for each in read.values()):
            return place
    storage.delete(uri)
    return None


@lru_cache(maxsize=4)
def _model_of(folder: str, model_id: str, options: StorageOptions) -> IndexModel:
    return load_model(open_storage(folder, options), folder, model_id)
