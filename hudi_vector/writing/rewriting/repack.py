"""The Spark part of repacking: finds references to given containers, copies their blobs, and makes new references.

Bytes of blobs go from file to file within a task and never through the JVM. Each step writes a small Parquet folder, so
that nothing is computed twice and a later run can see what an earlier run had begun.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator, TaskContext
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses
from pyspark.sql.types import LongType, StringType, StructField, StructType

from hudi_vector.blobs.area import BlobArea
from hudi_vector.blobs.containers.container import WrittenContainer
from hudi_vector.blobs.containers.pool import TaskAttempt
from hudi_vector.blobs.copies.copying import Copier
from hudi_vector.blobs.names import BLOB_AREA, reference_base
from hudi_vector.blobs.stored_blobs import TO_THE_END, StoredBlobs
from hudi_vector.schema import quoted
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.writing.blobs.staged_files import Lists, StagedList, stage_list
from hudi_vector.writing.rewriting.spark_hash import hash_int

__all__ = [
    "MOVES",
    "MOVES_SCHEMA",
    "RANGE",
    "REFERENCE",
    "ROW",
    "Copied",
    "copy_ranges",
    "key_columns",
    "referring",
    "schema_of",
    "targets_of",
    "version_column",
]

_REFERENCES = (
    "key STRING, partition STRING, version STRING, file_group STRING, position BIGINT, column STRING, path STRING, "
    "file STRING, begin BIGINT, count BIGINT"
)
_OF_ROW = ("key", "partition", "version", "file_group", "position")
MOVES = "moves"
"""The subfolder in which `copy_ranges` stores its moves."""
REFERENCE = ["key", "partition", "version", "column", "path"]
"""The columns that identify a reference: its row, its column, and its path as stored."""
RANGE = ["file", "begin", "count"]
"""The columns with the bytes a reference points to."""
ROW = ["partition", "file_group", "position"]
"""The columns with the position of a reference's row."""
MOVES_SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in (*REFERENCE, "file")),
        *(StructField(name, LongType()) for name in ("begin", "count")),
        StructField("new_path", StringType()),
        StructField("new_begin", LongType()),
    ]
)
"""The columns of the moves: a reference, its range, and where its bytes are now."""
_PLACE = ["column", "partition", "chunk"]
_ORDER = ["first", *RANGE]
_TASKS_PER_CORE = 8
_CONTAINERS_PER_TASK = 4


@dataclass(frozen=True)
class Copied:
    """The result of copying ranges.

    `moves` are, as in `MOVES_SCHEMA`, the references with their copied range and its new place, `new_path` and
    `new_begin`, NULL where the bytes could not be read. `shared_bytes` counts the bytes that were not stored again.
    `stored` has the places to which later groups of the run may refer, as in `equal_blobs.STORED`; None if not asked
    for.
    """

    moves: StagedList
    containers: tuple[WrittenContainer, ...]
    shared_bytes: int = 0
    stored: DataFrame | None = None


def version_column(table: BlobTable) -> Column:
    """Return a column that changes whenever a row is rewritten; NULL in tables without Hudi's meta columns."""
    return F.col("_hoodie_commit_seqno") if table.config.populates_meta_fields else F.lit(None).cast("string")


def key_columns(table: BlobTable) -> list[Column]:
    """Return record key, partition path and version of each row, as `key`, `partition` and `version`."""
    return [
        table.key().alias("key"),
        table.partition().alias("partition"),
        version_column(table).alias("version"),
    ]


def referring(table: BlobTable, sizes: Mapping[str, int], also: Sequence[Column] = ()) -> DataFrame:
    """Return the newest snapshot's references to some files, one row for each row and BLOB column that refers to them.

    `sizes` are the bytes of each file, by URI as `hudi_vector.storage.normalise` spells it. The result has the row's
    key and position and the referenced range, and the columns `also` of the row.
    """
    has_names = table.config.populates_meta_fields
    name = F.substring_index(F.col("_hoodie_file_name"), "_", 1) if has_names else F.lit("")
    rows = table.frame.select(
        *key_columns(table),
        name.alias("file_group"),
        F.monotonically_increasing_id().alias("position"),
        *also,
        *(table.placement(column).alias(f"blob{number}") for number, column in enumerate(table.columns)),
    )
    names = rows.columns[len(_OF_ROW) : len(rows.columns) - len(table.columns)]
    more = "".join(f", {name} {rows.schema[name].dataType.simpleString()}" for name in names)
    return map_in_arrow(rows, _References(table.columns, table.area, dict(sizes), tuple(names)), _REFERENCES + more)


@dataclass(frozen=True)
class _References:
    """The references of a task's rows to the files in `sizes`."""

    columns: tuple[str, ...]
    area: BlobArea
    sizes: dict[str, int]
    also: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = pa.array(list(self.sizes), pa.string())
        sizes = np.fromiter(self.sizes.values(), np.int64, len(self.sizes))
        with in_few_words():
            for batch in batches:
                for number, column in enumerate(self.columns):
                    stored = StoredBlobs.of(batch[f"blob{number}"], self.area)
                    yield _of_column(batch, column, stored, wanted, sizes, self.also)


def _of_column(
    batch: pa.RecordBatch,
    column: str,
    blobs: StoredBlobs,
    wanted: pa.Array,
    sizes: np.ndarray[Any, Any],
    also: Sequence[str],
) -> pa.RecordBatch:
    which = pc.index_in(blobs.file, wanted)
    rows = np.flatnonzero(blobs.outside & np.asarray(which.is_valid()))
    size = sizes[np.asarray(which.take(pa.array(rows)), np.int64)]
    begin, count = blobs.begin[rows], blobs.count[rows]
    count = np.where(count == TO_THE_END, np.maximum(size - begin, 0), count)
    taken = batch.take(pa.array(rows))
    kept = {name: taken[name] for name in _OF_ROW}
    more = {name: taken[name] for name in also}
    at = pa.array(rows)
    found = {"path": blobs.path.take(at), "file": blobs.file.take(at), "begin": begin, "count": count}
    return pa.RecordBatch.from_pydict({**kept, "column": pa.repeat(column, len(rows)), **found, **more})


