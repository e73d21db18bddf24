"""The durable manifest of one write's uploads: what a cleaner needs to prove a container orphaned.

A write's manifest is the newest whole file of ``{table}/.hoodie/blob_service/v1/uploads/{write id}/`` (see
`hudi_vector.storage.side_files`). It passes through these states, and never back:

    open, prepared → staged → committed | aborted

- *open* is published before the first byte of the write, so no container exists without a manifest. It carries the end
  of the lease, which the driver renews while the write runs.
- *prepared* is *open* for a DataFrame that its user writes at some later time: it waits 7 days for `finish`.
- *staged* lists the containers that the tasks which counted have made durable, with sizes and blobs, and the side
  tables (`hudi_vector.blobs.uploads.side_tables`) with checksums, where asked for, and pins of files the table does
  not own.
- *committed* names the instant that refers to them. *aborted* says that none will.

Two processes that publish at the same time (a renewal and the end of the write) cannot undo each other: a generation
is the state's rank followed by a count, so the furthest state is the newest whatever came last.

**The rule for cleaners.** Read the manifests first and the table's data files after them: a commit that completes in
between is then seen. A file in ``{table}/.hoodie/blobs/{partition}/{column}/{write id}/`` is orphaned if no retained
data file refers to it and its write can no longer commit: `Upload.may_commit` is false at the cleaner's own time less
its grace, which also covers clocks that differ. That is so if the write

- is committed: what it refers to is in data files, so a file that none refers to, listed or not, was replaced since or
  is left over from a task attempt that did not count;
- is aborted;
- is open or staged, and its lease has run out. If its Hudi commit completed and its driver died before `finish`, data
  files refer to its containers, and that keeps them;
- is prepared, and 7 days have passed.

Where a write's files are there and none is whole, its state is *unreadable*, which may commit for ever: doubt keeps.
A file of ours with no manifest at all is from a table that was copied in part; age alone decides about it. Lance leaves
``.tmp…`` files in a write's folder if its process is killed; they belong to that write like any other file there.

Times are milliseconds since 1970 in UTC, by the clock of the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.files import default_threads, in_threads
from hudi_vector.blobs.names import WRITE_ID, is_write_id, new_write_id
from hudi_vector.blobs.settings import BlobSettings
from hudi_vector.blobs.uploads.side_tables import (
    CHECKSUMS_OF_BLOBS,
    PINS,
    SIDE_TABLE,
    SideTable,
    checksums_of,
    load_table,
    publish_table,
)
from hudi_vector.errors import BlobWriteError, DataFileError, HudiVectorError, InvalidArgumentError
from hudi_vector.storage import Storage, StorageOptions, join, normalise, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.storage.side_files import generation_of, newest, publish
from hudi_vector.storage.stored_values import is_path_below, named, shaped, value_of

__all__ = [
    "ABORTED",
    "COMMITTED",
    "OPEN",
    "PREPARED",
    "PREPARED_MS",
    "STAGED",
    "UNREADABLE",
    "UPLOADS",
    "StagedContainer",
    "Upload",
    "abort",
    "finish",
    "list_uploads",
    "open_upload",
    "read_checksums",
    "read_upload",
    "read_uploads",
    "renew_lease",
    "stage",
    "upload_ids",
    "uploads_folder",
]

OPEN, PREPARED, STAGED, ABORTED, COMMITTED = "open", "prepared", "staged", "aborted", "committed"
UNREADABLE = "unreadable"

UPLOADS = ".hoodie/blob_service/v1/uploads"
PREPARED_MS = 7 * 86_400_000
"""How long a prepared DataFrame may wait to be written."""

_KIND, _VERSION = "upload", 1
_RANKS = {OPEN: 0, PREPARED: 0, STAGED: 1, ABORTED: 2, COMMITTED: 3}
_RANK_STEP = 10_000_000
_LOCAL = StorageOptions()
_CHECKSUMS = pa.schema(
    [
        ("path", pa.string()),
        ("method", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
        ("checksum", pa.binary()),
    ]
)


@dataclass(frozen=True)
class StagedContainer:
    """A durable container: its path from the table's folder, its bytes and blobs."""

    path: str
    partition: str
    column: str
    bytes: int
    blobs: int
    blob_bytes: int


