"""Search of any DataFrame through Spark, in Python stages over the rows that Spark reads.

This is the slow path, for everything that Spark can read. Each task holds the best rows that it has seen, with the
requested columns, and one batch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import ArrayType, BinaryType, DoubleType, LongType, StructField, StructType

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, Hits
from hudi_vector.query.execute import Asked, Collector, Measure, SliceFound
from hudi_vector.query.merge import SliceHits, Winners, break_ties, merge_hits
from hudi_vector.read.predicate.nodes import Predicate
from hudi_vector.read.several import SearchColumn, blocks_of
from hudi_vector.read.spec import ScanCounts
from hudi_vector.schema import free_names, quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow

__all__ = ["length_in", "search_frame"]

_ADDED = ("__hudi_vector_query", "__hudi_vector_distance", "__hudi_vector_distances", "__hudi_vector_group")
_KINDS = (LongType(), DoubleType(), ArrayType(DoubleType(), False), BinaryType())
_COUNTED = ("rows", "nulls", "invalid", "uneven")


def search_frame(
    frame: DataFrame,
    columns: Sequence[SearchColumn],
    asked: Asked,
    names: Sequence[str],
    ties: Sequence[str],
    counts: ScanCounts,
) -> tuple[Winners, pa.Table]:
    """Return the best rows of a filtered DataFrame, at most k for each query, and their columns with these names.

    `columns` are searched. `ties` are the columns that order rows of equal distance, the most significant first. The
    rows are counted in `counts`; a task that is run again counts its rows again.
    """
    rows = _SparkRows(frame, columns, (*names, *asked.needs), ties)
    parts: list[SliceHits] = []
    for hits, seen in asked.found(rows, asked.bounds()):
        parts += hits
        counts.add(seen)
    winners = rows.merged(asked, parts)
    return winners, rows.taken(names, winners.position)


def length_in(frame: DataFrame, name: str) -> int | None:
    """Return the length of one vector in a column of arrays, None if all are NULL or empty; this starts a job."""
    length = F.size(F.col(quoted(name)))
    found = frame.where(length > 0).select(length).head(1)
    return int(found[0][0]) if found else None


class _SparkRows:
    """The rows of a DataFrame as one slice of a search; positions are rows of the candidates that `search` finds."""

    def __init__(
        self, frame: DataFrame, columns: Sequence[SearchColumn], names: Sequence[str], ties: Sequence[str]
    ) -> None:
        self._frame, self._columns, self._ties = frame, tuple(columns), tuple(ties)
        self._carried = tuple(dict.fromkeys([*names, *ties]))
        self._found = pa.table({})

    def search(self, asked: Asked, bounds: Bounds) -> list[SliceFound]:
        """Return the candidates of all tasks; each task tightens a copy of the bounds."""
        searched = (column.name for column in self._columns)
        needed = self._frame.select([quoted(name) for name in dict.fromkeys([*self._carried, *searched])])
        added = tuple(free_names(_ADDED, self._carried, "_"))
        first = [StructField(*pair) for pair in zip(added, _KINDS, strict=True)]
        schema = StructType([*first, *(needed.schema[name] for name in self._carried)])
        context = needed.sparkSession.sparkContext
        seen = {name: context.accumulator(0) for name in _COUNTED}
        task = _Candidates(asked, bounds, self._columns, self._carried, self._ties, added, seen)
        batches = map_in_arrow(needed, task, schema)._collect_as_arrow()
        empty = pa.table({name: pa.nulls(0) for name in [*added, *self._carried]})
        self._found = pa.Table.from_batches(batches) if batches else empty
        query = np.asarray(self._found.column(0), dtype=np.int64)
        distance = np.asarray(self._found.column(1), dtype=np.float64)
        groups = self._found.column(3)
        group = None if groups.null_count == len(groups) else np.array(groups.to_pylist(), object)
        hits = Hits(query, distance, np.arange(len(query)), _matrix(self._found.column(2)), group)
        counts = ScanCounts()
        for name, accumulator in seen.items():
            setattr(counts, name, accumulator.value)
        return [([SliceHits(0, hits)], counts)]

    def measured(self, asked: Asked, make: Callable[[], Measure]) -> list[Any]:  # noqa: ARG002 - no slice is opened
        """Give the result of a measurement for each partition."""
        columns = self._columns

        def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            step = make()
            for batch in batches:
                blocks = blocks_of(batch, columns, np.arange(batch.num_rows, dtype=np.int64), None, ScanCounts())
                if blocks is not None:
                    step.offer(blocks)
            yield pa.record_batch({"result": pa.array([pickle.dumps(step.result)], pa.binary())})

        vectors = self._frame.select([quoted(name) for name in dict.fromkeys(column.name for column in columns)])
        rows = map_in_arrow(vectors, task, StructType([StructField("result", BinaryType())])).collect()
        return [pickle.loads(row["result"]) for row in rows]  # noqa: S301 - written by the tasks of this search

    def merged(self, asked: Asked, parts: list[SliceHits]) -> Winners:
        """Return the best rows among the candidates."""

        def keys(_: int, positions: npt.NDArray[np.int64]) -> pa.Table | None:
            return self.taken(self._ties, positions) if self._ties else None

        return merge_hits(parts, asked.k, keys, asked.per_group)

    def columns(self, winners: Winners, names: Sequence[str]) -> pa.Table:
        """Return carried columns of winners, in their order."""
        return self.taken(names, winners.position)

    def wider(self, times: int) -> None:
        """Return None: Spark's rows have no index."""

    def limited(self, condition: Predicate | None) -> _SparkRows:
        """Return all rows: Spark's scan has the filter of the search alone."""
        del condition
        return self

    def taken(self, names: Sequence[str], positions: npt.NDArray[np.int64]) -> pa.Table:
        """Return carried columns of candidates, in this order."""
        return self._found.select(list(names)).take(pa.array(positions))


