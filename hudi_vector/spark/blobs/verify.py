"""The job of ``hv.blobs.verify``, which finds references that do not lead to their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.changed import note_changed, note_touched
from hudi_vector.blobs.counts.wrong import Problems, find_problems
from hudi_vector.blobs.reading.fetch import BlobFetcher
from hudi_vector.blobs.registry import lenders
from hudi_vector.blobs.stored_blobs import StoredBlobs
from hudi_vector.blobs.uploads.kept_checksums import kept_checksums
from hudi_vector.spark.blobs.external_files import NO_PIN, pinned_files, with_pin
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words

__all__ = ["verify"]

_READ_BYTES = 16 << 20
_TEXT, _NUMBER = StringType(), LongType()
_FOUND = StructType(
    [
        *(StructField(name, _TEXT) for name in ("column", "key", "partition", "path")),
        *(StructField(name, _NUMBER) for name in ("offset", "length")),
        StructField("problem", _TEXT),
    ]
)


@known_arguments()
def verify(
    spark: SparkSession, table: str, *, columns: str | Iterable[str] | None = None, deep: bool = False
) -> DataFrame:
    """Find the wrong references of a table's newest snapshot.

    The result has one row for each wrong reference, with the columns ``column``, ``key`` (the record key),
    ``partition``, ``path``, ``offset`` and ``length`` (bytes, as in the reference) and ``problem``, the first that
    applies of:

    - ``contradicts itself``: the fields are not a valid blob, for example INLINE without data or a negative offset;
    - ``relative without base``: a relative path that does not lead into the table's own blob area;
    - ``gone``, ``directory``, ``too short``: the bytes are missing. A range of 0 bytes needs no file;
    - ``unreachable``: the file cannot be checked, since a permission or a driver for the scheme is missing, or since
      references may not name its place (``hoodie.blob.read.allowed``);
    - ``foreign``: the file is in another table's blob area, whose cleaner may delete it, and the two tables are not
      registered with each other (``hv.table_services.register_tables``);
    - ``changed``: a file that the table does not own has another size or modification time than when ``hv.write`` wrote
      the reference; with `deep` also, the bytes do not match their kept checksum.

    Args:
        spark: A registered session.
        table: A catalog name or the path of a Hudi table.
        columns: The BLOB columns to check, all by default; ``"doc.image"`` is a field of a struct.
        deep: Whether to read the bytes of all blobs that have a checksum, which ``hoodie.storage.blob.checksum`` makes
            writes keep.

    Returns:
        A lazy, unordered DataFrame.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or a view that does more than name one.
        UnknownColumnError: There is no such column.
        InvalidTypeError: A column is not a BLOB.

    Example:
        >>> hv.blobs.verify(spark, "photos", columns="image").groupBy("problem").count().show()
    """
    found = BlobTable.of(spark, table)
    area = replace(found.area, lenders=lenders(found.area.table, found.options))
    chosen = tuple(found.chosen(columns))
    rows = found.frame.select(
        found.key().alias("key"),
        found.partition().alias("partition"),
        found.commit_time().alias("commit_time"),
        *(found.placement(column).alias(str(number)) for number, column in enumerate(chosen)),
    )
    pins = pinned_files(spark, found)
    for number in range(len(chosen)):
        name = _pin(number)
        if pins is None:
            rows = rows.withColumn(name, F.lit(None).cast(NO_PIN))
        else:
            rows = with_pin(rows, pins, F.col(str(number))["path"], F.col("commit_time"), name)
    fetcher = BlobFetcher(found.options, found.area.table, on_error="null")
    return map_in_arrow(rows, _Verify(chosen, area, fetcher, deep), _FOUND)


@dataclass(frozen=True)
class _Verify:
    """The check of a task's rows, which yields the wrong references."""

    columns: tuple[str, ...]
    area: BlobArea
    fetcher: BlobFetcher
    deep: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = self.fetcher.files()
        with in_few_words():
            for batch in batches:
                for number, column in enumerate(self.columns):
                    blobs = StoredBlobs.of(batch.column(str(number)), self.area)
                    problems = find_problems(blobs, self.area, files)
                    note_touched(blobs, problems, batch.column(_pin(number)), self.fetcher.options)
                    if self.deep:
                        note_changed(blobs, problems, kept_checksums(self.fetcher.options), self.fetcher, _READ_BYTES)
                    yield _found(column, batch, blobs, problems)


def _pin(number: int) -> str:
    """Return the name of the column with the pins of a BLOB column's files."""
    return f"pin{number}"


def _found(column: str, batch: pa.RecordBatch, blobs: StoredBlobs, problems: Problems) -> pa.RecordBatch:
    rows = pa.array(np.flatnonzero(problems.astype(np.bool_)))
    return pa.record_batch(
        {
            "column": pa.repeat(column, len(rows)),
            "key": batch.column("key").take(rows),
            "partition": batch.column("partition").take(rows),
            "path": blobs.path.take(rows),
            "offset": blobs.offset.take(rows),
            "length": blobs.length.take(rows),
            "problem": pa.array(problems, pa.string()).take(rows),
        }
    )
