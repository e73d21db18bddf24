"""The job of ``hv.blobs.inventory``: counts of blobs and bytes by file.

Tasks count the references of their rows by range. One shuffle brings the ranges of each file together with the listing
of the table's blob area; then each file is looked up once. Bytes of blobs are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.counts.tally import SUMMARY, TALLY, count_rows, summarise, tally_of_files, whole_files
from hudi_vector.blobs.files import BlobFiles
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.local_rows import arrow_frame
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.storage import FileInfo, StorageOptions

__all__ = ["inventory_of"]

_TYPES = {pa.string(): StringType(), pa.int64(): LongType(), pa.bool_(): BooleanType()}


def inventory_of(found: BlobTable, listed: Iterable[FileInfo]) -> DataFrame:
    """Return the inventory of an opened table; `listed` are the files of its blob area whose names a row can hold."""
    placements = found.frame.select(
        found.partition().alias("partition"),
        *(found.placement(column).alias(str(number)) for number, column in enumerate(found.columns)),
    )
    counted = map_in_arrow(placements, _Count(found.columns, found.area), _spark_schema(TALLY))
    by_file = counted.unionByName(_files(found, listed)).repartition("file").sortWithinPartitions("file")
    return map_in_arrow(by_file, _Summarise(found.area, found.options), _spark_schema(SUMMARY))


def _files(table: BlobTable, listed: Iterable[FileInfo]) -> DataFrame:
    """Return the tally of the listed files of the blob area."""
    return arrow_frame(table.frame.sparkSession, tally_of_files(listed), _spark_schema(TALLY))


@dataclass(frozen=True)
class _Count:
    """The counting of a task's rows into tallies."""

    columns: tuple[str, ...]
    area: BlobArea

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with in_few_words():
            for tally in count_rows(batches, self.columns, self.area):
                yield from tally.combine_chunks().to_batches()


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
