"""Pins: files that a table refers to and does not own, as they were when the references were written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.fs as pafs

from hudi_vector.blobs.uploads.manifest import Upload, uploads_folder
from hudi_vector.blobs.uploads.side_tables import PINS, SideTable, load_table, publish_table
from hudi_vector.errors import HudiVectorError
from hudi_vector.storage import StorageOptions, open_storage, root_of

__all__ = ["PIN_SCHEMA", "Pins", "file_infos", "pinned_paths", "was_touched"]

PIN_SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("mtime_ns", pa.int64())])
"""A pin: the reference's path as it stands in the row, the file's bytes, its modification time since 1970."""


class Pins:
    """The files that the references of one task attempt name, each as it was when it was looked at."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def note(self, paths: Iterable[str], infos: Iterable[pafs.FileInfo | None]) -> None:
        """Keep what a listing shows of files; storage that tells no modification time leaves nothing to compare.

        Args:
            paths: The paths as references have them.
            infos: What storage shows of each, None where it shows nothing.
        """
        for path, info in zip(paths, infos, strict=True):
            if info is not None and info.type == pafs.FileType.File and info.mtime_ns:
                self._seen[path] = (int(info.size), int(info.mtime_ns))

    def publish(self, table: str, write_id: str, options: StorageOptions) -> SideTable | None:
        """Write the pins beside the write's manifest, durable when this returns.

        Args:
            table: The table's base path, normalised.
            write_id: The write.
            options: How storage is opened.

        Returns:
            The file, or None where nothing was pinned.
        """
        if not self._seen:
            return None
        sizes, times = zip(*self._seen.values(), strict=True)
        rows = pa.table([list(self._seen), sizes, times], schema=PIN_SCHEMA)
        return publish_table(open_storage(table, options), uploads_folder(table, write_id), PINS, rows)


def pinned_paths(upload: Upload, options: StorageOptions) -> list[str]:
    """The files that a write refers to and that its table does not own.

    Args:
        upload: The write.
        options: How storage is opened.

    Returns:
        Their paths as references have them, of lent files in any case, of others where they were pinned.

    Raises:
        DataFileError: A list of them is gone or damaged.
    """
    storage, folder = open_storage(upload.table, options), uploads_folder(upload.table, upload.write_id)
    return [path for pin in upload.pins for path in load_table(storage, folder, pin, PIN_SCHEMA)["path"].to_pylist()]


def file_infos(uris: Sequence[str], options: StorageOptions, *, lenient: bool) -> list[pafs.FileInfo | None]:
    """What storage shows of files, by one request for each file system.

    Args:
        uris: The files, as `hudi_vector.storage.normalise` spells them.
        options: How storage is opened.
        lenient: Whether files on storage that cannot be opened are passed over.

    Returns:
        An entry for each file, None where its storage is not within reach.

    Raises:
        OSError: Storage cannot be asked, and `lenient` is false.
        HudiVectorError: A scheme cannot be opened, and `lenient` is false.
    """
    found: dict[str, pafs.FileInfo | None] = dict.fromkeys(uris)
    for root in {root_of(uri) for uri in uris}:
        ours = [uri for uri in found if root_of(uri) == root]
        with contextlib.suppress(OSError, HudiVectorError) if lenient else contextlib.nullcontext():
            storage = open_storage(root, options)
            found.update(zip(ours, storage.filesystem.get_file_info([storage.path(uri) for uri in ours]), strict=True))
    return [found[uri] for uri in uris]


def was_touched(info: pafs.FileInfo | None, size: int, mtime_ns: int) -> bool:
    """Whether a file is another one than its pin says; what storage does not show is not held against it.

    Args:
        info: What storage shows now.
        size: The pin's bytes.
        mtime_ns: The pin's modification time.
    """
    if info is None or info.type != pafs.FileType.File:
        return False
    return int(info.size) != size or int(info.mtime_ns or mtime_ns) != mtime_ns
