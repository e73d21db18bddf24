"""Ordering of rows by coarse clusters of their vectors, so that similar vectors are stored in the same files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the Spark documentation uses

from hudi_vector.kernels.kmeans import nearest, train
from hudi_vector.read.spec import VectorColumn
from hudi_vector.schema import quoted
from hudi_vector.spark.blobs.table import BlobTable
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.writing.blobs.staged_files import stage_list
from hudi_vector.writing.rewriting.repack import key_columns

__all__ = ["centres_of", "numbered", "ordered", "with_numbers"]

_MOST_CLUSTERS = 1024
_PER_CLUSTER = 16  # sampled vectors per cluster, at least
_SAMPLE_BYTES = 64 << 20
_SAMPLE_ROWS = 1 << 16
_NONE = -1  # the number of rows without a vector, which come first
_MADE = "__hudi_vector_"


def centres_of(table: BlobTable, column: VectorColumn) -> npt.NDArray[np.float32]:
    """Return the cluster centres of a vector column, float32, shape (k, d), computed from a sample of its rows.

    Neighbouring centres are similar. k is about the square root of the number of rows, at most 1024, and 0 if there are
    no finite vectors.
    """
    vectors = table.frame.select(F.col(quoted(column.name)).alias("vector")).where("vector IS NOT NULL")
    rows = vectors.count()
    most = min(_SAMPLE_ROWS, max(1, _SAMPLE_BYTES // (4 * column.dimension)))
    chosen = map_in_arrow(vectors, _Sample(column.dimension, min(1.0, most / max(rows, 1))), "vectors BINARY").collect()
    sample = np.concatenate([np.frombuffer(row[0], np.float32) for row in chosen] or [np.empty(0, np.float32)])
    sample = sample.reshape(-1, column.dimension)
    clusters = min(_MOST_CLUSTERS, math.isqrt(rows), max(1, len(sample) // _PER_CLUSTER), len(sample))
    return train(sample, clusters) if clusters else np.empty((0, column.dimension), np.float32)


def numbered(table: BlobTable, columns: Sequence[VectorColumn], folder: str) -> DataFrame:
    """Return the cluster of each row: `key`, `partition`, `version` and ``cluster0``, ``cluster1``, and so on.

    There is one cluster column for each vector column, in their order, -1 for rows without a vector. The table must
    have Hudi's meta columns. The result is stored in a subfolder of `folder`.
    """
    named = [f"cluster{number}" for number in range(len(columns))]
    vectors = [F.col(quoted(column.name)).alias(name) for column, name in zip(columns, named, strict=True)]
    schema = "key STRING, partition STRING, version STRING" + "".join(f", {name} INT" for name in named)
    centres = {name: centres_of(table, column) for column, name in zip(columns, named, strict=True)}
    rows = map_in_arrow(table.frame.select(*key_columns(table), *vectors), _Numbers(centres), schema)
    return stage_list(rows, f"{folder}/clusters", table.options).frame


def ordered(
    table: BlobTable, order: Sequence[str], numbers: DataFrame, vectors: Sequence[str], tasks: int
) -> DataFrame:
    """Return the rows of a table, including Hudi's meta columns, sorted within each partition, in `tasks` tasks.

    `order` are the columns to sort by; `numbers` is from `numbered`; `vectors` are the vector columns in the order in
    which they were numbered.
    """
    rows, by = with_numbers(table, order, numbers, vectors)
    place = [F.col(f"{_MADE}partition"), *by]
    names = [F.col(quoted(name)) for name in table.frame.columns]
    return rows.repartitionByRange(tasks, *place).sortWithinPartitions(*place).select(*names)


def with_numbers(
    table: BlobTable, order: Sequence[str], numbers: DataFrame, vectors: Sequence[str]
) -> tuple[DataFrame, list[Column]]:
    """Return the rows of a table with the clusters of their vectors, and the columns to sort by within each partition.

    `order` are the columns to sort by; `numbers` is from `numbered`; `vectors` are the vector columns in the order in
    which they were numbered.
    """
    made = numbers.select(*(F.col(name).alias(_MADE + name) for name in numbers.columns))
    same = [
        column == F.col(_MADE + name)
        for column, name in zip(_plain(table), ("key", "partition", "version"), strict=True)
    ]
    by = [
        F.col(f"{_MADE}cluster{list(vectors).index(name)}") if name in vectors else F.col(quoted(name))
        for name in order
    ]
    return table.frame.join(made, same), [*by, F.col(f"{_MADE}key")]


def _plain(table: BlobTable) -> list[Column]:
    return [table.key(), table.partition(), F.col("_hoodie_commit_seqno")]


def _matrix(column: pa.Array, dimension: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
    """Return which rows hold a vector, shape (n,), and these vectors, float32, shape (m, dimension)."""
    there = np.asarray(column.is_valid())
    flat = np.asarray(column.flatten(), np.float32)
    return there, flat.reshape(-1, dimension)


@dataclass(frozen=True)
class _Sample:
    """A task's function that returns a random sample of its finite vectors, the vectors of each batch as bytes."""

    dimension: int
    share: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        chance = np.random.default_rng(context.partitionId() if context else 0)
        for batch in batches:
            vectors = _matrix(batch["vector"], self.dimension)[1]
            vectors = vectors[chance.random(len(vectors)) < self.share]
            vectors = vectors[np.isfinite(vectors).all(axis=1)]
            yield pa.RecordBatch.from_pydict({"vectors": pa.array([vectors.tobytes()], pa.binary())})


@dataclass(frozen=True)
class _Numbers:
    """A task's function that returns the cluster of each of its vectors."""

    centres: dict[str, npt.NDArray[np.float32]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: dict[str, Any] = {name: batch[name] for name in ("key", "partition", "version")}
            for name, centres in self.centres.items():
                there, vectors = _matrix(batch[name], centres.shape[1])
                numbers = np.full(len(there), _NONE, np.int32)
                if len(centres):
                    numbers[there] = nearest(vectors, centres)
                found[name] = pa.array(numbers)
            yield pa.RecordBatch.from_pydict(found)
