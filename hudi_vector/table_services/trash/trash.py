"""The trash, where swept files wait before they are deleted for good.

A file ``.hoodie/blobs/{rest}`` goes to ``.hoodie/blob_service/v1/trash/{sweep id}/{rest}``. A file below a managed
root, ``{scheme}://{rest}``, goes to ``.hoodie/blob_service/v1/trash_outside/{sweep id}/{scheme}/{rest}``. `restore`
brings files back to their place; `expire` deletes the files of sweeps that are older than the window. A crash while an
object is copied leaves it in both places; the bytes are compared before one of the two is deleted.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from hudi_vector.blobs.names import BLOB_AREA, is_write_id
from hudi_vector.errors import DataFileError, InvalidArgumentError
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.listed import with_names
from hudi_vector.table_services.guards import is_plain, root_above, why_not_ours
from hudi_vector.table_services.result import CleanFile, RestoreResult
from hudi_vector.table_services.sites import Site, is_outside
from hudi_vector.table_services.trash.sweep_record import ENDED, SweepRecord, read_sweep

__all__ = [
    "OUTSIDE_TRASH",
    "TRASH",
    "Expired",
    "TrashedFile",
    "expire",
    "list_trash",
    "restore",
    "same_content",
    "trash_path",
]

TRASH = ".hoodie/blob_service/v1/trash"
OUTSIDE_TRASH = ".hoodie/blob_service/v1/trash_outside"

_LOG = logging.getLogger(__name__)
_LOCAL = StorageOptions()
_COMPARED_BYTES = 4 << 20


@dataclass(frozen=True)
class TrashedFile:
    """A file in the trash.

    Attributes:
        sweep_id: The sweep that took it.
        path: Its path before the sweep, as marks name it: from the table's folder, or a URI outside the blob area.
        trash_path: Its path in the trash, from the table's folder.
        bytes: Its size.
    """

    sweep_id: str
    path: str
    trash_path: str
    bytes: int


def trash_path(sweep_id: str, path: str) -> str:
    """Return where a file lies in the trash, from the table's folder.

    `path` is the file's path from the table's folder, or its URI if it lies outside the blob area.

    Example:
        >>> trash_path("20260101000000000_0123456789ab", ".hoodie/blobs/img/x")
        '.hoodie/blob_service/v1/trash/20260101000000000_0123456789ab/img/x'
    """
    if is_outside(path):
        scheme, _, rest = path.partition("://")
        return join(OUTSIDE_TRASH, sweep_id, scheme, rest.removeprefix("/"))
    return join(TRASH, sweep_id, path.removeprefix(f"{BLOB_AREA}/"))


def _origin(folder: str, rest: str) -> str:
    if folder == TRASH:
        return join(BLOB_AREA, rest)
    scheme, _, inside = rest.partition("/")
    return f"{scheme}://{'/' if scheme == 'file' else ''}{inside}"


def list_trash(storage: Storage, table: str, sweep_id: str | None = None) -> list[TrashedFile]:
    """Return the files in the trash, those of the newest sweep first; of all sweeps if `sweep_id` is None.

    `table` is a normalised base path. Files that belong to no sweep, have a name that is not UTF-8 or lie behind a
    symbolic link are left out.
    """
    found, folders = [], (TRASH, OUTSIDE_TRASH)
    places = [join(table, folder, sweep_id or "") for folder in folders]
    for folder, listed in zip(
        folders, storage.each(lambda place: storage.list_files(place, recursive=True), places), strict=True
    ):
        root = join(table, folder)
        for info in with_names(listed)[0]:
            sweep, _, rest = info.uri.removeprefix(f"{root}/").partition("/")
            path = join(folder, sweep, rest)
            if is_write_id(sweep) and rest and is_plain(storage, table, path):
                found.append(TrashedFile(sweep, _origin(folder, rest), path, info.size))
    return sorted(sorted(found, key=lambda file: file.path), key=lambda file: file.sweep_id, reverse=True)


def restore(
    table: str,
    *,
    sweep_id: str | None = None,
    paths: Collection[str] | None = None,
    managed_roots: Collection[str] = (),
    options: StorageOptions = _LOCAL,
) -> RestoreResult:
    """Bring files back from the trash; running it again changes nothing.

    The caller must hold the CLEAN lease. The modification time of the files becomes the present, so that the grace
    protects them from the next sweep.

    Args:
        table: The table's base path.
        sweep_id: Only the files of this sweep, if given.
        paths: Only these files, by their paths as the sweep lists them; all files by default.
        managed_roots: The folders outside the blob area below which files may be put back. The roots in a sweep's
            record are not used, since anyone who may write to the table may write the record.
        options: The storage settings.

    Returns:
        The files that are back in their place, and those that stay in the trash because another file has their place,
        the place is not allowed, or storage failed.

    Raises:
        InvalidArgumentError: The sweep has no files in the trash, or one of the paths is not there.

    Example:
        >>> import tempfile
        >>> restore(tempfile.mkdtemp()).restored
        []
    """
    root = normalise(table)
    storage = open_storage(root, options)
    roots = tuple(map(normalise, managed_roots))
    found = list_trash(storage, root, sweep_id) if sweep_id is None or is_write_id(sweep_id) else []
    if sweep_id is not None and not found:
        raise InvalidArgumentError(f"the trash of '{table}' holds nothing of sweep '{sweep_id}'; restore without it")
    wanted = found if paths is None else [file for file in found if file.path in paths]
    absent = sorted(set(paths or ()) - {file.path for file in wanted})
    if absent:
        raise InvalidArgumentError(
            f"'{absent[0]}' is not in the trash of '{table}'; give paths such as those that a sweep lists, from the "
            "table's folder"
        )
    restored, kept = [], []
    problems: list[str | None] = []
    # Sweep by sweep, newest first: if several sweeps took the same path, the newest copy is put back.
    for sweep, files in groupby(wanted, key=lambda file: file.sweep_id):
        put_back = partial(_restored, Site(root, options), _record_of(storage, root, sweep), roots)
        problems += Site(root, options).each(put_back, list(files))
    for file, problem in zip(wanted, problems, strict=True):
        if problem is None:
            restored.append(CleanFile(file.path, file.bytes, f"from sweep {file.sweep_id}"))
        else:
            kept.append(CleanFile(file.path, file.bytes, problem))
    Site(root, options).remove_empty_folders(TRASH, OUTSIDE_TRASH)
    return RestoreResult(root, restored, kept, sum(file.bytes for file in restored))


@dataclass(frozen=True)
class Expired:
    """The trashed files whose time is over: those deleted for good, and those that stay, with the reason."""

    gone: list[CleanFile]
    kept: list[CleanFile]


def _nothing_stays(path: str) -> str | None:  # noqa: ARG001
    return None


def expire(
    table: str,
    *,
    window_ms: int,
    now_ms: int,
    stays: Callable[[str], str | None] = _nothing_stays,
    dry_run: bool = False,
    options: StorageOptions = _LOCAL,
) -> Expired:
    """Delete for good the files that have been in the trash for longer than the window and are not needed.

    The caller must hold the CLEAN lease, except for a dry run.

    Args:
        table: The table's base path.
        window_ms: How long files stay after the end of their sweep, milliseconds.
        now_ms: The time, milliseconds since 1970, UTC.
        stays: Returns why a file is needed, given the path from which it was swept, or None.
        dry_run: If True, delete nothing.
        options: The storage settings.

    Returns:
        The files that are gone (in a dry run, that would go), and those that `stays` keeps. Files that storage would
        not delete are in neither list and wait for the next run. Files that no record names stay, and so do the files
        of a killed sweep: their time begins when the next sweep ends its record.
    """
    root = normalise(table)
    storage = open_storage(root, options)
    by_sweep: dict[str, list[TrashedFile]] = defaultdict(list)
    for file in list_trash(storage, root):
        by_sweep[file.sweep_id].append(file)
    gone, kept = [], []
    for sweep_id, files in sorted(by_sweep.items()):
        record = _record_of(storage, root, sweep_id)
        if record is None:
            _LOG.warning("the trash of sweep %s of %s stays: its record cannot be read", sweep_id, root)
        elif record.state == ENDED and record.ended_ms + window_ms < now_ms:
            own = {file.path for file in record.files}
            held = {file: reason for file in files if file.path in own and (reason := stays(file.path)) is not None}
            due = [file for file in files if file.path in own and file not in held]
            over = "its time in the trash is over, but"
            kept += [CleanFile(file.trash_path, file.bytes, f"{over} {reason}") for file, reason in held.items()]
            reason = f"swept by {sweep_id} more than {window_ms} ms ago"
            deleted = [True] * len(due) if dry_run else Site(root, options).each(partial(_deleted, storage, root), due)
            gone += [
                CleanFile(file.trash_path, file.bytes, reason)
                for file, is_gone in zip(due, deleted, strict=True)
                if is_gone
            ]
    if not dry_run:
        Site(root, options).remove_empty_folders(TRASH, OUTSIDE_TRASH)
    return Expired(gone, kept)


def same_content(storage: Storage, one: str, other: str) -> bool:
    """Return True if two files on one storage hold the same bytes."""
    with storage.open(one, mapped=False) as first, storage.open(other, mapped=False) as second:
        if first.size() != second.size():
            return False
        while piece := first.read(_COMPARED_BYTES):
            if piece != second.read(_COMPARED_BYTES):
                return False
    return True


def _record_of(storage: Storage, root: str, sweep_id: str) -> SweepRecord | None:
    """Return the record of a sweep, or None if it is missing or damaged."""
    try:
        return read_sweep(storage, root, sweep_id)
    except DataFileError as problem:
        _LOG.warning("%s", problem)
        return None


def _restored(site: Site, record: SweepRecord | None, roots: tuple[str, ...], file: TrashedFile) -> str | None:
    """Put a file back, and return None; or leave it in the trash, and return the reason."""
    root = root_above(file.path, roots)
    if is_outside(file.path) and record is None:
        return "the record of its sweep cannot be read, so no one can say that it belongs there; move it by hand"
    if is_outside(file.path) and root is None:
        return "it lies below none of the managed roots that were given; give the root it came from as managed_roots"
    refused = why_not_ours(site.storage, site.table, file.path, roots)
    if refused:
        return refused
    try:
        site.storage.move(join(site.table, file.trash_path), site.uri(file.path), True, root or "")
    except FileExistsError:
        return _settled(site, record, file)
    except OSError as problem:
        return f"it could not be moved: {problem}"
    return None


def _settled(site: Site, record: SweepRecord | None, file: TrashedFile) -> str | None:
    """Return None if the place and the trash hold the same bytes, else why the file stays in the trash.

    The copy of an ended sweep is then deleted, which finishes a move that was killed halfway.
    """
    place, trashed = site.uri(file.path), join(site.table, file.trash_path)
    try:
        if not same_content(site.storage, place, trashed):
            return "another file has its place; move that one away first"
        if record is not None and record.state == ENDED:
            site.storage.delete(trashed)
        # A sweep that has not ended may only be slow and still delete the object in its place: keep the copy.
    except OSError as problem:
        return f"it could not be compared with the file in its place: {problem}"
    return None


def _deleted(storage: Storage, root: str, file: TrashedFile) -> bool:
    try:
        storage.delete(join(root, file.trash_path))
    except OSError as problem:
        _LOG.warning("%s stays until the next run: %s", join(root, file.trash_path), problem)
        return False
    return True
