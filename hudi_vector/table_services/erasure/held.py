"""Reasons against an erasure: savepoints, writers under way, services that have begun, and concurrent writers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from hudi_vector.blobs.leases import COMPACT
from hudi_vector.blobs.uploads.manifest import OPEN, PREPARED, STAGED, UNREADABLE, Upload, abort, list_uploads
from hudi_vector.storage import open_storage
from hudi_vector.storage.leases import clock_ms
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.table_services.erasure.api import ErasureResult
from hudi_vector.table_services.plans.clustering_files import begun_clusterings
from hudi_vector.table_services.plans.compaction_files import unended_runs
from hudi_vector.table_services.retention.pending import pending_ingests
from hudi_vector.table_services.retention.savepoints import saved_files
from hudi_vector.table_services.service_lease import ServiceLease

if TYPE_CHECKING:
    from hudi_vector.table_services.clustering.run import Clustering
    from hudi_vector.table_services.compaction.run import Compaction

__all__ = ["end_dead_uploads", "end_killed", "pending_of", "why_held"]

_CLUSTERINGS = (".clustering.", ".replacecommit.", ".logcompaction.")
_COMPACTIONS = (".compaction.",)


def end_killed(work: Clustering) -> None:
    """End the compactions and clusterings of this package that were killed, and roll back writes known to be dead.

    Raise RefusedError if a compaction or clustering is under way.
    """
    from hudi_vector.table_services.compaction.dead_writes import roll_back_dead

    root, options = work.table.source.uri, work.storage_options
    if unended_runs(root, options) or begun_clusterings(root, options):
        with ServiceLease(root, COMPACT, options=options) as lease:
            work.end_begun_runs(lease)
            work.end_begun_clusterings(lease)
    native = NativeTable(Source(root, root, options))
    roll_back_dead(work.spark, work.path, work.hudi_options, pending_ingests(native))


def end_dead_uploads(work: Compaction) -> None:
    """Abort the uploads of writers that failed or were killed, and remove the rows that they staged.

    Do nothing unless the table is written by one process alone: others may still write.
    """
    from hudi_vector.writing.blobs.staging import staging_folder

    root, options = work.table.source.uri, work.storage_options
    uploads = list_uploads(root, options=options) if work.alone else []
    for upload in filter(partial(_is_dead, work), uploads):
        abort(root, upload.write_id, options=options)
        open_storage(root, options).remove_folder(staging_folder(root, upload.write_id))


def why_held(work: Compaction, found: ErasureResult) -> str | None:
    """Return the sentence that names what forbids an erasure of a table, or None.

    `found` is what the erasure check found. A writer of a table that is written by one process alone (`work.alone`) is
    not running any more, and Hudi rolls back what it left.
    """
    return next(_holds(work, found), None)


def _holds(work: Compaction, found: ErasureResult) -> Iterator[str]:
    root, options = work.table.source.uri, work.storage_options
    native = NativeTable(Source(root, root, options))
    saved = saved_files(native)
    for holder in found.holders:
        if holder.path in saved:
            yield (
                f"savepoint {saved[holder.path]} of '{work.name}' holds '{holder.path}' with rows of the keys; delete "
                "the savepoint, and erase again"
            )
    uploads = [each for each in list_uploads(root, options=options) if _may_commit(each)]
    yield from (_under_way(each, work.name) for each in uploads if not _is_dead(work, each))
    for ingest in () if work.alone else pending_ingests(native):
        yield (
            f"{ingest.action} {ingest.requested} of '{work.name}' has not completed, and may bring rows of the keys; "
            "wait until its writer has ended, or, if that was killed and no other job writes, give assume_single_writer"
        )
    for instant in pending_of(native, _CLUSTERINGS):
        yield f"the clustering {instant} of '{work.name}' has not completed; run it to its end, and erase again"
    if found.live or any(holder.kind == "container" for holder in found.holders):
        refusal = work.why_refused()
        if refusal is not None:
            yield refusal


def pending_of(native: NativeTable, actions: Collection[str] = _COMPACTIONS) -> list[str]:
    """Return the requested times of the compactions, or of other `actions`, that have not completed, the oldest first.

    `actions` are parts of the names of their files on the timeline.
    """
    listed = native.storage.list_files(native.config.layout.folder(native.source.uri))
    begun = {info.name.partition(".")[0] for info in listed if any(each in info.name for each in actions)}
    return sorted(begun & native.timeline().pending)


def _may_commit(upload: Upload) -> bool:
    return upload.may_commit(clock_ms())


def _is_dead(work: Compaction, upload: Upload) -> bool:
    """Return True if a writer has left an upload behind; a prepared write still waits for its user to write it."""
    return work.alone and upload.state in (OPEN, STAGED) and _may_commit(upload)


def _under_way(upload: Upload, name: str) -> str:
    if upload.state == UNREADABLE:
        return (
            f"the manifest of write '{upload.write_id}' to '{name}' is damaged, so that it may yet commit; remove its "
            "folder if that write has ended"
        )
    until = datetime.fromtimestamp(upload.lease_until_ms / 1000, timezone.utc)
    otherwise = (
        "or until then"
        if upload.state == PREPARED
        else "or, if it failed or its process died and no other job writes, give assume_single_writer"
    )
    return (
        f"write '{upload.write_id}' to '{name}' is under way, and may bring rows of the keys until "
        f"{until:%Y-%m-%d %H:%M:%S} UTC; wait until it has ended, {otherwise}"
    )
