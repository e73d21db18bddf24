"""Join of a table's rows with pins: size and modification time of referenced files when they were written."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import StringType, StructField, StructType

from hudi_vector.blobs.uploads.external_files import uploads_with_pins
from hudi_vector.blobs.uploads.manifest import UPLOADS
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.local_rows import arrow_frame

__all__ = ["NO_PIN", "pinned_files", "with_pin"]

_INSTANTS = StructType([StructField("file", StringType()), StructField("instant", StringType())])
_SCHEMA = "path STRING, size BIGINT, mtime_ns BIGINT"
NO_PIN = "STRUCT<size: BIGINT, mtime_ns: BIGINT>"
_PATH, _PINS = "__hudi_vector_pinned_path", "__hudi_vector_pins"


def pinned_files(spark: SparkSession, table: BlobTable) -> DataFrame | None:
    """Return a row for each path that the table's committed writes pinned, or None if nothing was pinned.

    Each row holds the path and an array of its pins: instant of the write, size in bytes, mtime in nanoseconds.
    """
    uploads = uploads_with_pins(table.area.table, table.options)
    if not uploads:
        return None
    instants = {pin.name: upload.instant for upload in uploads for pin in upload.pins}
    root = f"{table.source.hadoop_path}/{UPLOADS}"
    files = [f"{root}/{upload.write_id}/{pin.name}" for upload in uploads for pin in upload.pins]
    read = spark.read.schema(_SCHEMA).parquet(*files).withColumn("file", F.col("_metadata.file_name"))
    known = pa.table({"file": list(instants), "instant": list(instants.values())})
    named = F.broadcast(arrow_frame(spark, known, _INSTANTS))
    pin = F.struct("instant", "size", "mtime_ns")
    return read.join(named, "file").groupBy(F.col("path").alias(_PATH)).agg(F.collect_list(pin).alias(_PINS))


def with_pin(rows: DataFrame, pins: DataFrame, path: Column, commit_time: Column, name: str) -> DataFrame:
    """Return the rows with a column `name`: the newest pin of the row's file by the row's write or an earlier one.

    Args:
        rows: Rows with references.
        pins: From `pinned_files`.
        path: The path of each reference.
        commit_time: The instant that wrote each row last; NULL allows pins of every write.
        name: The new column: a struct of size in bytes and mtime in nanoseconds, NULL if the file has no pin.
    """
    known = F.filter(_PINS, lambda pin: commit_time.isNull() | (pin["instant"] <= commit_time))
    newest = F.element_at(F.array_sort(known), -1)
    pin = F.when(F.size(known) > 0, F.struct(newest["size"], newest["mtime_ns"]))
    return rows.join(pins, path == F.col(_PATH), "left").withColumn(name, pin).drop(_PATH, _PINS)
