"""``hv.table_services.explain_blob``: why one blob file stays, or why nothing keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.names import BLOB_AREA, is_write_id, write_of
from hudi_vector.blobs.paths import file_uri
from hudi_vector.blobs.uploads.manifest import COMMITTED, UPLOADS, Upload, list_uploads, read_uploads
from hudi_vector.errors import InvalidArgumentError, InvalidBlobError, number_of
from hudi_vector.shown import Shown
from hudi_vector.storage import FileInfo, StorageOptions, join, open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.cleaning.table import ServiceTable
from hudi_vector.table_services.marking.container_index import RANGES, live_bytes
from hudi_vector.table_services.marking.mark import find_unneeded
from hudi_vector.table_services.references.files import FileReferences, Reader
from hudi_vector.table_services.references.places import Places
from hudi_vector.table_services.references.references import add_references, distinct
from hudi_vector.table_services.references.referrers import Referrers
from hudi_vector.table_services.retention.retained import RetainedFile
from hudi_vector.table_services.retention.savepoints import saved_files
from hudi_vector.table_services.trash.trash import TRASH, TrashedFile, list_trash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_vector.options import Settings

__all__ = [
    "GONE",
    "KEPT",
    "OUTSIDE",
    "TRASHED",
    "UNNEEDED",
    "BlobExplanation",
    "BlobReferrer",
    "explain",
    "explain_blob",
]

KEPT, UNNEEDED, TRASHED, GONE, OUTSIDE = "kept", "unneeded", "trashed", "gone", "outside"
"""The values of `BlobExplanation.state`."""


@dataclass(frozen=True)
class BlobReferrer:
    """A data file that refers to a blob file.

    Attributes:
        path: The data file's path from the table's folder, or its URI if it belongs to another table.
        bytes: The data file's size.
        kind: ``base`` or ``log``.
        file_id: The data file's file group.
        instant: The requested time of the action that wrote the data file.
        savepoint: The newest savepoint that holds the data file, or None.
        references: How many distinct references to the blob file the data file contains.
    """

    path: str
    bytes: int
    kind: str
    file_id: str
    instant: str
    savepoint: str | None
    references: int


@dataclass(frozen=True, repr=False)
class BlobExplanation(Shown):
    """Everything that decides whether one blob file stays.

    Attributes:
        table: The table's base path.
        path: The file's path from the table's folder, or its URI if it lies elsewhere.
        state: KEPT or UNNEEDED by a mark made now; TRASHED or GONE if the file is not in its place; OUTSIDE if it lies
            where the table's cleaner does not look.
        reason: What keeps the file, or why nothing does.
        bytes: The file's size, or None if it is not in its place.
        live_bytes: How many of the file's bytes data files refer to; 0 if it is not in its place.
        age_ms: The time since the file was written, or None if storage gives no modification time.
        grace_ms: The minimum age of a file that may go.
        referrers: The data files that refer to the file, newest first.
        upload: The write that made the file, as its manifest records it, or None.
        trash: The file's copies in the trash, with the sweeps that took them; newest sweep first.
        doubts: The reasons why nothing may go at all.
        notes: Information for the operator.

    Example:
        >>> path = spark.table("albums").first().image.reference.external_path
        >>> hv.table_services.explain_blob(spark, "albums", path).rows()[0]["action"]
        'kept'
    """

    table: str
    path: str
    state: str
    reason: str
    bytes: int | None
    live_bytes: int
    age_ms: int | None
    grace_ms: int
    referrers: tuple[BlobReferrer, ...] = ()
    upload: Upload | None = None
    trash: tuple[TrashedFile, ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return rows of `path`, `bytes`, `action` and `reason` for the file and everything related to it.

        Returns:
            A row for the file, whose `action` is its state, followed by rows for the data files that refer to it
            (``refers``), its write (``wrote``) and its copies in the trash (``trashed``).
        """
        rows = [_row(self.path, self.bytes, self.state, self.reason)]
        for file in self.referrers:
            held = f", held by savepoint {file.savepoint}" if file.savepoint else ""
            what = f"{file.kind} file of group {file.file_id}, instant {file.instant}{held}"
            rows.append(_row(file.path, file.bytes, "refers", f"{what}: {number_of(file.references, 'reference')}"))
        if self.upload is not None:
            ended = f" by instant {self.upload.instant}" if self.upload.state == COMMITTED else ""
            rows.append(_row(join(UPLOADS, self.upload.write_id), None, "wrote", f"{self.upload.state}{ended}"))
        return rows + [_row(copy.trash_path, copy.bytes, "trashed", f"by sweep {copy.sweep_id}") for copy in self.trash]

    def lines(self) -> Iterator[str]:
        """Yield the explanation as a few sentences for people."""
        yield from (f"nothing may go: {doubt}" for doubt in self.doubts)
        yield from (f"note: {note}" for note in self.notes)
        yield f"{self.path} is {self.state}: {self.reason}"
        if self.bytes is not None:
            yield f"{self.live_bytes} of {self.bytes} bytes are live, by {number_of(len(self.referrers), 'data file')}"
        if self.age_ms is not None:
            yield f"it is {self.age_ms // 1000} s old, and the grace is {self.grace_ms // 1000} s"


