"""The job of ``hv.blobs.inventory``: counts of blobs and bytes by file.

Tasks count the references of their rows by range. One shuffle brings the ranges of each file together with the listing
of the table's blob area; then each file is looked up once. Bytes of blobs are never read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from hudi_vector.arguments import known_arguments
from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.tally import SUMMARY, TALLY, add_up, count_blobs, summarise, whole_files
from hudi_vector.blobs.files import BlobFiles
from hudi_vector.blobs.stored_blobs import StoredBlobs
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.storage import FileInfo, StorageOptions, open_storage
from hudi_vector.storage.listed import with_names

__all__ = ["inventory", "inventory_of"]

_HELD_ROWS = 1 << 18
_TYPES = {pa.string(): StringType(), pa.int64(): LongType(), pa.bool_(): BooleanType()}


@known_arguments()
def inventory(spark: SparkSession, table: str | os.PathLike[str]) -> DataFrame:
    """Count a table's blobs, their bytes, and the bytes that nothing refers to.

    The result has one row for each BLOB column, partition and file, and one for all INLINE blobs of a column and
    partition:

    - ``column`` (dotted if nested), ``partition`` (its path, empty without one);
    - ``container``: the file's URI, or ``inline``;
    - ``kind``: ``inline``; ``managed`` for files in the table's blob area and for others that references call managed;
      ``external`` for all other files;
    - ``blobs``: the number of rows of the newest snapshot that refer to the file, without NULL blobs;
    - ``bytes``: the bytes that these rows refer to, each distinct range counted once;
    - ``shared``: the number of rows, beyond the first, that refer to the same range;
    - ``dead_bytes``: the bytes of a file in the blob area that no row of the newest snapshot refers to. Older snapshots
      and running writes may refer to them. The overhead of Parquet and Lance containers counts as dead. If several
      columns or partitions share a file, its dead bytes are in the row of the one that the file was written for;
    - ``dangling``: the number of rows whose file is gone, a directory or too short. A file that cannot be looked up
      counts as present.

    Files in the blob area that no row refers to have ``blobs`` = 0.

    Args:
        spark: A registered session.
        table: A catalog name or the path of a Hudi table.

    Returns:
        A lazy, unordered DataFrame. This call lists the table's files and blob area; the rows are read at every run of
        the DataFrame, so cache it to use it more than once. The run fails on a blob whose fields contradict each other.

    Raises:
        TableNotFoundError: There is no such table.
        UnsupportedTableError: It is not a Hudi table, or a view that does more than name one.

    Example:
        >>> hv.blobs.inventory(spark, "photos").groupBy("kind").sum("blobs", "bytes", "dead_bytes").show()
    """
    found = BlobTable.of(spark, table)
    storage = open_storage(found.area.uri, found.options)
    return inventory_of(found, with_names(storage.list_files(found.area.uri, recursive=True))[0])


def inventory_of(found: BlobTable, listed: Iterable[FileInfo]) -> DataFrame:
    """Return the inventory of an opened table; `listed` are the files of its blob area whose names a row can hold."""
    placements = found.frame.select(
        found.partition().alias("partition"),
        *(found.placement(column).alias(str(number)) for number, column in enumerate(found.columns)),
    )
    counted = map_in_arrow(placements, _Count(found.columns, found.area), _spark_schema(TALLY))
    by_file = counted.unionByName(_tally(found, listed)).repartition("file").sortWithinPartitions("file")
    return map_in_arrow(by_file, _Summarise(found.area, found.options), _spark_schema(SUMMARY))


def _tally(table: BlobTable, listed: Iterable[FileInfo]) -> DataFrame:
    """Return the tally of the listed files of the blob area."""
    nothing = (None, None, 0, 0, False, 0)
    rows = [(info.uri, *nothing, info.size) for info in listed]
    return table.frame.sparkSession.createDataFrame(rows, _spark_schema(TALLY))


@dataclass(frozen=True)
class _Count:
    """The counting of a task's rows into tallies."""

    columns: tuple[str, ...]
    area: BlobArea

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        with in_few_words():
            for batch in batches:
                held += self._counted(batch)
                if sum(part.num_rows for part in held) >= _HELD_ROWS:
                    yield from add_up(pa.concat_tables(held)).combine_chunks().to_batches()
                    held = []
            if held:
                yield from add_up(pa.concat_tables(held)).combine_chunks().to_batches()

    def _counted(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        for number, column in enumerate(self.columns):
            stored = StoredBlobs.of(batch.column(str(number)), self.area)
            yield count_blobs(column, batch.column("partition"), stored)


@dataclass(frozen=True)
class _Summarise:
    """The summary of the files of a task, which holds all rows of each."""

    area: BlobArea
    options: StorageOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = BlobFiles(self.options, self.area.table)
        with in_few_words():
            for tally in whole_files(batches):
                yield from summarise(tally, self.area, files).combine_chunks().to_batches()


def _spark_schema(schema: pa.Schema) -> StructType:
    return StructType([StructField(field.name, _TYPES[field.type]) for field in schema])
