"""Deduplication of blobs during a copy: blobs with equal bytes, found by SHA-256, are copied once.

They may be in one group of containers or in several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from hudi_vector.blobs.copies.copying import Copier, digests
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.storage import StorageOptions
from hudi_vector.writing.blobs.staged_files import stage_list
from hudi_vector.writing.rewriting.repack import MOVES, RANGE, REFERENCE, ROW, Copied, copy_ranges, schema_of

__all__ = ["STORED", "copy_equal_once"]

STORED = StructType(
    [
        StructField("column", StringType()),
        StructField("count", LongType()),
        StructField("digest", BinaryType()),
        StructField("new_path", StringType()),
        StructField("new_begin", LongType()),
    ]
)
"""The bytes that a run has stored: column, length, SHA-256, and their place."""

_CONTENT = ["column", "count", "digest"]
_PLACES = ["new_path", "new_begin"]
_IS_ORIGINAL = "file = original.file AND begin = original.begin"


def copy_equal_once(
    references: DataFrame, copier: Copier, target_size: int, expected: int, folder: str, known: DataFrame | None
) -> Copied:
    """Copy what rows refer to, storing equal blobs of a column once; the copies are durable and checked on return.

    Args:
        references: References from `repack.referring`.
        copier: The copier of the run.
        target_size: The bytes of a new container; its last blob may exceed them.
        expected: The approximate number of new containers.
        folder: The folder for intermediate files and the moves.
        known: What other groups of the run have stored, as in `STORED`; None if the run has one group.

    Returns:
        The moves. Known bytes are not copied; `stored` has the bytes that were not known, None if `known` is None.

    Raises:
        BlobWriteError: Bytes could not be stored.
    """
    kept = stage_list(references, f"{folder}/references", copier.options).frame
    first = F.min(F.struct("column", *ROW)).alias("first")
    ranges = kept.groupBy(*RANGE).agg(first).select("first.*", *RANGE)
    hashed = _hashed(ranges, copier, every=known is not None)
    nowhere = {name: F.lit(None).cast(STORED[name].dataType) for name in _PLACES}
    stored = hashed.withColumns(nowhere) if known is None else hashed.join(known, _CONTENT, "left")
    with_original = _with_original(stored)
    alike = stage_list(with_original, f"{folder}/alike", copier.options).frame
    rows = kept.join(alike.select(*RANGE, "original", *_PLACES), RANGE)
    led = rows.withColumns({"file": F.col("original.file"), "begin": F.col("original.begin")})
    copied = copy_ranges(
        led.where("new_path IS NULL").select(kept.columns), copier, target_size, expected, f"{folder}/copied"
    )
    found = led.where("new_path IS NOT NULL").select(*REFERENCE, *RANGE, *_PLACES)
    moves = stage_list(copied.moves.frame.unionByName(found), f"{folder}/{MOVES}", copier.options)
    saved = alike.where(f"new_path IS NOT NULL OR NOT ({_IS_ORIGINAL})").agg(F.sum("count")).first()
    fresh = alike.where(f"new_path IS NULL AND digest IS NOT NULL AND {_IS_ORIGINAL}").select(
        "column", "digest", *RANGE
    )
    places = copied.moves.frame.where("new_path IS NOT NULL").select(*RANGE, *_PLACES).distinct()
    made = None if known is None else fresh.join(places, RANGE).select(*_CONTENT, *_PLACES)
    return Copied(moves, copied.containers, int((saved and saved[0]) or 0), made)


def _hashed(ranges: DataFrame, copier: Copier, *, every: bool) -> DataFrame:
    """Return the ranges with the SHA-256 of their bytes.

    Unless `every`, ranges of a unique length within their column get NULL and are not read.
    """
    counted = ranges.withColumn("alike", F.count(F.lit(1)).over(Window.partitionBy("column", "count")))
    schema = f"{schema_of(ranges)}, digest BINARY"
    worth = F.lit(every) | (F.col("alike") > 1)
    hashed = map_in_arrow(counted.where(worth).drop("alike"), _Digests(copier.table, copier.options), schema)
    return hashed.unionByName(counted.where(~worth).drop("alike").withColumn("digest", F.lit(None).cast("binary")))


def _with_original(hashed: DataFrame) -> DataFrame:
    """Return the ranges, each with the first range that holds the same bytes as `original`."""
    equal = Window.partitionBy(*_CONTENT).orderBy(*ROW, "file", "begin")
    itself = F.struct("file", "begin")
    # A range without a hash equals no other range.
    original = F.when(F.col("digest").isNull(), itself).otherwise(F.first(itself).over(equal))
    return hashed.withColumn("original", original)


@dataclass(frozen=True)
class _Digests:
    """A task's function that appends the SHA-256 of its ranges."""

    table: str
    options: StorageOptions = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            for batch in batches:
                yield batch.append_column("digest", digests(batch, self.table, self.options))