@dataclass(frozen=True)
class Upload:
    """The state of one write's uploads, as its manifest has it; times in milliseconds since 1970, UTC."""

    table: str
    write_id: str
    state: str
    opened_ms: int = 0
    lease_until_ms: int = 0
    lease_ms: int = 0
    columns: tuple[tuple[str, BlobSettings], ...] = ()
    containers: tuple[StagedContainer, ...] = ()
    checksums: SideTable | None = None
    pins: tuple[SideTable, ...] = ()
    instant: str | None = None
    generation: int = -1

    def may_commit(self, now_ms: int) -> bool:
        """Whether a commit may yet refer to containers of this write that none refers to now.

        Args:
            now_ms: The time, by a clock that agrees with the writer's; a cleaner takes its grace off.

        Returns:
            False once the write has ended or its lease has run out.
        """
        if self.state in (COMMITTED, ABORTED):
            return False
        return self.state == UNREADABLE or now_ms < self.lease_until_ms


def open_upload(
    table: str,
    columns: Mapping[str, BlobSettings],
    *,
    lease_ms: int,
    prepared: bool = False,
    now_ms: int | None = None,
    options: StorageOptions = _LOCAL,
) -> Upload:
    """Announce a write, before any of its bytes.

    Args:
        table: The table's base path.
        columns: The settings of each blob column, by its dotted path.
        lease_ms: How long the write may go on without a renewal, milliseconds.
        prepared: Whether a DataFrame is only prepared, to be written by its user within 7 days.
        now_ms: The time, for tests; the clock's where not given.
        options: How storage is opened.

    Returns:
        The upload, with a new write id.

    Example:
        >>> import tempfile
        >>> table = tempfile.mkdtemp()
        >>> upload = open_upload(table, {"img": BlobSettings()}, lease_ms=60_000)
        >>> [found.state for found in list_uploads(table)]
        ['open']
    """
    now = clock_ms() if now_ms is None else now_ms
    length = PREPARED_MS if prepared else lease_ms
    upload = Upload(
        table=normalise(table),
        write_id=new_write_id(now),
        state=PREPARED if prepared else OPEN,
        opened_ms=now,
        lease_until_ms=now + length,
        lease_ms=length,
        columns=tuple(sorted(columns.items())),
    )
    return _publish(upload, options)


def renew_lease(table: str, write_id: str, *, now_ms: int | None = None, options: StorageOptions = _LOCAL) -> Upload:
    """Prolong the lease of a write that is still running.

    Args:
        table: The table's base path.
        write_id: The write.
        now_ms: The time, for tests.
        options: How storage is opened.

    Returns:
        The upload with its new lease; a prepared one keeps its 7 days.

    Raises:
        BlobWriteError: The write has ended, or its lease ran out, so that its bytes may be gone.
    """
    upload, now = _require_running(table, write_id, now_ms, options)
    prolonged = _prolonged(upload, now)
    return upload if prolonged == upload else _publish(prolonged, options)


def stage(
    table: str,
    write_id: str,
    containers: Iterable[WrittenContainer],
    *,
    pins: Iterable[SideTable] = (),
    now_ms: int | None = None,
    options: StorageOptions = _LOCAL,
) -> Upload:
    """List the containers that the commit will refer to; this renews the lease too.

    Args:
        table: The table's base path.
        write_id: The write.
        containers: What the tasks that counted have written.
        pins: The pins that they have published.
        now_ms: The time, for tests.
        options: How storage is opened.

    Returns:
        The upload with its containers.

    Raises:
        BlobWriteError: The write has ended, or its lease ran out.
    """
    upload, now = _require_running(table, write_id, now_ms, options)
    written = sorted(containers, key=lambda container: container.path)
    staged = tuple(
        StagedContainer(made.path, made.partition, made.column, made.bytes, made.blobs, made.blob_bytes)
        for made in written
    )
    kept = checksums_of(written)
    folder, storage = uploads_folder(upload.table, upload.write_id), _open(upload.table, options)
    checksums = None if kept is None else publish_table(storage, folder, CHECKSUMS_OF_BLOBS, kept)
    changed = replace(_prolonged(upload, now), state=STAGED, containers=staged, checksums=checksums, pins=tuple(pins))
    return _publish(changed, options)


