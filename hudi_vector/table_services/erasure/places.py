"""Segments of indexes that hold vectors of given records, and the places that an erasure check does not search."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial

from hudi_vector.blobs.names import BLOB_AREA, STAGING, is_write_id, write_of
from hudi_vector.errors import DataFileError, UnsupportedTableError
from hudi_vector.index.catalog import opened_index
from hudi_vector.index.files import file_of_segment, indexes_folder
from hudi_vector.index.locations import IndexPlace
from hudi_vector.index.packs.stored import paths_in_pack
from hudi_vector.storage import FileInfo, Storage, StorageOptions, is_half_published, join, open_storage
from hudi_vector.storage.listed import shown
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.cleaning.leftovers import Leftover
from hudi_vector.table_services.guards import is_plain
from hudi_vector.table_services.retention.retained import RetainedFile, list_retained
from hudi_vector.table_services.trash.trash import OUTSIDE_TRASH, TRASH, TrashedFile

__all__ = ["metadata_files", "not_looked_at", "segments_holding"]

_HOODIE = ".hoodie"
_SERVICE = posixpath.dirname(STAGING)
_LOOKED_AT = frozenset({BLOB_AREA, ".hoodie/blob_service", ".hoodie/vector_index"})
_SEGMENTS, _PACKS = "segments", "packs"
_METADATA = ".hoodie/metadata"
_NAMES_ONLY = frozenset({".hoodie", "files"})
"""The folders of Hudi's metadata table that hold names and paths of files, and no values of rows."""


def metadata_files(storage: Storage, table: str) -> list[FileInfo]:
    """Return the files of Hudi's metadata table that may hold keys of rows, or the least and greatest of their values.

    `table` is a normalised base path. The index of record keys, column statistics and every other part are included,
    but for the list of the table's files.
    """
    home = join(table, _METADATA)
    parts = [join(home, name) for name in storage.list_folders(home) if name not in _NAMES_ONLY]
    listed = storage.each(lambda part: storage.list_files(part, recursive=True), parts)
    named = (info for infos in listed for info in infos)
    return [info for info in named if not info.name.endswith(".crc") and "partition_metadata" not in info.name]


def segments_holding(
    native: NativeTable, held: Collection[RetainedFile], folder: str | None = None
) -> Iterator[tuple[str, int, str]]:
    """Yield path, bytes and needs of each file of a table's indexes that may hold vectors of some rows.

    `held` has the data files with rows of the keys. A segment whose data file no longer exists is included, as is a
    pack with such a segment, because it may hold the vector of any row. What it needs ends with the generation of the
    index that names the file. Vectors may be stored as they are or as codes. `folder` is the root of the indexes, by
    default the table's own. Paths are relative to the table's folder, and URIs where the indexes are elsewhere.
    """
    root = native.source.uri
    home = folder or indexes_folder(root)
    storage = open_storage(home, native.source.options)
    found = [
        info
        for info in storage.list_files(home, recursive=True)
        if info.uri.split("/")[-2] in (_SEGMENTS, _PACKS) and not is_half_published(info.name)
    ]
    named = _generations(root, found, native.source.options)
    there = {_stem(file) for file in list_retained(root, native.storage).files} if found else set()
    holding = {_stem(file) for file in held}
    found.sort(key=lambda info: info.uri)
    for info, stems in zip(found, storage.each(partial(_stems_in, storage), found), strict=True):
        path = shown(info.uri.removeprefix(f"{root}/"))
        if stems & holding:
            yield path, info.size, f"the data files first, and hv.index.compact after them{named.get(info.uri, '')}"
        elif not stems or not stems <= there:
            gone = "hv.index.compact: its data file is gone, and it may have held the rows"
            yield path, info.size, f"{gone}{named.get(info.uri, '')}"


def _generations(table: str, files: Iterable[FileInfo], options: StorageOptions) -> dict[str, str]:
    """Return, by URI, the words that name the newest generation of an index that names a segment or pack."""
    found: dict[str, str] = {}
    for folder in sorted({info.uri.rsplit("/", 2)[0] for info in files}):
        with suppress(DataFileError, UnsupportedTableError, OSError):  # such an index names nothing
            index = opened_index(IndexPlace(table, folder), options)
            for entry in () if index is None else index.manifest.entries:
                part, name = (_SEGMENTS, entry.segment) if entry.pack is None else (_PACKS, entry.pack.name)
                assert index is not None
                found[join(folder, part, name)] = f" ({index.name} names it)"
    return found


def _stems_in(storage: Storage, info: FileInfo) -> set[str]:
    """Return the names, without extension, of the data files whose segments a file holds; none if it cannot be read."""
    if info.uri.split("/")[-2] == _SEGMENTS:
        stem = file_of_segment(info.name)
        return set() if stem is None else {stem}
    try:
        return {posixpath.basename(path).rpartition(".")[0] for path in paths_in_pack(storage, info)}
    except (DataFileError, UnsupportedTableError):
        return set()


def not_looked_at(
    storage: Storage,
    table: str,
    loose: Iterable[str],
    left: Iterable[Leftover],
    trash: Iterable[TrashedFile],
) -> tuple[str, ...]:
    """Return the folders and single files below a table's folder that an erasure check does not search, sorted.

    All paths are relative to the table's folder. Data files are never among them, since all of them are searched.

    Args:
        storage: The table's storage.
        table: The table's base path, normalised.
        loose: The files of the blob area to which nothing refers, relative to the table's folder.
        left: The staged and half-published files that were found.
        trash: The files in the trash.
    """
    found = {join(_HOODIE, shown(name)) for name in storage.list_folders(join(table, _HOODIE))} - _LOOKED_AT
    found |= {_HOODIE for _ in storage.list_files(join(table, _HOODIE))[:1]}
    found |= {join(_SERVICE, shown(name)) for name in storage.list_folders(join(table, _SERVICE))}
    found -= {STAGING, TRASH, OUTSIDE_TRASH}
    # Unreferenced files in the blob area that no write of this package made; referenced ones are holders.
    found |= {path for path in loose if write_of(table, join(table, path)) is None}
    known = {info.uri for each in left for info in each.files} | {join(table, each.trash_path) for each in trash}
    for folder in (STAGING, TRASH, OUTSIDE_TRASH):
        others = {info.uri for info in storage.list_files(join(table, folder), recursive=True)} - known
        paths = (shown(uri.removeprefix(f"{table}/")) for uri in others)
        found |= {path for path in paths if not _is_just_staged(storage, table, path)}
    for info in storage.list_files(indexes_folder(table), recursive=True):
        parent = posixpath.dirname(shown(info.uri.removeprefix(f"{table}/")))
        found |= {parent} if posixpath.basename(parent) != _SEGMENTS else set()
    return tuple(sorted(found))


def _is_just_staged(storage: Storage, table: str, path: str) -> bool:
    """Return True if an unlisted path is in the staging folder of a write: it was staged after the listing."""
    return is_write_id(path.removeprefix(f"{STAGING}/").partition("/")[0]) and is_plain(storage, table, path)


def _stem(file: RetainedFile) -> str:
    return file.info.name.rpartition(".")[0] or file.info.name
