"""Blobs that hold the same bytes, copied once: found by their SHA-256, in one group of containers or in several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.blobs.copies.copying import Copier, digests
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.storage import StorageOptions
from hudi_vector.writing.rewriting.repack import MOVES, RANGE, REFERENCE, ROW, Copied, copy_ranges, schema_of, staged

__all__ = ["STORED", "copy_equal_once"]

STORED = "column STRING, count BIGINT, digest BINARY, new_path STRING, new_begin BIGINT"
"""Bytes that a run has stored, by their column, length and SHA-256, and where they lie."""

_CONTENT = ["column", "count", "digest"]
_PLACES = ["new_path", "new_begin"]
_IS_ORIGINAL = "file = original.file AND begin = original.begin"


def copy_equal_once(
    references: DataFrame, copier: Copier, target_size: int, expected: int, folder: str, known: DataFrame | None
) -> Copied:
    """Copy what some rows refer to, equal blobs of a column once.

    Args:
        references: From `repack.referring`.
        copier: How, and to where.
        target_size: Bytes of a new container, up to the last blob.
        expected: About how many containers there will be.
        folder: Where everything is kept on the way.
        known: What other groups of the run have stored, as `STORED` says; None where the run has one group.

    Returns:
        Where everything lies now. Bytes that are known are not copied; `stored` has those that were not known.

    Raises:
        BlobWriteError: Bytes could not be stored.
    """
    kept = staged(references, f"{folder}/references")
    first = F.min(F.struct("column", *ROW)).alias("first")
    ranges = kept.groupBy(*RANGE).agg(first).select("first.*", *RANGE)
    hashed = _hashed(ranges, copier, every=known is not None)
    stored = known if known is not None else kept.sparkSession.createDataFrame([], STORED)
    alike = staged(_with_original(hashed.join(stored, _CONTENT, "left")), f"{folder}/alike")
    rows = kept.join(alike.select(*RANGE, "original", *_PLACES), RANGE)
    led = rows.withColumns({"file": F.col("original.file"), "begin": F.col("original.begin")})
    copied = copy_ranges(
        led.where("new_path IS NULL").select(kept.columns), copier, target_size, expected, f"{folder}/copied"
    )
    found = led.where("new_path IS NOT NULL").select(*REFERENCE, *RANGE, *_PLACES)
    moves = staged(copied.moves.unionByName(found), f"{folder}/{MOVES}")
    saved = alike.where(f"new_path IS NOT NULL OR NOT ({_IS_ORIGINAL})").agg(F.sum("count")).first()
    fresh = alike.where(f"new_path IS NULL AND digest IS NOT NULL AND {_IS_ORIGINAL}").select(
        "column", "digest", *RANGE
    )
    places = copied.moves.where("new_path IS NOT NULL").select(*RANGE, *_PLACES).distinct()
    made = None if known is None else fresh.join(places, RANGE).select(*_CONTENT, *_PLACES)
    return Copied(moves, copied.containers, int((saved and saved[0]) or 0), made)


def _hashed(ranges: DataFrame, copier: Copier, *, every: bool) -> DataFrame:
    """The ranges with the SHA-256 of their bytes; of those that no other equals in length only where all are asked."""
    counted = ranges.withColumn("alike", F.count(F.lit(1)).over(Window.partitionBy("column", "count")))
    schema = f"{schema_of(ranges)}, digest BINARY"
    worth = F.lit(every) | (F.col("alike") > 1)
    hashed = map_in_arrow(counted.where(worth).drop("alike"), _Digests(copier.table, copier.options), schema)
    return hashed.unionByName(counted.where(~worth).drop("alike").withColumn("digest", F.lit(None).cast("binary")))


def _with_original(hashed: DataFrame) -> DataFrame:
    """The ranges, each with the first of those that hold the same bytes."""
    equal = Window.partitionBy(*_CONTENT).orderBy(*ROW, "file", "begin")
    itself = F.struct("file", "begin")
    # A range that cannot be read is like no other.
    original = F.when(F.col("digest").isNull(), itself).otherwise(F.first(itself).over(equal))
    return hashed.withColumn("original", original)


@dataclass(frozen=True)
class _Digests:
    """The SHA-256 of the ranges of a task."""

    table: str
    options: StorageOptions = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            for batch in batches:
                yield batch.append_column("digest", digests(batch, self.table, self.options))