@known_arguments()
def explain_blob(
    spark: SparkSession | Settings | None,
    table: str,
    path: str,
    *,
    grace: str | int | None = None,
    other_tables: Sequence[str] = (),
    ignore_stale_pending: bool = False,
    managed_roots: Sequence[str] | None = None,
) -> BlobExplanation:
    """Explain what keeps a blob file, or why nothing does, by a mark made now. Nothing is written.

    Args:
        spark: A registered session; or, as for `clean_blobs`, `Settings` or None.
        table: The name or path of a Hudi table.
        path: A container or any other file, given by its path from the table's folder, its absolute path or its URI; or
            the path of a file in the trash.
        grace: As for `clean_blobs`.
        other_tables: As for `clean_blobs`.
        ignore_stale_pending: As for `clean_blobs`.
        managed_roots: As for `clean_blobs`.

    Returns:
        The explanation, with all data files that refer to the file.

    Raises:
        InvalidArgumentError: The path is empty or leads above the folder where it begins.
        TableNotFoundError: There is no such table.

    Example:
        >>> path = spark.table("albums").first().image.reference.external_path
        >>> hv.table_services.explain_blob(spark, "albums", path).state
        'kept'
    """
    place = ServiceTable.of(spark, table, grace, other_tables, ignore_stale_pending, managed_roots)
    return explain(
        place.table,
        path,
        grace_ms=place.grace_ms,
        options=place.options,
        reader=place.references.whole,
        uploads=place.uploads,
        **place.marking,
    )


def explain(
    table: str,
    path: str,
    *,
    grace_ms: int,
    options: StorageOptions,
    reader: Reader,
    now_ms: int | None = None,
    **marking: Any,
) -> BlobExplanation:
    """Explain one file without Spark.

    `path` is as for `explain_blob`; `table` is a normalised base path. `grace_ms`, `options` and `marking` are passed
    to `hudi_vector.table_services.marking.mark.find_unneeded`. `reader` must return the ranges of references, not
    references folded by path. `now_ms` replaces the clock in tests.
    """
    now = clock_ms() if now_ms is None else now_ms
    uri = _in_place(table, path)
    shown = uri.removeprefix(f"{table}/")
    watch = _Watch(reader, uri)
    report = find_unneeded(table, grace_ms=grace_ms, options=options, reader=watch, now_ms=now, **marking)
    native = NativeTable(Source(table, table, options))
    info = open_storage(uri, options).info(uri)
    copies = tuple(copy for copy in list_trash(native.storage, table) if copy.path == shown)
    judged = {file.path: (UNNEEDED, file.reason) for file in report.candidates}
    judged |= {file.path: (KEPT, file.reason) for file in report.kept}
    state, reason = judged.get(shown, ("", "")) if info else ("", "")
    if not state and info is not None and BlobArea(table).owns(uri):
        state, reason = KEPT, "it came while the mark was made"
    elif not state:
        state, reason = _elsewhere(info, bool(copies), watch.files)
    return BlobExplanation(
        table=table,
        path=shown,
        state=state,
        reason=reason,
        bytes=info.size if info else None,
        live_bytes=watch.live_bytes(info.size) if info else 0,
        age_ms=now - info.mtime_ns // 1_000_000 if info and info.mtime_ns else None,
        grace_ms=grace_ms,
        referrers=_referrers(native, watch.files),
        upload=_upload(table, uri, options),
        trash=copies,
        doubts=report.doubts,
        notes=report.notes,
    )


