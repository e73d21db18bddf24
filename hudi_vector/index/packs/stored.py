"""Segments as they are stored, each in a separate file or in a pack: whole ones, and hashes of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.files import load_segment, load_segment_keys, pack_uri, segment_content
from hudi_vector.index.kinds.joined import AnySegment
from hudi_vector.index.kinds.model import IndexModel
from hudi_vector.index.kinds.segment import Segment
from hudi_vector.index.manifest import ManifestEntry, PackPlace
from hudi_vector.index.packs.layout import PREFIX_BYTES, PackHead, paths_of, prefix_bytes, read_head
from hudi_vector.index.packs.lists import Coded, PackFile, whole_lists
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.logs.key_hashes import KeyHashes
from hudi_vector.storage import FileInfo, Storage

__all__ = [
    "head_bytes",
    "head_content",
    "head_of",
    "keys_in",
    "packs_of",
    "paths_in_pack",
    "read_segments",
    "require_places",
    "segments_in",
]

_Read = tuple[AnySegment, KeyHashes | None]


def packs_of(entries: Sequence[ManifestEntry]) -> dict[PackPlace, list[ManifestEntry]]:
    """Return the packs of some entries, each with its entries; each is named by the place of its first segment."""
    found: dict[PackPlace, list[ManifestEntry]] = {}
    for entry in entries:
        if entry.pack is not None:
            found.setdefault(replace(entry.pack, number=0), []).append(entry)
    return found


def head_content(storage: Storage, folder: str, place: PackPlace) -> tuple[PackFile, bytes]:
    """Open a pack, and return it with the bytes of its head, unchecked; raise DataFileError if it cannot be read."""
    file = PackFile(storage, pack_uri(folder, place.name), place.bytes)
    return file, file.read(0, place.head)


def head_of(storage: Storage, folder: str, place: PackPlace, model: IndexModel) -> tuple[PackFile, PackHead]:
    """Open a pack and read its head; raise DataFileError if it is missing or damaged."""
    file, content = head_content(storage, folder, place)
    return file, read_head(content, model, file.uri, place.bytes)


def head_bytes(storage: Storage, uri: str, size: int) -> int:
    """Return how many bytes the head of a pack of `size` bytes has; raise DataFileError if it is none."""
    return prefix_bytes(PackFile(storage, uri, size).read(0, min(size, PREFIX_BYTES)), uri)


def paths_in_pack(storage: Storage, info: FileInfo) -> list[str]:
    """Return the paths of the base files whose segments a pack holds; raise DataFileError if its head is damaged."""
    head = head_bytes(storage, info.uri, info.size)
    return paths_of(PackFile(storage, info.uri, info.size).read(0, head), info.uri)


def require_places(head: PackHead, entries: Sequence[ManifestEntry]) -> None:
    """Raise DataFileError if a segment is not at the place in the pack that its entry names."""
    for entry in entries:
        number = -1 if entry.pack is None else entry.pack.number
        if not 0 <= number < len(head.files) or head.files[number].file != entry.file:
            raise DataFileError(f"the pack '{head.uri}' is not of '{entry.file.path}' as the index's manifest says")


def read_segments(
    storage: Storage, folder: str, model: IndexModel, entries: Sequence[ManifestEntry]
) -> dict[str, _Read | DataFileError | UnsupportedTableError]:
    """Read segments whole, with the hashes of keys; return each by its name, or the error that says why it cannot be.

    All segments must fit in memory together.
    """
    found: dict[str, _Read | DataFileError | UnsupportedTableError] = {}
    for place, own in packs_of(entries).items():
        try:
            found |= _of_pack(storage, folder, place, model, own)
        except (DataFileError, UnsupportedTableError) as problem:
            found |= dict.fromkeys((entry.segment for entry in own), problem)

    def alone(entry: ManifestEntry) -> _Read | DataFileError | UnsupportedTableError:
        try:
            content = segment_content(storage, folder, entry.segment)
            segment = load_segment(storage, folder, entry.segment, model, entry.file, content)
            return segment, load_segment_keys(storage, folder, entry.segment, entry.file, content)
        except (DataFileError, UnsupportedTableError) as problem:
            return problem

    single = [entry for entry in entries if entry.pack is None]
    return found | dict(zip((entry.segment for entry in single), storage.each(alone, single), strict=True))


def _of_pack(
    storage: Storage, folder: str, place: PackPlace, model: IndexModel, entries: Sequence[ManifestEntry]
) -> dict[str, _Read]:
    file, head = head_of(storage, folder, place, model)
    require_places(head, entries)
    numbers = [entry.pack.number for entry in entries if entry.pack is not None]
    segments = segments_in(file, head, numbers)
    keys = storage.each(lambda number: keys_in(file, head, number), numbers)
    return {entry.segment: (one, held) for entry, one, held in zip(entries, segments, keys, strict=True)}


def keys_in(file: PackFile, head: PackHead, number: int) -> KeyHashes | None:
    """Read the hashes of the keys of a segment, None if the pack has none; raise DataFileError if they are damaged."""
    if not head.files[number].keys:
        return None
    begin = head.keys_at(number)
    return head.keys_of(number, file.read(begin, head.keys_at(number + 1) - begin))


def segments_in(file: PackFile, head: PackHead, numbers: Sequence[int]) -> list[Segment]:
    """Read a whole pack and return the segments with these numbers; raise DataFileError if it is damaged."""
    found = whole_lists(file, head)
    owner = np.searchsorted(head.bases, found.row, side="right") - 1
    label = np.repeat(np.arange(head.model.lists), head.sizes)
    return [_segment(head, number, found, np.flatnonzero(owner == number), label) for number in numbers]


def _segment(head: PackHead, number: int, found: Coded, entry: Ints, label: Ints) -> Segment:
    packed, begin, end = head.files[number], int(head.bases[number]), int(head.bases[number + 1])
    sizes = np.bincount(label[entry], minlength=head.model.lists)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return Segment(
        packed.file,
        head.model.model_id,
        packed.rows,
        offsets.astype(np.int32 if len(entry) < 1 << 31 else np.int64),
        (found.row[entry] - np.uint32(begin)).astype(np.uint32),
        found.codes[entry],
        found.square[entry],
        found.error[entry],
        head.radius,
        head.always[(head.always >= begin) & (head.always < end)] - begin,
        packed.clipped,
        head.pages[number],
        head.footers[number],
    )