def finish(table: str, write_id: str, instant: str, *, options: StorageOptions = _LOCAL) -> Upload:
    """Note that a completed instant refers to the write's containers; again with the same instant changes nothing.

    Args:
        table: The table's base path.
        write_id: The write.
        instant: The requested time of the completed instant.
        options: How storage is opened.

    Returns:
        The committed upload.

    Raises:
        BlobWriteError: The write was aborted, or committed by another instant.
    """
    upload = read_upload(table, write_id, options=options)
    if upload.state == COMMITTED and upload.instant == instant:
        return upload
    if upload.state in (COMMITTED, ABORTED):
        raise BlobWriteError(f"{_named(upload)} and cannot be finished by instant {instant}")
    # A lease that ran out is no obstacle: the instant is completed, so its references keep the bytes.
    return _publish(replace(upload, state=COMMITTED, instant=instant), options)


def abort(table: str, write_id: str, *, options: StorageOptions = _LOCAL) -> Upload:
    """Note that no commit will refer to the write's containers; again changes nothing.

    Args:
        table: The table's base path.
        write_id: The write.
        options: How storage is opened.

    Returns:
        The aborted upload.

    Raises:
        BlobWriteError: The write is committed.
    """
    upload = read_upload(table, write_id, options=options)
    if upload.state == COMMITTED:
        raise BlobWriteError(f"{_named(upload)} and cannot be aborted")
    return upload if upload.state == ABORTED else _publish(replace(upload, state=ABORTED), options)


def read_upload(table: str, write_id: str, *, options: StorageOptions = _LOCAL) -> Upload:
    """The manifest of one write.

    Args:
        table: The table's base path.
        write_id: The write.
        options: How storage is opened.

    Returns:
        The upload, UNREADABLE where there are files and none is whole.

    Raises:
        InvalidArgumentError: The table knows no such write.
        UnsupportedTableError: Another version of this package wrote its manifest.
    """
    root = normalise(table)
    found = _read(root, write_id, _open(root, options)) if is_write_id(write_id) else None
    if found is None:
        raise InvalidArgumentError(f"'{table}' has no upload '{write_id}'; list_uploads names those it has")
    return found


def list_uploads(table: str, *, options: StorageOptions = _LOCAL) -> list[Upload]:
    """All uploads of a table that were ever opened, the oldest first.

    Args:
        table: The table's base path.
        options: How storage is opened.

    Returns:
        Their states.

    Raises:
        UnsupportedTableError: Another version of this package wrote one of the manifests.
    """
    return read_uploads(table, upload_ids(table, options=options), options=options)


def upload_ids(table: str, *, options: StorageOptions = _LOCAL) -> list[str]:
    """The ids of all writes of a table that have a manifest, or the beginning of one; the oldest first.

    Args:
        table: The table's base path.
        options: How storage is opened.
    """
    root = normalise(table)
    return sorted(name for name in _open(root, options).list_folders(join(root, UPLOADS)) if is_write_id(name))


def read_uploads(table: str, write_ids: Sequence[str], *, options: StorageOptions = _LOCAL) -> list[Upload]:
    """The manifests of some writes, several at a time where storage is far.

    Args:
        table: The table's base path.
        write_ids: The writes.
        options: How storage is opened.

    Returns:
        The uploads, in the order of the ids; none for a write that announced nothing.

    Raises:
        UnsupportedTableError: Another version of this package wrote one of the manifests.
    """
    root = normalise(table)
    storage = _open(root, options)
    threads = 1 if storage.scheme == "file" else default_threads(local=False)
    found = in_threads(lambda write_id: _read(root, write_id, storage), write_ids, threads)
    return [upload for upload in found if upload is not None]


