"""A write with blobs: bytes are stored first, then Hudi commits, and a manifest records each step.

    open manifest → containers and staged rows → staged manifest → checks → Hudi's commit → committed manifest

A failure before the commit leaves containers without references in the write's folder. The write's manifest is then
aborted, or its lease runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hudi_vector.blobs.registry import lenders
from hudi_vector.blobs.storing.writer import BlobColumn, BlobWritePlan
from hudi_vector.blobs.uploads.manifest import Upload, abort, finish, open_upload, renew_lease, stage
from hudi_vector.errors import HudiVectorError
from hudi_vector.spark.resolve import storage_options
from hudi_vector.storage import StorageOptions
from hudi_vector.storage.leases import Renewals
from hudi_vector.writing.blobs.lending import borrow, require_stored, require_there
from hudi_vector.writing.blobs.staging import PARTITION, StagedRows, partition_path, stage_rows, staging_folder
from hudi_vector.writing.result import BlobUpload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudi_vector.blobs.containers.container import WrittenContainer
    from hudi_vector.table.config import TableConfig
    from hudi_vector.writing.files import Files

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
    files: Files,
    write: Callable[[StagedRows], str | None],
    failed: Callable[[str], None] | None = None,
) -> BlobUpload:
    """Store the blobs of a DataFrame, and write the rows that refer to them; return what was uploaded.

    Args:
        df: The rows, with blobs in any form; evaluated once.
        target: The table and its blob columns.
        files: Hadoop's file systems with the session's settings.
        write: Checks the staged rows and writes them to Hudi; returns the instant, None if there was none.
        failed: Called with the write's id after a failure, once the staged rows are removed; None for no call.

    Raises:
        InvalidBlobError: A value is not a blob, or its fields contradict each other.
        BlobWriteError: Bytes could not be stored, or were removed while the write ran.
    """
    options = storage_options(df.sparkSession, target.path)
    settings = {column.path: column.settings for column in target.columns}
    lease_ms = min(each.lease_ms for each in settings.values())
    upload = open_upload(target.path, settings, lease_ms=lease_ms, options=options)
    folder = staging_folder(target.path, upload.write_id)
    renew = partial(renew_lease, upload.table, upload.write_id, options=options)
    try:
        with Renewals(f"the lease of upload {upload.write_id}", renew, upload.lease_ms):
            staged = staged_rows(df, target, upload, options)
            containers = staged.containers
            manifest = stage(target.path, upload.write_id, containers, pins=staged.pins, options=options)
            lent = borrow(manifest, staged.lenders, options)
            renew()  # raises if the lease ran out, as the containers may then be gone
            instant = write(staged)
        made = BlobUpload(
            write_id=upload.write_id,
            containers=len(containers),
            blobs=sum(each.blobs for each in containers),
            bytes=sum(each.blob_bytes for each in containers),
            staged_bytes=staged.bytes,
        )
        _end(target.path, upload, instant, containers, options)
        if instant is not None:
            require_there(lent, options, f"instant {instant} of '{target.path}' was committed")
    except BaseException:
        files.delete(folder)
        if failed is not None:
            failed(upload.write_id)
        raise
    files.delete(folder)
    return made


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
    path: str, upload: Upload, instant: str | None, containers: Sequence[WrittenContainer], options: StorageOptions
) -> None:
    if instant is None:
        abort(path, upload.write_id, options=options)
        return
    finish(path, upload.write_id, instant, options=options)
    require_stored(upload.table, containers, options, f"instant {instant} of '{path}' was committed")
