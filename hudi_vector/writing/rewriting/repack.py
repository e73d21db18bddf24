"""The Spark half of repacking: which rows refer to some containers, their blobs copied, what the rows refer to then.

Bytes of blobs pass from file to file within a task and never through the JVM. Each step leaves a small Parquet folder
beside the table, so that nothing is computed twice and a later run can see what an earlier one had begun.
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
from hudi_vector.writing.blobs.staging import Lists
from hudi_vector.writing.failures import in_one_sentence
from hudi_vector.writing.rewriting.spark_hash import hash_int

__all__ = [
    "MOVES",
    "RANGE",
    "REFERENCE",
    "ROW",
    "Copied",
    "copy_ranges",
    "key_columns",
    "referring",
    "schema_of",
    "staged",
    "targets_of",
    "version_column",
]

_REFERENCES = (
    "key STRING, partition STRING, version STRING, file_group STRING, position BIGINT, column STRING, path STRING, "
    "file STRING, begin BIGINT, count BIGINT"
)
_OF_ROW = ("key", "partition", "version", "file_group", "position")
MOVES = "moves"
"""Where `copy_ranges` keeps what it made, in its folder."""
REFERENCE = ["key", "partition", "version", "column", "path"]
"""Of which row and column a reference is, and how it is spelled."""
RANGE = ["file", "begin", "count"]
"""Which bytes it refers to."""
ROW = ["partition", "file_group", "position"]
"""Where its row lies."""
_PLACE = ["column", "partition", "chunk"]
_ORDER = ["first", *RANGE]
_TASKS_PER_CORE = 8
_CONTAINERS_PER_TASK = 4


@dataclass(frozen=True)
class Copied:
    """Bytes in their new place.

    `moves` are the references, each with the range that was copied for it, and where its bytes lie now as `new_path`
    and `new_begin`, NULL where they could not be had. `shared_bytes` were not stored again. `stored` has what later
    groups of a run may refer to.
    """

    moves: DataFrame
    containers: tuple[WrittenContainer, ...]
    shared_bytes: int = 0
    stored: DataFrame | None = None


def version_column(table: BlobTable) -> Column:
    """What changes when a row is written anew; NULL in tables without Hudi's own columns."""
    return F.col("_hoodie_commit_seqno") if table.config.populates_meta_fields else F.lit(None).cast("string")


def key_columns(table: BlobTable) -> list[Column]:
    """Record key, partition path and version of each row, as `key`, `partition` and `version`."""
    return [
        table.key().alias("key"),
        table.partition().alias("partition"),
        version_column(table).alias("version"),
    ]


def referring(table: BlobTable, sizes: Mapping[str, int], also: Sequence[Column] = ()) -> DataFrame:
    """The references of the newest snapshot to some files.

    Args:
        table: The table.
        sizes: The bytes of each file, by its URI as `hudi_vector.storage.normalise` spells it.
        also: What else is wanted of the rows.

    Returns:
        A row for each row and BLOB column that refers to one of them: its key and place, and the range.
    """
    has_names = table.config.populates_meta_fields
    name = F.substring_index(F.col("_hoodie_file_name"), "_", 1) if has_names else F.lit("")
    rows = table.frame.select(
        *key_columns(table),
        name.alias("file_group"),
        F.monotonically_increasing_id().alias("position"),
        *also,
        *(table.stored(column).alias(f"blob{number}") for number, column in enumerate(table.columns)),
    )
    names = rows.columns[len(_OF_ROW) : len(rows.columns) - len(table.columns)]
    more = "".join(f", {name} {rows.schema[name].dataType.simpleString()}" for name in names)
    return map_in_arrow(rows, _References(table.columns, table.area, dict(sizes), tuple(names)), _REFERENCES + more)


@dataclass(frozen=True)
class _References:
    """The references of a task's rows to files that are asked for."""

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
    """Copy what some rows refer to, in the order of the rows; the references travel with the bytes.

    Args:
        references: From `referring`.
        copier: How, and to where.
        target_size: Bytes of a new container, up to the last blob.
        expected: About how many containers there will be.
        folder: Where the moves are kept.

    Returns:
        Where everything lies now; it is durable, and was read back.

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
    moves = staged(done.select("reference.*", *RANGE, "new_path", "new_begin"), f"{folder}/{MOVES}")
    return Copied(moves, tuple(written.value))


def _in_chunks(references: DataFrame, target_size: int, largest: int) -> DataFrame:
    """References with the container their bytes go to as `place`, which is that of the `first` row that has them."""
    alike = Window.partitionBy(*RANGE).orderBy("column", *ROW)
    rows = references.withColumn("first", F.first(F.struct("column", *ROW)).over(alike))
    counts = (F.row_number().over(alike) == 1) & (F.col("count") <= largest)
    sized = rows.withColumn("own", F.when(counts, F.col("count")).otherwise(0))
    # All references to a range are peers of each other, so that what is summed up is the same for each.
    peers = Window.partitionBy("first.column", "first.partition").orderBy(*_ORDER)
    before = F.sum("own").over(peers) - F.when(F.col("count") <= largest, F.col("count")).otherwise(0)
    chunk = F.floor(before / target_size).alias("chunk")
    return sized.withColumn("place", F.struct("first.column", "first.partition", chunk))


def _tasks(spark: SparkSession, expected: int) -> int:
    """How many tasks fill so many containers: several each, for one is filled while the one before is made durable."""
    cores = spark.sparkContext.defaultParallelism
    several = min(expected // _CONTAINERS_PER_TASK, _TASKS_PER_CORE * cores)
    return max(1, min(expected, max(cores, several)))


def _spread(chunked: DataFrame, tasks: int) -> DataFrame:
    """The rows of a container in one task, and the containers of a partition in one task after the other.

    Spark sends rows to tasks by a hash, which leaves some without work: so it is given numbers whose hashes are known.
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
    """The schema of a frame as the text that `mapInArrow` takes."""
    return ", ".join(f"{quoted(entry.name)} {entry.dataType.simpleString()}" for entry in frame.schema.fields)


def targets_of(moves: DataFrame, table: str, *, columns: int) -> DataFrame:
    """What rows are to refer to: `key`, `partition`, `version`, and `changes`, a map from columns to references.

    Args:
        moves: From `copy_ranges`.
        table: The table's base path, in the spelling that references have.
        columns: How many columns the references may be of.

    Returns:
        A row for each row of the table whose bytes were copied; rows with several columns that cannot be told apart by
        these are left out.
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
    told = grouped.where(F.size(F.array_distinct(F.col("changes")["key"])) == F.size("changes"))
    return told.withColumn("changes", F.map_from_entries("changes"))


def staged(frame: DataFrame, folder: str) -> DataFrame:
    """A frame computed once and kept.

    Args:
        frame: Any rows.
        folder: Where they go.

    Raises:
        BlobWriteError: Bytes could not be stored by one of its tasks.
        WriteError: The rows could not be kept.
    """
    spark: SparkSession = frame.sparkSession
    with in_one_sentence(f"rows could not be kept in '{folder}'"):
        frame.write.mode("overwrite").parquet(folder)
    return spark.read.schema(frame.schema).parquet(folder)