def read_checksums(upload: Upload, *, options: StorageOptions = _LOCAL) -> pa.Table | None:
    """The checksums of a write's blobs.

    Args:
        upload: The upload.
        options: How storage is opened.

    Returns:
        Columns path (from the table's folder), method, offset, length (int64) and checksum (binary), or None where
        none were asked for.

    Raises:
        DataFileError: The file is gone or damaged.
    """
    if upload.checksums is None:
        return None
    folder = uploads_folder(upload.table, upload.write_id)
    return load_table(_open(upload.table, options), folder, upload.checksums, _CHECKSUMS)


def _read(root: str, write_id: str, storage: Storage) -> Upload | None:
    folder = uploads_folder(root, write_id)
    found = newest(storage, folder, _KIND, _VERSION)
    if found is None:
        # Without a single file of a manifest's name nothing was ever announced here.
        others = (".", f"{CHECKSUMS_OF_BLOBS}-", f"{PINS}-")
        broken = any(not info.name.startswith(others) for info in storage.list_files(folder))
        return Upload(root, write_id, UNREADABLE) if broken else None
    name, body = found
    try:
        return _upload(root, write_id, body, generation_of(name), join(folder, name))
    except HudiVectorError:  # whole, but nothing that a write says: doubt keeps
        return Upload(root, write_id, UNREADABLE, generation=generation_of(name))


def _upload(root: str, write_id: str, body: dict[str, Any], generation: int, uri: str) -> Upload:
    stated = value_of(tuple[tuple[str, Mapping[str, str]], ...], body.pop("columns", ()), uri, "columns")
    columns = tuple((column, BlobSettings.of(settings)) for column, settings in stated)
    upload = shaped(Upload, body, uri, table=root, columns=columns, generation=generation)
    for file in (*upload.pins, *([upload.checksums] if upload.checksums else [])):
        named(uri, "side table", file.name, SIDE_TABLE)
    fits = upload.state in _RANKS and all(is_path_below(each.path) for each in upload.containers)
    if upload.write_id != write_id or not fits:
        raise DataFileError(f"'{uri}' is damaged, or somebody changed it: it is not the manifest of write '{write_id}'")
    return upload


def _publish(upload: Upload, options: StorageOptions) -> Upload:
    body: dict[str, Any] = asdict(upload)
    del body["table"], body["generation"]
    body["columns"] = [(column, settings.to_options()) for column, settings in upload.columns]
    count = upload.generation % _RANK_STEP + 1 if upload.generation >= 0 else 0
    generation = _RANKS[upload.state] * _RANK_STEP + count
    storage = _open(upload.table, options)
    publish(storage, uploads_folder(upload.table, upload.write_id), _KIND, _VERSION, generation, body)
    return replace(upload, generation=generation)


def _require_running(table: str, write_id: str, now_ms: int | None, options: StorageOptions) -> tuple[Upload, int]:
    upload, now = read_upload(table, write_id, options=options), clock_ms() if now_ms is None else now_ms
    if upload.state in (COMMITTED, ABORTED, UNREADABLE):
        raise BlobWriteError(f"{_named(upload)} and cannot go on")
    if not upload.may_commit(now):
        raise BlobWriteError(
            f"the lease of upload '{write_id}' to '{upload.table}' ran out {now - upload.lease_until_ms} ms ago, "
            "so its blobs may have been cleaned; repeat the write, with a longer hoodie.blob.write.lease"
        )
    return upload, now


def _prolonged(upload: Upload, now: int) -> Upload:
    if upload.state == PREPARED:
        return upload
    return replace(upload, lease_until_ms=max(upload.lease_until_ms, now + upload.lease_ms))


def _named(upload: Upload) -> str:
    by = f" by instant {upload.instant}" if upload.instant else ""
    return f"upload '{upload.write_id}' to '{upload.table}' is {upload.state}{by}"


def uploads_folder(table: str, write_id: str) -> str:
    """Where the manifest of a write and its side tables lie.

    Args:
        table: The table's base path, normalised.
        write_id: The write.

    Raises:
        DataFileError: That is no id of a write, so that it could lead anywhere.
    """
    return join(table, UPLOADS, named(table, "write", write_id, WRITE_ID))


def _open(root: str, options: StorageOptions) -> Storage:
    return open_storage(root, options)
