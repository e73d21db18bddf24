"""Search of any DataFrame through Spark, in one Python stage over the rows that Spark reads.

This is the slow path, for everything that Spark can read. Each task holds the k nearest rows that it has seen, with the
requested columns, and one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from hudi_vector.kernels.topk import Bounds, Hits, TopK, rank_within
from hudi_vector.query.asking.output import Found
from hudi_vector.query.execute import Question
from hudi_vector.query.merge import break_ties, order_of_keys
from hudi_vector.read.spec import ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.schema import free_names, quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow

__all__ = ["length_in", "search_frame"]

_QUERY, _DISTANCE = "__hudi_vector_query", "__hudi_vector_distance"
_COUNTED = ("rows", "nulls", "invalid", "uneven")


def search_frame(
    frame: DataFrame,
    column: VectorColumn,
    question: Question,
    names: Sequence[str],
    ties: Sequence[str],
    counts: ScanCounts,
) -> Found:
    """Return the nearest rows of a filtered DataFrame, at most k for each query, ordered by query and rank.

    `ties` are the columns that order rows of equal distance, the most significant first. The rows are counted in
    `counts`; a task that is run again counts its rows again.
    """
    carried = list(dict.fromkeys([*names, *ties]))
    needed = frame.select([quoted(name) for name in dict.fromkeys([*carried, column.name])])
    kept = [needed.schema[name] for name in carried]
    added = free_names((_QUERY, _DISTANCE), carried, "_")
    schema = StructType([StructField(added[0], LongType()), StructField(added[1], DoubleType()), *kept])
    context = frame.sparkSession.sparkContext
    seen = {name: context.accumulator(0) for name in _COUNTED}
    task = _Task(column, question, tuple(carried), tuple(ties), tuple(added), seen)
    batches = map_in_arrow(needed, task, schema)._collect_as_arrow()
    for name, accumulator in seen.items():
        setattr(counts, name, getattr(counts, name) + accumulator.value)
    if not batches:
        nothing = np.empty(0, np.int64)
        return Found(nothing, np.empty(0), nothing, pa.table({name: pa.nulls(0) for name in names}))
    table = pa.Table.from_batches(batches)
    query, distance = (table.column(name).to_numpy() for name in added)
    places = order_of_keys(table.select(list(ties))) if ties else np.zeros(len(query), np.int64)
    order, rank = rank_within(query, distance, places)
    order, rank = order[rank < question.k], rank[rank < question.k]
    return Found(query[order], distance[order], rank + 1, table.select(list(names)).take(pa.array(order)))


def length_in(frame: DataFrame, name: str) -> int | None:
    """Return the length of one vector in a column of arrays, None if all are NULL; this starts a job."""
    vectors = F.col(quoted(name))
    found = frame.where(vectors.isNotNull()).select(F.size(vectors)).head(1)
    return int(found[0][0]) if found else None


@dataclass(frozen=True)
class _Task:
    """The work of one task: find its nearest rows, identified by their position in the order of arrival."""

    column: VectorColumn
    question: Question
    carried: tuple[str, ...]
    ties: tuple[str, ...]
    added: tuple[str, ...]
    seen: Mapping[str, Accumulator[int]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        question, counts = self.question, ScanCounts()
        bounds = Bounds.of(len(question.vectors), question.max_distance)
        top = TopK(question.vectors, question.metric, question.k, bounds)
        held: pa.Table | None = None
        places = np.empty(0, np.int64)
        for batch in batches:
            first = counts.rows
            counts.rows += batch.num_rows
            positions = np.arange(first, counts.rows, dtype=np.int64)
            array = batch.column(batch.schema.get_field_index(self.column.name))
            block = block_of(array, self.column, positions, counts)
            if len(block):
                top.offer(block)
            wanted = np.unique(top.hits().position)
            fresh, old = wanted[wanted >= first], np.isin(places, wanted)
            rows = pa.Table.from_batches([batch.select(list(self.carried))]).take(pa.array(fresh - first))
            held = rows if held is None else pa.concat_tables([held.filter(pa.array(old)), rows])
            places = np.concatenate([places[old], fresh])
        for name, accumulator in self.seen.items():
            accumulator.add(getattr(counts, name))
        if held is not None:
            yield from self._output(top.hits(), held, places)

    def _output(self, hits: Hits, table: pa.Table, places: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        def keys(at: npt.NDArray[np.int64]) -> pa.Table | None:
            return table.select(list(self.ties)).take(pa.array(np.searchsorted(places, at))) if self.ties else None

        hits = break_ties(hits, self.question.k, keys)
        rows = table.take(pa.array(np.searchsorted(places, hits.position)))
        columns = [pa.array(hits.query), pa.array(hits.distance), *(rows.column(name) for name in self.carried)]
        made = pa.table(columns, names=[*self.added, *self.carried])
        yield from made.combine_chunks().to_batches()
