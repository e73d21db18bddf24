"""Checks of references that are written into a table: their paths, owners, and that their bytes exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.names import BLOB_AREA
from hudi_vector.blobs.reach import Reach
from hudi_vector.blobs.storing.incoming import BatchPlace, Incoming
from hudi_vector.blobs.uploads.external_files import Pins, file_infos
from hudi_vector.errors import number_of
from hudi_vector.storage import StorageOptions, join, normalise, scheme_of

__all__ = ["ReferenceRules", "checked"]

_ABSENT, _FOLDER, _UNKNOWN = -1, -2, -3
"""Used in place of a file's size."""


@dataclass(frozen=True)
class ReferenceRules:
    """The rules for the references of a table.

    Attributes:
        area: The table's blob area, with the tables that lend it blobs.
        relative: Whether paths into the table's blob area may be relative to the table.
        check_files: Whether files must exist and be long enough; lent files must exist in any case.
        options: Hadoop's storage settings.
        pins: Receives the size and modification time of referenced files.
        pin_all: Whether all referenced files are pinned, or only those in the blob area of this table or of a lender,
            whose cleaner reads the pins.
    """

    area: BlobArea
    relative: bool
    check_files: bool
    options: StorageOptions
    pins: Pins
    pin_all: bool = True


def checked(incoming: Incoming, rules: ReferenceRules, spot: BatchPlace) -> Incoming:
    """Check the references of a column; return it with offset and length filled in for bare paths.

    A bare path whose file is not looked up or not found keeps NULL, which means the whole file. Raises InvalidBlobError
    if a path is empty, relative, contains ``..``, or lies in the blob area of a table that is not registered with this
    one; if a managed path lies outside of the allowed areas; if no reader of the table may read a file; or if a file is
    absent, a folder, or shorter than its range.
    """
    if incoming.path.null_count == len(incoming.path):
        return incoming
    encoded = incoming.path.dictionary_encode()
    paths: list[str] = encoded.dictionary.to_pylist()
    code = np.asarray(pc.fill_null(encoded.indices, -1))
    named = code >= 0

    def refuse(wrong: Sequence[bool] | npt.NDArray[np.bool_], reason: str) -> None:
        flags = np.asarray([*wrong, False])[code] & named
        spot.refuse(flags, lambda row: f"its path '{incoming.path[row]}' {reason}")

    refuse([not path for path in paths], "is empty")
    refuse([".." in path.split("/") for path in paths], "climbs with '..'; give the path without it")
    refuse(
        [_is_relative(path) and not (rules.relative and _in_area(path)) for path in paths],
        "is relative; give an absolute path or a URI",
    )
    area = rules.area
    uris = [normalise(join(area.table, path) if _is_relative(path) else path) for path in paths]
    own, lent = (np.array([bool(found(uri)) for uri in uris]) for found in (area.owns, area.lender))
    refuse(
        [area.is_foreign(uri) for uri in uris],
        "lies in the blob area of another table, whose cleaner may delete it; write the bytes instead, or register "
        "both tables with register_tables",
    )
    managed = np.asarray(pc.fill_null(incoming.managed, False))
    spot.refuse(
        managed & ~np.array([*(own | lent), True])[code],
        lambda row: (
            f"its path '{incoming.path[row]}' is managed and lies outside the table's blob area '{area.uri}/'; "
            "only bytes that this package stored are managed, give managed = false"
        ),
    )
    if rules.check_files:
        _refuse_unreadable(uris, paths, rules, refuse)
    if not (rules.check_files or incoming.whole_files or lent.any() or own.any()):
        return incoming
    # Files that are not checked may be out of reach.
    infos = file_infos(uris, rules.options, lenient=not rules.check_files)
    known = np.array([_size(info) for info in infos], np.int64)
    refuse(lent & (known < 0), "is no file of the table that is registered; write the bytes instead")
    sizes = np.append(known, _UNKNOWN)[code]
    if rules.check_files:
        _check_ranges(incoming, sizes, spot)
    noted = np.flatnonzero(own | lent | rules.pin_all)
    rules.pins.note([paths[at] for at in noted], [infos[at] for at in noted])
    return _filled(incoming, sizes) if incoming.whole_files else incoming


def _refuse_unreadable(
    uris: Sequence[str],
    paths: Sequence[str],
    rules: ReferenceRules,
    refuse: Callable[[Sequence[bool], str], None],
) -> None:
    """Raise InvalidBlobError for the first file that readers of the table may not read (see `Reach`)."""
    reach = Reach(rules.options, rules.area.table)
    for at, why in enumerate(map(reach.refusal, uris)):
        if why is not None:
            refuse([path == paths[at] for path in paths], f"would not be read: {why}")
            return


def _is_relative(path: str) -> bool:
    inside = path[len("file:") :] if path.lower().startswith("file:") else path
    return scheme_of(path) == "file" and not inside.startswith("/")


def _in_area(path: str) -> bool:
    return path.startswith(f"{BLOB_AREA}/")


def _size(info: pafs.FileInfo | None) -> int:
    """Return the size of a file in bytes, or _ABSENT, _FOLDER or _UNKNOWN."""
    if info is None:
        return _UNKNOWN
    if info.type == pafs.FileType.File:
        return int(info.size)
    return _FOLDER if info.type == pafs.FileType.Directory else _ABSENT


def _check_ranges(incoming: Incoming, sizes: npt.NDArray[np.int64], spot: BatchPlace) -> None:
    def path(row: int) -> str:
        return f"'{incoming.path[row]}'"

    spot.refuse(sizes == _ABSENT, lambda row: f"there is no file {path(row)}")
    spot.refuse(sizes == _FOLDER, lambda row: f"{path(row)} is a folder; a blob is a file or a part of one")
    offset = np.asarray(pc.fill_null(incoming.offset, 0))
    length = np.asarray(pc.fill_null(incoming.length, 0))
    # offset + length could overflow 64 bits.
    spot.refuse(
        (sizes >= 0) & (offset > sizes - length),
        lambda row: (
            f"its range of {number_of(length[row], 'byte')} from byte {offset[row]} on goes past the end of "
            f"{path(row)}, which has {number_of(sizes[row], 'byte')}"
        ),
    )


def _filled(incoming: Incoming, sizes: npt.NDArray[np.int64]) -> Incoming:
    unknown = sizes < 0
    return replace(
        incoming,
        offset=pa.array(np.zeros(len(sizes), np.int64), mask=unknown),
        length=pa.array(sizes, mask=unknown),
    )
