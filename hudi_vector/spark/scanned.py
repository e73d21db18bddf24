"""The Spark way: the nearest rows of any DataFrame, one Python stage over Spark's own rows.

The slow path that is right for whatever Spark can read. Each task holds the k nearest rows it has seen with the
columns that are wanted, and one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from hudi_vector.kernels.topk import Bounds, Hits, TopK, rank_within
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.search.execute import Question
from hudi_vector.search.merge import break_ties, order_of_keys

__all__ = ["Scanned", "search_frame"]

_QUERY, _DISTANCE = "\0query", "\0distance"


@dataclass(frozen=True)
class Scanned:
    """Rows Spark found, by query and distance: three parallel parts."""

    query: npt.NDArray[np.int64]
    distance: npt.NDArray[np.float64]
    rows: pa.Table


def search_frame(
    frame: DataFrame, column: VectorColumn, question: Question, names: Sequence[str], ties: Sequence[str]
) -> Scanned:
    """The nearest rows of a DataFrame.

    Args:
        frame: The rows, filtered already.
        column: The searched column of it.
        question: The queries.
        names: The columns wanted.
        ties: The columns that order rows of equal distance, the most significant first.

    Returns:
        At most k rows a query, in order.
    """
    carried = list(dict.fromkeys([*names, *ties]))
    needed = frame.select([_quoted(name) for name in dict.fromkeys([*carried, column.name])])
    kept = [needed.schema[name] for name in carried]
    schema = StructType([StructField(_QUERY, LongType()), StructField(_DISTANCE, DoubleType()), *kept])
    found = needed.mapInArrow(_task(column, question, tuple(carried), tuple(ties)), schema)._collect_as_arrow()
    table = pa.Table.from_batches(found) if found else None
    if table is None or not table.num_rows:
        return Scanned(np.empty(0, np.int64), np.empty(0), pa.table({name: pa.nulls(0) for name in names}))
    query = table.column(_QUERY).to_numpy()
    distance = table.column(_DISTANCE).to_numpy()
    places = order_of_keys(table.select(list(ties))) if ties else np.zeros(len(query), np.int64)
    order, rank = rank_within(query, distance, places)
    order = order[rank < question.k]
    return Scanned(query[order], distance[order], table.select(list(names)).take(pa.array(order)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _task(
    column: VectorColumn, question: Question, carried: tuple[str, ...], ties: tuple[str, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _nearest(batches, column, question, carried, ties)

    return run


def _nearest(
    batches: Iterable[pa.RecordBatch],
    column: VectorColumn,
    question: Question,
    carried: tuple[str, ...],
    ties: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, kept by their position in the order they arrived."""
    top = TopK(question.vectors, question.metric, question.k, Bounds.of(len(question.vectors), question.max_distance))
    held: pa.Table | None = None
    places = np.empty(0, np.int64)
    done = 0
    counts = ScanCounts()
    for batch in batches:
        positions = np.arange(done, done + batch.num_rows, dtype=np.int64)
        block = block_of(batch.column(batch.schema.get_field_index(column.name)), column, positions, counts)
        if len(block):
            top.offer(block)
        wanted = np.unique(top.hits().position)
        fresh = wanted[wanted >= done] - done
        old = np.isin(places, wanted)
        rows = pa.Table.from_batches([batch.select(list(carried))]).take(pa.array(fresh))
        held = rows if held is None else pa.concat_tables([held.filter(pa.array(old)), rows])
        places = np.concatenate([places[old], fresh + done])
        done += batch.num_rows
    if held is None:
        return
    table = held

    def keys(at: npt.NDArray[np.int64]) -> pa.Table | None:
        return table.select(list(ties)).take(pa.array(np.searchsorted(places, at))) if ties else None

    yield from _as_batches(break_ties(top.hits(), question.k, keys), table, places, carried)


def _as_batches(
    hits: Hits, table: pa.Table, places: npt.NDArray[np.int64], carried: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    rows = table.take(pa.array(np.searchsorted(places, hits.position)))
    columns = [pa.array(hits.query), pa.array(hits.distance), *(rows.column(name) for name in carried)]
    yield from pa.table(columns, names=[_QUERY, _DISTANCE, *carried]).combine_chunks().to_batches()
