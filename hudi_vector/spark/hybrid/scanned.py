"""Hybrid search of any DataFrame through Spark, in Python stages over the rows that Spark reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

from hudi_vector.kernels.metrics import Floats
from hudi_vector.kernels.topk import Bounds, rank_within
from hudi_vector.query.hybrid.best import BestRows, Scale
from hudi_vector.query.hybrid.fusion import by_rank, kept_near, limits_of, scale_of, score_of_ranks
from hudi_vector.query.hybrid.question import HybridQuestion
from hudi_vector.query.hybrid.ranks import Counts, Extremes, NearestByColumn
from hudi_vector.query.merge import order_of_keys
from hudi_vector.read.several import blocks_of
from hudi_vector.read.spec import ScanCounts
from hudi_vector.schema import free_names, quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow

__all__ = ["HybridFound", "hybrid_frame"]

_QUERY, _COST, _DISTANCES = "__hudi_vector_query", "__hudi_vector_cost", "__hudi_vector_distances"
_COUNTED = ("rows", "nulls", "invalid", "uneven")
_NUMBERS = ArrayType(DoubleType(), False)


@dataclass(frozen=True)
class HybridFound:
    """Found rows: the query, score, rank (from 1), distances by column, shape (n, columns), and requested columns."""

    query: npt.NDArray[np.int64]
    score: Floats
    rank: npt.NDArray[np.int64]
    distances: Floats
    rows: pa.Table


def hybrid_frame(
    frame: DataFrame, question: HybridQuestion, names: Sequence[str], ties: Sequence[str], counts: ScanCounts
) -> HybridFound:
    """Return the best rows of a filtered DataFrame, at most k for each query, ordered by query and rank.

    `ties` are the columns that order rows of equal score, the most significant first. The rows are counted in `counts`;
    a task that is run again counts its rows again.
    """
    searched = [column.name for column in question.read]
    vectors = frame.select([quoted(name) for name in dict.fromkeys(searched)])
    scale = scale_of(question, _extremes(vectors, question)) if question.normalize else None
    carried = list(dict.fromkeys([*names, *ties]))
    table = _candidates(frame, question, carried, scale, counts)
    query = np.asarray(table.column(0), dtype=np.int64)
    distances = _matrix(table.column(2), len(question.columns))
    if question.fusion == "rrf":
        kept = kept_near(question, query, distances)
        table, query, distances = table.filter(pa.array(kept)), query[kept], distances[kept]
        limits = limits_of(question, query, distances)
        cost = 0.0 - score_of_ranks(question, limits, by_rank(_counted(vectors, question, limits)), query, distances)
    else:
        cost = np.asarray(table.column(1), dtype=np.float64)
    places = order_of_keys(table.select(list(ties))) if ties else np.zeros(len(query), np.int64)
    order, rank = rank_within(query, cost, places)
    order, rank = order[rank < question.k], rank[rank < question.k]
    rows = table.select(list(names)).take(pa.array(order))
    return HybridFound(query[order], 0.0 - cost[order], rank + 1, distances[order], rows)


def _candidates(
    frame: DataFrame, question: HybridQuestion, carried: list[str], scale: Scale | None, counts: ScanCounts
) -> pa.Table:
    """Return the candidates of all tasks: query, cost and distances of each, then the carried columns.

    For ``"rrf"`` the cost is not final: it is computed from ranks later.
    """
    searched = [column.name for column in question.read]
    needed = frame.select([quoted(name) for name in dict.fromkeys([*carried, *searched])])
    kept = [needed.schema[name] for name in carried]
    added = free_names((_QUERY, _COST, _DISTANCES), carried, "_")
    first = [StructField(*pair) for pair in zip(added, (LongType(), DoubleType(), _NUMBERS), strict=True)]
    context = frame.sparkSession.sparkContext
    seen = {name: context.accumulator(0) for name in _COUNTED}
    task = _Candidates(question, tuple(carried), tuple(added), scale, seen)
    batches = map_in_arrow(needed, task, StructType([*first, *kept]))._collect_as_arrow()
    for name, accumulator in seen.items():
        setattr(counts, name, getattr(counts, name) + accumulator.value)
    if batches:
        return pa.Table.from_batches(batches)
    return pa.table({name: pa.nulls(0) for name in [*added, *carried]})


def _matrix(column: pa.ChunkedArray, width: int) -> Floats:
    if not len(column):
        return np.empty((0, width))
    flat = np.concatenate([np.asarray(chunk.flatten()) for chunk in column.chunks])
    return flat.reshape(-1, width)


@dataclass(frozen=True)
class _Candidates:
    """The work of one task: find its best rows, identified by their position in the order of arrival."""

    question: HybridQuestion
    carried: tuple[str, ...]
    added: tuple[str, ...]
    scale: Scale | None
    seen: Mapping[str, Accumulator[int]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        question, counts = self.question, ScanCounts()
        step: BestRows | NearestByColumn
        if question.fusion == "rrf":
            step = NearestByColumn(question, tuple(Bounds.of(question.queries) for _ in question.columns))
        else:
            step = BestRows(question, Bounds.of(question.queries), self.scale)
        held: pa.Table | None = None
        places = np.empty(0, np.int64)
        for batch in batches:
            first = counts.rows
            counts.rows += batch.num_rows
            positions = np.arange(first, counts.rows, dtype=np.int64)
            blocks = blocks_of(batch, question.read, positions, None, counts)
            if blocks is not None:
                step.offer(blocks)
            wanted = np.unique(step.found().hits.position)
            fresh, old = wanted[wanted >= first], np.isin(places, wanted)
            rows = pa.Table.from_batches([batch.select(list(self.carried))]).take(pa.array(fresh - first))
            held = rows if held is None else pa.concat_tables([held.filter(pa.array(old)), rows])
            places = np.concatenate([places[old], fresh])
        counts.invalid += step.invalid
        for name, accumulator in self.seen.items():
            accumulator.add(getattr(counts, name))
        if held is not None:
            found = step.found()
            rows = held.take(pa.array(np.searchsorted(places, found.hits.position)))
            distances = pa.array(list(found.distances), pa.list_(pa.float64()))
            values = [pa.array(found.hits.query), pa.array(found.hits.distance), distances]
            made = pa.table([*values, *rows.columns], names=[*self.added, *self.carried])
            yield from made.combine_chunks().to_batches()


def _extremes(vectors: DataFrame, question: HybridQuestion) -> list[tuple[Floats, Floats]]:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = Extremes(question)
        _offered(step.offer, question, batches)
        yield pa.record_batch(
            {
                "least": pa.array([step.least.ravel()], pa.list_(pa.float64())),
                "largest": pa.array([step.largest.ravel()], pa.list_(pa.float64())),
            }
        )

    shape = (question.queries, len(question.columns))
    fields = StructType([StructField("least", _NUMBERS), StructField("largest", _NUMBERS)])
    rows = map_in_arrow(vectors, task, fields).collect()
    return [(np.array(row["least"]).reshape(shape), np.array(row["largest"]).reshape(shape)) for row in rows]


def _counted(vectors: DataFrame, question: HybridQuestion, limits: tuple[tuple[Floats, ...], ...]) -> list[Any]:
    """Return, by task, query and column, how many rows are in each interval between the distances in `limits`."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = Counts(question, limits)
        _offered(step.offer, question, batches)
        flat = [column for of_query in step.nearer for column in of_query]
        yield pa.record_batch({"nearer": pa.array(flat, pa.list_(pa.int64()))})

    fields = StructType([StructField("nearer", ArrayType(LongType(), False))])
    rows = [np.array(row["nearer"], np.int64) for row in map_in_arrow(vectors, task, fields).collect()]
    width = len(question.columns)
    size = width * question.queries
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [[part[at : at + width] for at in range(0, size, width)] for part in parts]


def _offered(offer: Callable[[Any], None], question: HybridQuestion, batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        positions = np.arange(batch.num_rows, dtype=np.int64)
        blocks = blocks_of(batch, question.read, positions, None, ScanCounts())
        if blocks is not None:
            offer(blocks)
