"""Durable manifests of the writes that upload blobs, from which a cleaner can prove that a container is orphaned.

A write's manifest is the newest whole file of ``{table}/.hoodie/blob_service/v1/uploads/{write id}/`` (see
`hudi_vector.storage.side_files`). It goes through these states, and never back:

    open, prepared → staged → committed | aborted

- *open* is published before the first byte of the write, so every container has a manifest. It holds the end of the
  lease, which the driver renews while the write runs.
- *prepared* replaces *open* for a DataFrame that its user writes later: it waits 7 days for `finish`.
- *staged* lists the containers that the successful task attempts made durable, with sizes and numbers of blobs, and
  the side tables (`hudi_vector.blobs.uploads.side_tables`): checksums if they were asked for, and pins of files that
  the write refers to and did not make.
- *committed* names the instant that refers to the containers. *aborted* says that no instant will.

Two processes that publish at the same time (a renewal and the end of the write) cannot undo each other: a generation
is the state's rank followed by a count, so the newest file is always the one with the furthest state.

**The rule for cleaners.** Read the manifests first and the table's data files after them, so that a commit that
completes in between is seen. A file in ``{table}/.hoodie/blobs/{partition}/{column}/{write id}/`` is orphaned if no
retained data file refers to it and no commit of its write can refer to it later: `Upload.may_commit` is false at the
cleaner's time minus its grace, which also covers clocks that differ. No later commit can refer to it if the write

- is committed: its references are in data files by then, so a file without references, listed or not, was replaced
  since or is left over from a failed task attempt;
- is aborted;
- is open or staged, and its lease has run out. If its Hudi commit completed and its driver died before `finish`, data
  files refer to its containers, which keeps them;
- is prepared, and 7 days have passed.

If a write has manifest files but none is whole, its state is *unreadable*. Such a write counts as one that may still
commit, at any time, so its files are kept. A container without any manifest comes from a table that was copied in part;
only its age decides. Lance leaves ``.tmp…`` files in a write's folder if its process is killed; they belong to that
write like any other file there.

Times are milliseconds since 1970 in UTC, by the clock of the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

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
from hudi_vector.storage.records import Record
from hudi_vector.storage.side_files import generation_of, names_of
from hudi_vector.storage.stored_values import PathBelow, named, one_of

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
    "current",
    "finish",
    "finish_known",
    "list_uploads",
    "new_upload",
    "open_upload",
    "prolong",
    "publish_new",
    "read_checksums",
    "read_upload",
    "read_uploads",
    "renew_lease",
    "require_not_aborted",
    "require_running",
    "stage",
    "stage_known",
    "upload_ids",
    "uploads_folder",
]

OPEN, PREPARED, STAGED, ABORTED, COMMITTED = "open", "prepared", "staged", "aborted", "committed"
UNREADABLE = "unreadable"

UPLOADS = ".hoodie/blob_service/v1/uploads"
PREPARED_MS = 7 * 86_400_000
"""The longest time for which a prepared DataFrame may wait to be written, in milliseconds."""

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
    """A durable container.

    `path` is relative to the table, `bytes` the size of the file, `blobs` the number of its blobs, and `blob_bytes` the
    size of these blobs.
    """

    path: PathBelow
    partition: str
    column: str
    bytes: int
    blobs: int
    blob_bytes: int


@dataclass(frozen=True)
class Upload:
    """The state of one write's uploads, as in its manifest.

    Attributes:
        table: The table's base path, normalised.
        write_id: The write's id.
        state: ``open``, ``prepared``, ``staged``, ``aborted``, ``committed`` or ``unreadable``.
        opened_ms: The time at which the write began, in milliseconds since 1970, UTC.
        lease_until_ms: The end of the lease, in milliseconds since 1970, UTC.
        lease_ms: The length of the lease, in milliseconds.
        columns: The settings of each blob column, by dotted path.
        containers: The durable containers, once staged.
        checksums: The side table of checksums, None if there is none.
        pins: The side tables of pins.
        instant: The requested time of the instant that refers to the containers, None unless committed.
        generation: The generation of the manifest's file, -1 if there is none.

    Example:
        >>> Upload("/t", "a write id", COMMITTED).may_commit(0)
        False
    """

    table: str
    write_id: str
    state: Annotated[str, one_of(*_RANKS)]
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
        """Return True if a commit may still add references to this write's containers.

        This is False once the write has ended or its lease has run out, and always True for an unreadable manifest.
        `now_ms` is the time by the writer's clock; a cleaner subtracts its grace.
        """
        if self.state in (COMMITTED, ABORTED):
            return False
        return self.state == UNREADABLE or now_ms < self.lease_until_ms

    @property
    def names_checksums(self) -> bool:
        """Return True if the checksums that are named, or that none are, will not change any more."""
        return self.state in (STAGED, COMMITTED)


_MANIFEST = Record("upload", 1, Upload, elsewhere=("table", "generation"))


def open_upload(
    table: str,
    columns: Mapping[str, BlobSettings],
    *,
    lease_ms: int,
    prepared: bool = False,
    now_ms: int | None = None,
    options: StorageOptions = _LOCAL,
) -> Upload:
    """Publish the manifest of a new write before any of its bytes; return the upload with its new write id.

    The arguments are those of `new_upload`, and how storage is opened.

    Example:
        >>> import tempfile
        >>> table = tempfile.mkdtemp()
        >>> upload = open_upload(table, {"img": BlobSettings()}, lease_ms=60_000)
        >>> [found.state for found in list_uploads(table)]
        ['open']
    """
    return publish_new(new_upload(table, columns, lease_ms=lease_ms, prepared=prepared, now_ms=now_ms), options)


def publish_new(upload: Upload, options: StorageOptions = _LOCAL) -> Upload:
    """Publish the first manifest of a new write, before any of its bytes."""
    return _publish(upload, options)


def new_upload(
    table: str,
    columns: Mapping[str, BlobSettings],
    *,
    lease_ms: int,
    prepared: bool = False,
    now_ms: int | None = None,
) -> Upload:
    """Return the upload of a new write, of which no other process knows yet.

    `columns` are the settings of the blob columns by dotted path, `lease_ms` the milliseconds that the write may run
    without a renewal. With `prepared`, a DataFrame is prepared for its user, who has 7 days to write it. `now_ms`
    replaces the clock in tests.
    """
    now = clock_ms() if now_ms is None else now_ms
    length = PREPARED_MS if prepared else lease_ms
    return Upload(
        table=normalise(table),
        write_id=new_write_id(now),
        state=PREPARED if prepared else OPEN,
        opened_ms=now,
        lease_until_ms=now + length,
        lease_ms=length,
        columns=tuple(sorted(columns.items())),
    )


def renew_lease(table: str, write_id: str, *, now_ms: int | None = None, options: StorageOptions = _LOCAL) -> Upload:
    """Extend the lease of a running write from now; a prepared one keeps its 7 days.

    Raises BlobWriteError if the write has ended or its lease ran out, as its containers may then be gone.
    """
    return prolong(read_upload(table, write_id, options=options), now_ms=now_ms, options=options)


def prolong(upload: Upload, *, now_ms: int | None = None, options: StorageOptions = _LOCAL) -> Upload:
    """Extend the lease of a write whose state is known, as `renew_lease` does."""
    now = require_running(upload, now_ms)
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
    """Publish the list of containers and pins that the commit will refer to, and renew the lease.

    `containers` and `pins` are those of the successful task attempts. Raises BlobWriteError if the write has ended or
    its lease ran out.
    """
    upload = read_upload(table, write_id, options=options)
    return stage_known(upload, containers, pins=pins, now_ms=now_ms, options=options)


def stage_known(
    upload: Upload,
    containers: Iterable[WrittenContainer],
    *,
    pins: Iterable[SideTable] = (),
    now_ms: int | None = None,
    options: StorageOptions = _LOCAL,
) -> Upload:
    """Publish what `stage` publishes, for a write whose state is known."""
    now = require_running(upload, now_ms)
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
    """Mark a write as committed by a completed instant (its requested time); repeating this changes nothing.

    Raises BlobWriteError if the write was aborted, or committed by another instant.
    """
    return finish_known(read_upload(table, write_id, options=options), instant, options=options)


def finish_known(upload: Upload, instant: str, *, options: StorageOptions = _LOCAL) -> Upload:
    """Mark a write whose state is known as committed, as `finish` does."""
    if upload.state == COMMITTED and upload.instant == instant:
        return upload
    if upload.state in (COMMITTED, ABORTED):
        raise BlobWriteError(f"{_named(upload)} and cannot be finished by instant {instant}")
    # An expired lease does not matter: the instant is completed, so its references keep the containers.
    return _publish(replace(upload, state=COMMITTED, instant=instant), options)


def abort(table: str, write_id: str, *, options: StorageOptions = _LOCAL) -> Upload:
    """Mark a write as aborted: no commit will refer to its containers. Repeating this changes nothing.

    Raises BlobWriteError if the write is committed.
    """
    upload = read_upload(table, write_id, options=options)
    if upload.state == COMMITTED:
        raise BlobWriteError(f"{_named(upload)} and cannot be aborted")
    return upload if upload.state == ABORTED else _publish(replace(upload, state=ABORTED), options)


def read_upload(table: str, write_id: str, *, options: StorageOptions = _LOCAL) -> Upload:
    """Return the upload of one write; its state is UNREADABLE if manifest files exist but none is whole.

    Raises InvalidArgumentError if the table has no such write, UnsupportedTableError if another version of this package
    wrote the manifest.
    """
    root = normalise(table)
    found = _read(root, write_id, _open(root, options)) if is_write_id(write_id) else None
    if found is None:
        raise InvalidArgumentError(f"'{table}' has no upload '{write_id}'; list_uploads names those it has")
    return found


def current(upload: Upload, *, options: StorageOptions = _LOCAL) -> Upload:
    """Return the state that a write has now; its manifest is listed, and read only if another one is newer.

    `upload` is the state that the only process which runs the write has published last. Raises InvalidArgumentError if
    the manifest is gone.
    """
    storage = _open(upload.table, options)
    names = names_of(storage, uploads_folder(upload.table, upload.write_id))
    if names and generation_of(names[0]) == upload.generation:
        return upload
    return read_upload(upload.table, upload.write_id, options=options)


def require_not_aborted(upload: Upload, *, options: StorageOptions = _LOCAL) -> None:
    """Raise BlobWriteError if another process has aborted a write; the manifest is listed, and not read.

    `upload` is a state that the process which runs the write has published; it may publish the next one meanwhile.
    Raises InvalidArgumentError if the manifest is gone.
    """
    names = names_of(_open(upload.table, options), uploads_folder(upload.table, upload.write_id))
    generations = {generation_of(name) for name in names}
    if upload.generation not in generations:
        upload = read_upload(upload.table, upload.write_id, options=options)
    aborted = _RANKS[ABORTED] * _RANK_STEP
    if any(aborted <= generation < aborted + _RANK_STEP for generation in generations):
        raise BlobWriteError(f"{_named(replace(upload, state=ABORTED))} and cannot go on")


def list_uploads(table: str, *, options: StorageOptions = _LOCAL) -> list[Upload]:
    """Return all uploads of a table in any state, the oldest first.

    Raises UnsupportedTableError if another version of this package wrote one of the manifests.
    """
    return read_uploads(table, upload_ids(table, options=options), options=options)


def upload_ids(table: str, *, options: StorageOptions = _LOCAL) -> list[str]:
    """Return the ids of all writes that have a manifest or an incomplete one, the oldest first."""
    root = normalise(table)
    return sorted(name for name in _open(root, options).list_folders(join(root, UPLOADS)) if is_write_id(name))


def read_uploads(table: str, write_ids: Sequence[str], *, options: StorageOptions = _LOCAL) -> list[Upload]:
    """Return the uploads of the given writes, in this order; writes without a manifest are left out.

    Manifests on an object store are read by several threads. Raises UnsupportedTableError if another version of this
    package wrote one of them.
    """
    root = normalise(table)
    storage = _open(root, options)
    threads = 1 if storage.scheme == "file" else default_threads(local=False)
    found = in_threads(lambda write_id: _read(root, write_id, storage), write_ids, threads)
    return [upload for upload in found if upload is not None]


def read_checksums(upload: Upload, *, options: StorageOptions = _LOCAL) -> pa.Table | None:
    """Return the checksums of a write's blobs, or None if the write kept none.

    The columns are path (relative to the table), method, offset and length (int64, bytes) and checksum (binary). Raises
    DataFileError if the file is gone or damaged.
    """
    if upload.checksums is None:
        return None
    folder = uploads_folder(upload.table, upload.write_id)
    return load_table(_open(upload.table, options), folder, upload.checksums, _CHECKSUMS)


def _read(root: str, write_id: str, storage: Storage) -> Upload | None:
    folder = uploads_folder(root, write_id)
    found = _MANIFEST.newest(storage, folder)
    if found is None:
        # A folder with nothing but side tables and hidden files never had a manifest.
        others = (".", f"{CHECKSUMS_OF_BLOBS}-", f"{PINS}-")
        broken = any(not info.name.startswith(others) for info in storage.list_files(folder))
        return Upload(root, write_id, UNREADABLE) if broken else None
    try:
        return _checked(found.value(table=root), write_id, found.uri)
    except HudiVectorError:  # whole, but its content is invalid: if in doubt, containers are kept
        return Upload(root, write_id, UNREADABLE, generation=found.generation)


def _checked(upload: Upload, write_id: str, uri: str) -> Upload:
    """Return the upload; raise DataFileError if it is not that of the write, or names files that are no side tables."""
    for file in (*upload.pins, *([upload.checksums] if upload.checksums else [])):
        named(uri, "side table", file.name, SIDE_TABLE)
    if upload.write_id != write_id:
        raise DataFileError(f"'{uri}' is damaged, or somebody changed it: it is not the manifest of write '{write_id}'")
    return upload


def _publish(upload: Upload, options: StorageOptions) -> Upload:
    count = upload.generation % _RANK_STEP + 1 if upload.generation >= 0 else 0
    generation = _RANKS[upload.state] * _RANK_STEP + count
    folder = uploads_folder(upload.table, upload.write_id)
    _MANIFEST.publish(_open(upload.table, options), folder, upload, generation)
    return replace(upload, generation=generation)


def require_running(upload: Upload, now_ms: int | None = None) -> int:
    """Return the time, milliseconds since 1970, UTC; raise BlobWriteError if a write has ended or its lease ran out."""
    now = clock_ms() if now_ms is None else now_ms
    if upload.state in (COMMITTED, ABORTED, UNREADABLE):
        raise BlobWriteError(f"{_named(upload)} and cannot go on")
    if not upload.may_commit(now):
        raise BlobWriteError(
            f"the lease of upload '{upload.write_id}' to '{upload.table}' ran out "
            f"{now - upload.lease_until_ms} ms ago, so its blobs may have been cleaned; repeat the write, with a "
            "longer hoodie.blob.write.lease"
        )
    return now


def _prolonged(upload: Upload, now: int) -> Upload:
    if upload.state == PREPARED:
        return upload
    return replace(upload, lease_until_ms=max(upload.lease_until_ms, now + upload.lease_ms))


def _named(upload: Upload) -> str:
    by = f" by instant {upload.instant}" if upload.instant else ""
    return f"upload '{upload.write_id}' to '{upload.table}' is {upload.state}{by}"


def uploads_folder(table: str, write_id: str) -> str:
    """Return the folder of a write's manifest and side tables. Raises DataFileError if the write id is malformed.

    `table` is the normalised base path. A malformed id could lead to any path.
    """
    return join(table, UPLOADS, named(table, "write", write_id, WRITE_ID))


def _open(root: str, options: StorageOptions) -> Storage:
    return open_storage(root, options)
