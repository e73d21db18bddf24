"""Measurement of how far blobs in containers are stored in the order of the rows that refer to them.

The order of the rows can be the present one, or the one after a clustering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from hudi_vector.errors import DataFileError
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.local_rows import arrow_frame
from hudi_vector.writing.failures import in_one_sentence
from hudi_vector.writing.rewriting.repack import referring

__all__ = ["Laid", "Order", "laid_out"]

_PLACES = StructType(
    [
        StructField("file_group", StringType()),
        *(StructField(name, IntegerType()) for name in ("together", "place")),
    ]
)


@dataclass(frozen=True)
class Order:
    """The order in which the rows of a table will be stored.

    Attributes:
        together: For each file group that will be clustered, by id: the number of its cluster, and its position there.
        by: The columns that rows of a cluster are sorted by; if empty, rows stay in the order of the file groups.
        smaller: The size in bytes below which blobs will move into their rows.
    """

    together: Mapping[str, tuple[int, int]]
    by: Sequence[Column]
    smaller: int


@dataclass(frozen=True)
class Laid:
    """The order of the referenced ranges of a file.

    Attributes:
        disorder: The percentage of ranges that do not follow their predecessor: 0 in the order of the rows, about 100
            in random order. The first row that refers to a file counts as following.
        ranges: The number of ranges.
        leaving: The number of further ranges that will move into their rows.
        leaving_bytes: The bytes of the ranges that will move into their rows.
    """

    disorder: int
    ranges: int
    leaving: int
    leaving_bytes: int


def laid_out(table: BlobTable, sizes: Mapping[str, int], order: Order) -> dict[str, Laid]:
    """Return, for each referenced file, how its ranges are ordered compared with the rows.

    `sizes` are the bytes of each file by URI; `order` is the order the rows will have. Raises DataFileError if the rows
    cannot be read.
    """
    by = [column.alias(f"by{number}") for number, column in enumerate(order.by)]
    placed = _placed(referring(table, sizes, by), order)
    place = ["partition", "together", "file_group", *(f"by{number}" for number in range(len(by))), "position"]
    first = F.min(F.struct("column", *place)).alias("first")
    ranges = placed.groupBy("file", "begin", "count").agg(first)
    stays = (F.col("count") >= order.smaller).alias("stays")
    rows = Window.partitionBy("stays", "first.column", "first.partition").orderBy("first", "file", "begin")
    end = F.lag(F.col("begin") + F.col("count")).over(rows)
    follows = (F.lag("file").over(rows) == F.col("file")) & (end <= F.col("begin"))
    following = ranges.select("*", stays).select(
        "file", "stays", "count", F.coalesce(follows, F.lit(False)).alias("follows")
    )
    counted = following.groupBy("file").agg(
        F.count_if(F.col("stays") & ~F.col("follows")).alias("breaks"),
        F.count_if("stays").alias("ranges"),
        F.count_if(~F.col("stays")).alias("leaving"),
        F.sum(F.when(~F.col("stays"), F.col("count")).otherwise(0)).alias("leaving_bytes"),
    )
    with in_one_sentence(f"reading the order of the rows of '{table.label}' failed", DataFileError):
        found = counted.collect()
    return {
        row["file"]: Laid(
            max(0, row["breaks"] - 1) * 100 // max(1, row["ranges"]),
            row["ranges"],
            row["leaving"],
            row["leaving_bytes"],
        )
        for row in found
    }


def _placed(references: DataFrame, order: Order) -> DataFrame:
    """Return the references with the number of their rows' cluster as `together`, -1 for unclustered rows."""
    spark = references.sparkSession
    numbers, place = zip(*order.together.values(), strict=True) if order.together else ((), ())
    known = pa.table([list(order.together), numbers, place], names=_PLACES.names)
    places = arrow_frame(spark, known, _PLACES)
    joined = references.join(F.broadcast(places), "file_group", "left")
    moves = F.col("together").isNotNull()
    # Rows with equal sort columns may be stored in any order, so file group and position are ignored.
    group = F.lit("") if order.by else F.lpad(F.col("place").cast("string"), 10, "0")
    at = F.lit(0) if order.by else F.col("position")
    return joined.select(
        *(name for name in references.columns if name not in ("file_group", "position")),
        F.coalesce("together", F.lit(-1)).alias("together"),
        F.when(moves, group).otherwise(F.col("file_group")).alias("file_group"),
        F.when(moves, at).otherwise(F.col("position")).alias("position"),
    )