class _Watch:
    """A `Reader` that records which data files refer to one blob file, and to which of its bytes."""

    def __init__(self, reader: Reader, uri: str) -> None:
        places = Places()
        self._uri = places.identity(uri)
        self._referrers = Referrers({self._uri: uri}, places)
        self._reader = reader
        self._ranges: list[pa.Table] = []
        self.files: dict[RetainedFile, int] = {}

    def __call__(self, files: Sequence[RetainedFile], options: StorageOptions) -> Iterator[FileReferences]:
        """Yield the references of the given files."""
        for found in self._reader(files, options):
            self._see(found)
            yield found

    def live_bytes(self, size: int) -> int:
        """Return how many bytes of the file are referred to, given its size; each byte counts once."""
        return int(live_bytes(distinct(self._ranges, RANGES), np.array([size], np.int64))[0])

    def _see(self, found: FileReferences) -> None:
        rows = found.references
        paths = [path for path in pc.unique(rows["path"]).to_pylist() if self._means(path, found.file)]
        if paths:
            ours = rows.filter(pc.is_in(rows["path"], pa.array(paths, pa.string())))
            ranges = pa.table([[0] * len(ours), ours["offset"], ours["length"]], schema=RANGES)
            add_references(self._ranges, ranges)
            self.files[found.file] = len(ours)

    def _means(self, path: str, file: RetainedFile) -> bool:
        return self._uri in self._referrers.named(path, file)


def _in_place(table: str, path: str) -> str:
    """Return the URI of a file; for a path in the trash, the URI of the place it was swept from."""
    try:
        uri = file_uri(path, table)
    except InvalidBlobError as problem:
        raise InvalidArgumentError(
            f"path is {path!r}: {problem}; give a path from the table's folder, an absolute path or a URI"
        ) from None
    sweep, _, rest = uri.removeprefix(f"{table}/{TRASH}/").partition("/")
    return join(table, BLOB_AREA, rest) if is_write_id(sweep) and rest else uri


def _elsewhere(info: FileInfo | None, is_trashed: bool, files: dict[RetainedFile, int]) -> tuple[str, str]:
    """Return the state and the reason of a file that the mark did not judge."""
    count = number_of(len(files), "data file refers", "data files refer")
    if info is not None:
        return OUTSIDE, f"it is outside {BLOB_AREA}, and nothing outside is ever deleted; {count} to it"
    danger = f"; {count} to it, so restore or relocate it" if files else ", and no data file refers to it"
    return (TRASHED, f"it is in the trash{danger}") if is_trashed else (GONE, f"there is no such file{danger}")


def _referrers(native: NativeTable, files: dict[RetainedFile, int]) -> tuple[BlobReferrer, ...]:
    saved = saved_files(native) if files else {}
    made = []
    for file in sorted(files, key=lambda file: (file.instant, file.info.uri), reverse=True):
        is_ours = file.table == native.source.uri
        path, savepoint = (file.path, saved.get(file.path)) if is_ours else (file.info.uri, None)
        made.append(BlobReferrer(path, file.info.size, file.kind, file.file_id, file.instant, savepoint, files[file]))
    return tuple(made)


def _upload(table: str, uri: str, options: StorageOptions) -> Upload | None:
    """Return the write that made a file, found by the file's name or else by the newest manifest that names it."""
    write_id = write_of(table, uri)
    if write_id is not None and (own := read_uploads(table, [write_id], options=options)):
        return own[0]
    path = uri.removeprefix(f"{table}/")
    uploads = list_uploads(table, options=options)
    naming = [each for each in uploads if any(container.path == path for container in each.containers)]
    return naming[-1] if naming else None


def _row(path: str, size: int | None, action: str, reason: str) -> dict[str, Any]:
    return {"path": path, "bytes": size, "action": action, "reason": reason}
