"""Pins: size and modification time of files that a table refers to but does not own, as a write saw them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.fs as pafs

from hudi_vector.blobs.uploads.manifest import COMMITTED, Upload, list_uploads, uploads_folder
from hudi_vector.blobs.uploads.side_tables import PINS, SideTable, load_table, publish_table
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import Storage, StorageOptions, open_storage, root_of

__all__ = ["PIN_SCHEMA", "Pins", "file_infos", "pinned_paths", "pins_of", "uploads_with_pins", "was_touched"]

PIN_SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("mtime_ns", pa.int64())])
"""A pin: the reference's path as stored in the row, the file's size in bytes, its mtime in nanoseconds since 1970."""


class Pins:
    """The pins of the files that the references of one task attempt name."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def note(self, paths: Iterable[str], infos: Iterable[pafs.FileInfo | None]) -> None:
        """Add the files that exist and whose storage reports a modification time.

        `paths` are the paths as references have them; `infos` are the files' listings, None where storage shows
        nothing.
        """
        for path, info in zip(paths, infos, strict=True):
            if info is not None and info.type == pafs.FileType.File and info.mtime_ns:
                self._seen[path] = (int(info.size), int(info.mtime_ns))

    def publish(self, table: str, write_id: str, options: StorageOptions) -> SideTable | None:
        """Write the pins next to the write's manifest, durable on return; return None if nothing was pinned.

        `table` is the normalised base path.
        """
        if not self._seen:
            return None
        sizes, times = zip(*self._seen.values(), strict=True)
        rows = pa.table([list(self._seen), sizes, times], schema=PIN_SCHEMA)
        return publish_table(open_storage(table, options), uploads_folder(table, write_id), PINS, rows)


def pinned_paths(upload: Upload, options: StorageOptions) -> list[str]:
    """Return the paths, as references have them, of the files that a write pinned.

    Files in blob areas (of the table or a lender) are always pinned, other files depending on the setting; a file
    without a modification time is never pinned. Raises DataFileError if a list of pins is gone or damaged.
    """
    return [path for part in pins_of(upload, options) for path in part["path"].to_pylist()]


def uploads_with_pins(table: str, options: StorageOptions) -> list[Upload]:
    """Return the committed writes of a table that pinned files, the oldest first."""
    return [each for each in list_uploads(table, options=options) if each.state == COMMITTED and each.pins]


def pins_of(upload: Upload, options: StorageOptions) -> list[pa.Table]:
    """Return the tables of `PIN_SCHEMA` that a write published; raise DataFileError if one is gone or damaged."""
    storage, folder = open_storage(upload.table, options), uploads_folder(upload.table, upload.write_id)
    return storage.each(lambda pin: load_table(storage, folder, pin, PIN_SCHEMA), upload.pins)


def file_infos(uris: Sequence[str], options: StorageOptions, *, lenient: bool) -> list[pafs.FileInfo | None]:
    """Return what storage shows of each file, with one request per file system; None if the storage is out of reach.

    `uris` are spelled as by `hudi_vector.storage.normalise`. With `lenient`, files on storage that cannot be opened or
    asked are None; otherwise OSError or HudiVectorError is raised.
    """
    found: dict[str, pafs.FileInfo | None] = dict.fromkeys(uris)
    for root in {root_of(uri) for uri in uris}:
        ours = [uri for uri in found if root_of(uri) == root]
        with contextlib.suppress(OSError, HudiVectorError) if lenient else contextlib.nullcontext():
            found.update(zip(ours, _infos(open_storage(root, options), ours), strict=True))
    return [found[uri] for uri in uris]


def _infos(storage: Storage, uris: Sequence[str]) -> list[pafs.FileInfo]:
    """Return what a file system shows of each file; pyarrow asks for eight objects at a time, and for folders."""
    asked = [uri for uri in uris if storage.addressed(uri) is not None]
    there = {
        uri: pafs.FileInfo(storage.path(uri), pafs.FileType.File, size=info.size, mtime_ns=info.mtime_ns)
        for uri, info in zip(asked, storage.each(storage.info, asked), strict=True)
        if info is not None
    }
    others = [uri for uri in uris if uri not in there]
    shown = storage.filesystem.get_file_info([storage.path(uri) for uri in others]) if others else []
    there |= zip(others, shown, strict=True)
    return [there[uri] for uri in uris]


def was_touched(info: pafs.FileInfo | None, size: int, mtime_ns: int) -> bool:
    """Return True if size or modification time differ from the pin.

    A file that storage does not show counts as untouched; so does a modification time that storage does not report.
    """
    if info is None or info.type != pafs.FileType.File:
        return False
    return int(info.size) != size or int(info.mtime_ns or mtime_ns) != mtime_ns
