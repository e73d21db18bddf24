"""How far the blobs of containers lie in the order of the rows that refer to them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.errors import DataFileError
from hudi_vector.spark.blob_table import BlobTable
from hudi_vector.write.failures import in_one_sentence
from hudi_vector.write.repack import referring

__all__ = ["disorder"]


def disorder(table: BlobTable, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many ranges of files do not follow the one before, in percent, in the order of the rows.

    Args:
        table: The table.
        sizes: The bytes of each file, by its URI.

    Returns:
        For each file that rows refer to: 0 where its blobs lie as the rows do, about 100 where they lie at random. The
        first row that refers to a file counts as one that follows.

    Raises:
        DataFileError: The rows could not be read.
    """
    place = ["partition", "file_group", "position"]
    first = F.min(F.struct("column", *place)).alias("first")
    ranges = referring(table, sizes).groupBy("file", "begin", "count").agg(first)
    rows = Window.partitionBy("first.column", "first.partition").orderBy("first", "file", "begin")
    end = F.lag(F.col("begin") + F.col("count")).over(rows)
    follows = (F.lag("file").over(rows) == F.col("file")) & (end <= F.col("begin"))
    told = ranges.select("file", F.coalesce(follows, F.lit(False)).alias("follows"))
    counted = told.groupBy("file").agg(F.count(F.lit(1)).alias("ranges"), F.sum((~F.col("follows")).cast("long")))
    with in_one_sentence(f"reading the order of the rows of '{table.label}' failed", DataFileError):
        found = counted.collect()
    return {file: (max(0, breaks - 1) * 100) // ranges for file, ranges, breaks in found}
