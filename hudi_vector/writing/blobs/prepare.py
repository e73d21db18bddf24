"""The public functions ``hv.blobs.prepare`` and ``hv.blobs.finish``.

They are for pipelines that call ``df.write.format("hudi")`` themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.registry import lenders
from hudi_vector.blobs.uploads.manifest import ABORTED, COMMITTED, Upload, finish, open_upload, read_upload, stage
from hudi_vector.errors import InvalidArgumentError, TableNotFoundError
from hudi_vector.options import require_known, require_known_in_session
from hudi_vector.spark.catalyst.fitness import require_workers
from hudi_vector.spark.catalyst.settings import session_settings
from hudi_vector.spark.resolve import storage_options
from hudi_vector.spark.snapshots import writers_zone
from hudi_vector.storage import normalise
from hudi_vector.table.instants import as_timeline_time
from hudi_vector.table.model import Source
from hudi_vector.table.native import NativeTable
from hudi_vector.writing.blobs.lending import borrow, borrowed, require_stored, require_there
from hudi_vector.writing.blobs.plan import plan_blobs
from hudi_vector.writing.blobs.staging import staging_folder
from hudi_vector.writing.blobs.upload import BlobTarget, give_up, staged_rows
from hudi_vector.writing.files import Files
from hudi_vector.writing.local_frames import spark_frame
from hudi_vector.writing.request import BlobSpecs, blob_specs
from hudi_vector.writing.target import resolve_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PreparedBlobs", "finish_blobs", "prepare_blobs"]


@dataclass(frozen=True)
class PreparedBlobs:
    """Rows whose blobs are stored and that are ready to be written.

    Attributes:
        df: The rows with blob structs, as Hudi expects them. They are read from files in the table's staging folder.
        write_id: The id to pass to `finish_blobs`.
        table: The table's base path.

    Example:
        >>> prepared = hv.blobs.prepare(uploads, "/tables/albums", blobs=["image"])
        >>> prepared.df.count()
        2
    """

    df: DataFrame
    write_id: str
    table: str


@known_arguments()
def prepare_blobs(
    df: DataFrame,
    table: str,
    *,
    blobs: Iterable[str] | BlobSpecs | None = None,
    options: Mapping[str, object] | None = None,
) -> PreparedBlobs:
    """Store the blobs of a DataFrame so that the caller can write the rows to Hudi.

    The bytes are durable on return. They are kept for 7 days, or permanently once `finish_blobs` has named the commit
    that refers to them.

    Args:
        df: The rows, evaluated once.
        table: The path or catalog name of an existing table.
        blobs: The blob columns, as for ``hv.write``; columns marked as BLOB need not be named.
        options: Settings under ``hoodie.storage.blob.``.

    Returns:
        The rows to write, and the id to pass to `finish_blobs`.

    Raises:
        TableNotFoundError: The table does not exist.
        InvalidArgumentError: No column is a blob, or a setting is not allowed.
        InvalidBlobError: A value is not a blob, or its fields contradict each other.

    Example:
        >>> prepared = hv.blobs.prepare(uploads, "/tables/albums", blobs=["image"])
        >>> prepared.df.write.format("hudi").mode("append").save("/tables/albums")
        >>> hv.blobs.finish(spark, "/tables/albums", prepared.write_id)
    """
    df = spark_frame(df)
    spark = df.sparkSession
    require_known(options or {}, any_case=True)
    require_known_in_session(session_settings(spark))
    files = Files(spark)
    target = resolve_target(spark, files, table, None)
    existing = target.existing
    if existing is None:
        raise TableNotFoundError(
            f"there is no table '{table}' to prepare blobs for: make it with CREATE TABLE, or use hudi_vector.write"
        )
    given = {key: str(value) for key, value in (options or {}).items()}
    columns = plan_blobs(df, table, existing, blob_specs(blobs), given)
    if not columns:
        raise InvalidArgumentError("no column of the DataFrame is a blob; name the columns with blobs=[…]")
    require_workers(spark)
    access = storage_options(spark, target.path)
    settings = {column.path: column.settings for column in columns}
    upload = open_upload(target.path, settings, lease_ms=0, prepared=True, options=access)
    place = BlobTarget(target.path, columns, existing.config.partition_fields, existing.config)
    try:
        staged = staged_rows(df, place, upload, access)
        manifest = stage(target.path, upload.write_id, staged.containers, pins=staged.pins, options=access)
        borrow(manifest, staged.lenders, access)
    except BaseException:
        # The caller gets no rows to write, so no commit can follow.
        give_up(target.path, upload, access)
        files.delete(staging_folder(target.path, upload.write_id))
        raise
    return PreparedBlobs(staged.frame, upload.write_id, target.path)


@known_arguments()
def finish_blobs(spark: SparkSession, table: str, write_id: str, instant: str | None = None) -> Upload:
    """Note that prepared rows were committed, and remove the files in which the rows were staged.

    Args:
        spark: The session.
        table: The table, as for `prepare_blobs`.
        write_id: The id that `prepare_blobs` returned.
        instant: The requested time of the commit that wrote the rows; None for the table's newest commit.

    Returns:
        The finished upload.

    Raises:
        InvalidArgumentError: There is no such write, or no such commit completed after the write was opened.
        BlobWriteError: The write was committed by another instant or aborted; or a file that its rows refer to is gone,
            because it was prepared more than 7 days ago.

    Example:
        >>> prepared = hv.blobs.prepare(uploads, "/tables/albums", blobs=["image"])
        >>> prepared.df.write.format("hudi").mode("append").save("/tables/albums")
        >>> hv.blobs.finish(spark, "/tables/albums", prepared.write_id)
    """
    files = Files(spark)
    path = resolve_target(spark, files, table, None).path
    access = storage_options(spark, path)
    opened = NativeTable(Source(normalise(path), str(table), access))
    upload = read_upload(path, write_id, options=access)
    # A commit from before the blobs were stored cannot refer to them; `finish` checks the instant of a committed write.
    zone = opened.timeline_zone(writers_zone(spark))
    begun = "" if upload.state == COMMITTED else as_timeline_time(upload.opened_ms * 1000, zone)
    commits = [commit.requested for commit in opened.timeline().commits if commit.completed > begun]
    found = [requested for requested in commits if instant in (None, requested)]
    if not found:
        raise InvalidArgumentError(
            f"'{table}' has no completed commit"
            + (f" {instant}" if instant else "")
            + " since the blobs were prepared; write the rows first"
        )
    if upload.state not in (COMMITTED, ABORTED):  # containers of a finished write may since be replaced and cleaned
        outcome = f"instant {found[-1]} of '{table}' was committed"
        require_stored(upload.table, upload.containers, access, outcome)
        require_there(borrowed(upload, lenders(path, access), access), access, outcome)
    finished = finish(path, write_id, found[-1], options=access)
    files.delete(staging_folder(path, write_id))
    return finished