def _matrix(column: pa.ChunkedArray) -> Floats | None:
    """Return lists of equal length as an array of shape (rows, length), None if there are none."""
    lists = [np.asarray(chunk.flatten()) for chunk in column.chunks if len(chunk) > chunk.null_count]
    return np.concatenate(lists).reshape(len(column), -1) if lists else None


def _rows_of(batch: pa.RecordBatch, first: int, positions: npt.NDArray[np.int64], names: Sequence[str]) -> pa.Table:
    """Return columns of the rows of a batch at positions, of which `first` is that of its first row."""
    return pa.Table.from_batches([batch.select(list(names))]).take(pa.array(positions - first))


@dataclass(frozen=True)
class _Candidates:
    """The work of one task: find its best rows, identified by their position in the order of arrival."""

    asked: Asked
    bounds: Bounds
    columns: tuple[SearchColumn, ...]
    carried: tuple[str, ...]
    ties: tuple[str, ...]
    added: tuple[str, ...]
    seen: Mapping[str, Accumulator[int]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        collector, counts = self.asked.collector(self.bounds), ScanCounts()
        held: pa.Table | None = None
        places = np.empty(0, np.int64)
        for batch in batches:
            first = counts.rows
            counts.rows += batch.num_rows
            positions = np.arange(first, counts.rows, dtype=np.int64)
            blocks = blocks_of(batch, self.columns, positions, None, counts)
            if blocks is not None and len(blocks[0]):
                collector.offer(self.asked.with_rows(blocks, partial(_rows_of, batch, first)))
            wanted = np.unique(collector.hits().position)
            fresh, old = wanted[wanted >= first], np.isin(places, wanted)
            rows = pa.Table.from_batches([batch.select(list(self.carried))]).take(pa.array(fresh - first))
            held = rows if held is None else pa.concat_tables([held.filter(pa.array(old)), rows])
            places = np.concatenate([places[old], fresh])
        counts.invalid += collector.invalid
        for name, accumulator in self.seen.items():
            accumulator.add(getattr(counts, name))
        if held is not None:
            yield from self._output(collector, held, places)

    def _output(self, collector: Collector, held: pa.Table, places: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        def keys(at: npt.NDArray[np.int64]) -> pa.Table | None:
            return held.select(list(self.ties)).take(pa.array(np.searchsorted(places, at))) if self.ties else None

        hits = collector.hits()
        if self.asked.is_final:
            hits = break_ties(hits, self.asked.k, keys, self.asked.per_group)
        rows = held.take(pa.array(np.searchsorted(places, hits.position)))
        by_column = [None] * len(hits) if hits.by_column is None else list(hits.by_column)
        groups = [None] * len(hits) if hits.group is None else hits.group.tolist()
        values = [pa.array(hits.query), pa.array(hits.distance), pa.array(by_column, pa.list_(pa.float64()))]
        values.append(pa.array(groups, pa.binary()))
        made = pa.table([*values, *rows.columns], names=[*self.added, *self.carried])
        yield from made.combine_chunks().to_batches()