def copy_ranges(references: DataFrame, copier: Copier, target_size: int, expected: int, folder: str) -> Copied:
    """Copy what rows refer to, in the order of the rows; the copies are durable and checked on return.

    Args:
        references: References from `referring`.
        copier: The copier of the run.
        target_size: The bytes of a new container; its last blob may exceed them.
        expected: The approximate number of new containers.
        folder: The folder for the moves.

    Raises:
        BlobWriteError: Bytes could not be stored.
    """
    spark = references.sparkSession
    largest = min(settings.max_element_size for _, settings in copier.settings)
    place = [f"place.{name}" for name in _PLACE]
    spread = _spread(_in_chunks(references, target_size, largest), _tasks(spark, expected))
    ordered = spread.sortWithinPartitions(*place, *_ORDER)
    reference = F.struct(*REFERENCE).alias("reference")
    asked = ordered.select(*(F.col(each) for each in place), *RANGE, reference)
    written: Accumulator[Any] = spark.sparkContext.accumulator([], Lists())
    schema = f"{schema_of(asked)}, new_path STRING, new_begin BIGINT"
    done = map_in_arrow(asked, _copy_task(copier, written), schema)
    rows = done.select("reference.*", *RANGE, "new_path", "new_begin")
    moves = stage_list(rows, f"{folder}/{MOVES}", copier.options)
    return Copied(moves, tuple(written.value))


def _in_chunks(references: DataFrame, target_size: int, largest: int) -> DataFrame:
    """Return the references with their container as `place`: that of the `first` row with the same range."""
    alike = Window.partitionBy(*RANGE).orderBy("column", *ROW)
    rows = references.withColumn("first", F.first(F.struct("column", *ROW)).over(alike))
    counts = (F.row_number().over(alike) == 1) & (F.col("count") <= largest)
    sized = rows.withColumn("own", F.when(counts, F.col("count")).otherwise(0))
    # All references to a range are peers in the window, so the sum is the same for each of them.
    peers = Window.partitionBy("first.column", "first.partition").orderBy(*_ORDER)
    before = F.sum("own").over(peers) - F.when(F.col("count") <= largest, F.col("count")).otherwise(0)
    chunk = F.floor(before / target_size).alias("chunk")
    return sized.withColumn("place", F.struct("first.column", "first.partition", chunk))


def _tasks(spark: SparkSession, expected: int) -> int:
    """Return the number of tasks for an expected number of containers.

    A task should make several containers, as one fills while the previous one is made durable.
    """
    cores = spark.sparkContext.defaultParallelism
    several = min(expected // _CONTAINERS_PER_TASK, _TASKS_PER_CORE * cores)
    return max(1, min(expected, max(cores, several)))


def _spread(chunked: DataFrame, tasks: int) -> DataFrame:
    """Return the rows distributed so that each container is filled by one task, in an even distribution.

    Successive containers of a partition go to successive tasks. Spark distributes rows by a hash, which would leave
    some tasks without rows, so rows are repartitioned by numbers whose hashes are known.
    """
    number_of: dict[int, int] = {}
    for number in itertools.count():
        number_of.setdefault(hash_int(number) % tasks, number)
        if len(number_of) == tasks:
            break
    task = F.pmod(F.hash("place.column", "place.partition") + F.col("place.chunk"), F.lit(tasks))
    numbers = F.array(*(F.lit(number_of[task]) for task in range(tasks)))
    return chunked.repartition(tasks, numbers[task.cast("int")])


def _copy_task(
    copier: Copier, written: Accumulator[Any]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        made: list[WrittenContainer] = []
        with in_few_words():
            yield from copier.copy(batches, TaskAttempt(context.partitionId(), context.taskAttemptId()), made)
        written.add(made)

    return run


def schema_of(frame: DataFrame) -> str:
    """Return the schema of a frame as text for `mapInArrow`."""
    return ", ".join(f"{quoted(entry.name)} {entry.dataType.simpleString()}" for entry in frame.schema.fields)


def targets_of(moves: DataFrame, table: str, *, columns: int) -> DataFrame:
    """Return the new references of rows: `key`, `partition`, `version`, and `changes`, a map from column to reference.

    `moves` are from `copy_ranges`. `table` is the base path as references spell it. `columns` is the number of BLOB
    columns the references may belong to. Rows whose bytes could not be read are left out, and so are rows with several
    columns that key, partition and version do not distinguish.
    """
    base = F.lit(reference_base(table) + "/")
    relative = F.col("path").startswith(f"{BLOB_AREA}/")
    path = F.when(relative, F.col("new_path")).otherwise(F.concat(base, F.col("new_path")))
    place = F.struct(path.alias("path"), F.col("new_begin").alias("begin"), F.col("count").alias("count"))
    row, there = ["key", "partition", "version"], moves.where("new_path IS NOT NULL")
    if columns == 1:
        return there.select(*row, F.create_map("column", place).alias("changes"))
    changed = there.select(*row, F.struct(F.col("column").alias("key"), place.alias("value")).alias("change"))
    grouped = changed.groupBy(*row).agg(F.collect_list("change").alias("changes"))
    distinct = grouped.where(F.size(F.array_distinct(F.col("changes")["key"])) == F.size("changes"))
    return distinct.withColumn("changes", F.map_from_entries("changes"))
