"""The pins of a table beside its rows: what the files they refer to were when the references were written."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from hudi_vector.blobs.uploads.manifest import COMMITTED, UPLOADS, list_uploads
from hudi_vector.spark.blobs.table import BlobTable

__all__ = ["NO_PIN", "pinned_files", "with_pin"]

_SCHEMA = "path STRING, size BIGINT, mtime_ns BIGINT"
NO_PIN = "STRUCT<size: BIGINT, mtime_ns: BIGINT>"
_PATH, _PINS = "__hudi_vector_pinned_path", "__hudi_vector_pins"


def pinned_files(spark: SparkSession, table: BlobTable) -> DataFrame | None:
    """Every file that the table's committed writes pinned, with its pins by instant.

    Args:
        spark: A registered session.
        table: The table.

    Returns:
        A row for each path, or None where nothing was pinned.
    """
    uploads = [
        upload
        for upload in list_uploads(table.area.table, options=table.options)
        if upload.state == COMMITTED and upload.pins
    ]
    if not uploads:
        return None
    instants = {pin.name: upload.instant for upload in uploads for pin in upload.pins}
    root = f"{table.source.hadoop_path}/{UPLOADS}"
    files = [f"{root}/{upload.write_id}/{pin.name}" for upload in uploads for pin in upload.pins]
    read = spark.read.schema(_SCHEMA).parquet(*files).withColumn("file", F.col("_metadata.file_name"))
    named = F.broadcast(spark.createDataFrame(list(instants.items()), "file STRING, instant STRING"))
    pin = F.struct("instant", "size", "mtime_ns")
    return read.join(named, "file").groupBy(F.col("path").alias(_PATH)).agg(F.collect_list(pin).alias(_PINS))


def with_pin(rows: DataFrame, pins: DataFrame, path: Column, commit_time: Column, name: str) -> DataFrame:
    """Put beside each row the newest pin of its file that its write, or an earlier one, made.

    Args:
        rows: Rows with references.
        pins: From `pinned_files`.
        path: The path of each reference.
        commit_time: The instant that wrote each row last, or NULL.
        name: The new column, size in bytes and modification time in nanoseconds; NULL where the file has no pin.

    Returns:
        The rows.
    """
    known = F.filter(_PINS, lambda pin: commit_time.isNull() | (pin["instant"] <= commit_time))
    newest = F.element_at(F.array_sort(known), -1)
    pin = F.when(F.size(known) > 0, F.struct(newest["size"], newest["mtime_ns"]))
    return rows.join(pins, path == F.col(_PATH), "left").withColumn(name, pin).drop(_PATH, _PINS)
