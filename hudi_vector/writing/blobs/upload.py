"""A write with blobs: bytes are stored first, then Hudi commits, and a manifest records each step.

    open manifest → containers and staged rows → staged manifest → checks → Hudi's commit → committed manifest

A failure before the commit leaves containers without references in the write's folder. The write's manifest is then
aborted; where it is not known whether Hudi has committed, its lease runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_vector.blobs.registry import lenders
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan
from hudi_vector.blobs.uploads.manifest import Upload, abort, open_upload
from hudi_vector.blobs.uploads.running import RunningUpload
from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import StorageOptions, normalise, open_storage
from hudi_vector.writing.blobs.lending import borrow, require_stored, require_there
from hudi_vector.writing.blobs.staging import PARTITION, StagedRows, partition_path, stage_rows, staging_folder
from hudi_vector.writing.committing.hand_over import Handing
from hudi_vector.writing.result import BlobUpload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudi_vector.blobs.containers.container import WrittenContainer
    from hudi_vector.table.config import TableConfig

__all__ = ["BlobTarget", "give_up", "staged_rows", "upload_and_write"]


@dataclass(frozen=True)
class BlobTarget:
    """The existing table that is written to, and the blob columns of the write."""

    path: str
    columns: tuple[BlobColumn, ...]
    partition_by: Sequence[str]
    config: TableConfig | None


def upload_and_write(
    df: DataFrame,
    target: BlobTarget,
    write: Callable[[StagedRows], str | None],
    handing: Handing,
    failed: Callable[[str], None] | None = None,
) -> BlobUpload:
    """Store the blobs of a DataFrame, and write the rows that refer to them; return what was uploaded.

    Args:
        df: The rows, with blobs in any form; evaluated once.
        target: The table and its blob columns.
        write: Checks the staged rows and writes them to Hudi; returns the instant, None if there was none.
        handing: Says after a failure of `write` whether Hudi has committed the rows all the same.
        failed: Called with the write's id after a failure, once the staged rows are removed; None for no call.

    Raises:
        InvalidBlobError: A value is not a blob, or its fields contradict each other.
        BlobWriteError: Bytes could not be stored, or were removed while the write ran.
    """
    options = storage_options(df.sparkSession, target.path)
    settings = {column.path: column.settings for column in target.columns}
    lease_ms = min(each.lease_ms for each in settings.values())
    upload = open_upload(target.path, settings, lease_ms=lease_ms, options=options)
    running, folder = RunningUpload(upload, options), normalise(staging_folder(target.path, upload.write_id))
    try:
        with running.renewals():
            staged = staged_rows(df, target, upload, options)
            containers = staged.containers
            manifest = running.stage(containers, staged.pins)
            lent = borrow(manifest, staged.lenders, options)
            if manifest.pins:  # sweeps may have been waited for: raises if the lease ran out meanwhile
                running.require_held()
            instant = write(staged)
        made = BlobUpload(
            write_id=upload.write_id,
            containers=len(containers),
            blobs=sum(each.blobs for each in containers),
            bytes=sum(each.blob_bytes for each in containers),
            staged_bytes=staged.bytes,
        )
        _end(running, instant, containers, folder, options)
        if instant is not None:
            require_there(lent, options, f"instant {instant} of '{target.path}' was committed")
    except BaseException:
        _note_failure(running, handing, options)
        open_storage(folder, options).remove_folder(folder)
        if failed is not None:
            failed(upload.write_id)
        raise
    return made


def _note_failure(running: RunningUpload, handing: Handing, options: StorageOptions) -> None:
    """Note the commit of a write that failed after it, or that none can follow; an unknown end shows by the lease."""
    if handing.instant is not None:
        with suppress(HudiVectorError, OSError):
            running.finish(handing.instant)
    elif not handing.may_have_committed:
        give_up(running.upload.table, running.upload, options)


def staged_rows(df: DataFrame, target: BlobTarget, upload: Upload, options: StorageOptions) -> StagedRows:
    """Store the blobs of all rows and stage the rows of an open upload; a failure aborts the upload."""
    try:
        others = lenders(target.path, options)
        plan = BlobWritePlan(target.path, upload.write_id, target.columns, PARTITION, lenders=others, options=options)
        rows = df.withColumn(PARTITION, partition_path(target.partition_by, target.config))
        return stage_rows(rows, plan, staging_folder(target.path, upload.write_id))
    except BaseException:
        # Hudi has no rows yet, so no commit can follow.
        give_up(target.path, upload, options)
        raise


def give_up(path: str, upload: Upload, options: StorageOptions) -> None:
    """Mark an upload as aborted; if this fails, the error is ignored and the upload ends with its lease."""
    with suppress(HudiVectorError, OSError):
        abort(path, upload.write_id, options=options)


def _end(
    running: RunningUpload,
    instant: str | None,
    containers: Sequence[WrittenContainer],
    folder: str,
    options: StorageOptions,
) -> None:
    """Note how a write ended, look whether its containers are there, and remove the folder of its staged rows."""
    table, storage = running.upload.table, open_storage(folder, options)
    if instant is None:
        abort(table, running.upload.write_id, options=options)
        storage.remove_folder(folder)
        return
    _, remove = storage.together(lambda: running.finish(instant), lambda: storage.removal(folder))
    outcome = f"instant {instant} of '{table}' was committed"
    storage.together(lambda: require_stored(table, containers, options, outcome), remove)
