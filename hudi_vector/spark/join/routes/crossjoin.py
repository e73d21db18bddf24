"""The route of last resort: Spark pairs every left with every right row, and ranks the pairs by distance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import DoubleType, MapType, StructField, StructType

from hudi_vector.kernels.metrics import exact_distances
from hudi_vector.query.asking.queries import query_vectors
from hudi_vector.query.grouping.arguments import Grouping
from hudi_vector.query.join.conditions import LEFT, RIGHT
from hudi_vector.read.spec import TIE_COLUMNS, ScanCounts, VectorColumn
from hudi_vector.read.vectors import block_of
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.arrow_stage import map_in_arrow
from hudi_vector.spark.catalyst.worker_errors import in_few_words
from hudi_vector.spark.join.request import JoinRequest

__all__ = ["crossjoin_frame"]

_ID, _ALONE, _HOLDS, _DISTANCE, _RANK = (f"__hudi_vector_{n}" for n in ("id", "alone", "holds", "distance", "rank"))
_ASKING, _FOUND = "__hudi_vector_asking", "__hudi_vector_found"
_GROUP, _BEST, _PLACE = (f"__hudi_vector_{n}" for n in ("group", "best", "place"))


def crossjoin_frame(request: JoinRequest) -> DataFrame:
    """Return the result of a join that Spark computes as a cross join."""
    left, right = request.left, request.right
    asking = left.frame.select(_whole(left.frame).alias(LEFT), F.monotonically_increasing_id().alias(_ID))
    found = _searched(request).select(_whole(right.frame).alias(RIGHT), F.lit(False).alias(_ALONE))
    if request.outer:
        # An additional right row of NULLs keeps every left row in the result, even without a match.
        no_right = F.lit(None).cast(found.schema[RIGHT].dataType)
        alone = request.spark.range(1).select(no_right.alias(RIGHT), F.lit(True).alias(_ALONE))
        found = found.unionByName(alone)
    pairs = asking.crossJoin(found)
    if request.asked.text is not None:
        pairs = pairs.select("*", f"{RIGHT}.*")  # bare names of the condition are the right side's
    pairs = pairs.select(
        *(F.col(name) for name in (LEFT, RIGHT, _ID, _ALONE)),
        _holds(request).alias(_HOLDS),
        F.col(LEFT)[left.column.name].alias(_ASKING),
        F.col(RIGHT)[right.column.name].alias(_FOUND),
    )
    kept = [pairs.schema[name] for name in (LEFT, RIGHT, _ID, _ALONE)]
    compared = map_in_arrow(pairs, _compare(request), StructType([*kept, StructField(_DISTANCE, DoubleType())]))
    within = Window.partitionBy(_ID).orderBy(F.col(_DISTANCE).asc_nulls_last(), *_ties(request))
    ranked = compared.withColumn(_RANK, F.row_number().over(within))
    if request.tuning.grouping is not None and request.k is not None:
        ranked = _of_groups(ranked, request.tuning.grouping, request.k)
    else:
        wanted = F.lit(True) if request.k is None else F.col(_RANK) <= request.k
        ranked = ranked.where(F.when(F.col(_ALONE), F.col(_RANK) == 1).otherwise(wanted))
    return ranked.select(*_outputs(request))


def _searched(request: JoinRequest) -> DataFrame:
    """Return the right rows, without those with NULL in a column of the groups if they are dropped."""
    frame, grouping = request.right.frame, request.tuning.grouping
    if grouping is not None and grouping.drop_nulls:
        frame = frame.where(reduce(and_, [frame[quoted(name)].isNotNull() for name in grouping.columns]))
    return frame


def _of_groups(ranked: DataFrame, grouping: Grouping, k: int) -> DataFrame:
    """Return the best rows of the first k groups of each left row, with the ranks of groups, and of rows in them."""
    columns = [F.col(RIGHT)[name] for name in grouping.columns]
    inside = Window.partitionBy(F.col(_ID), F.col(_ALONE), *columns)
    rows = ranked.select(
        "*",
        F.row_number().over(inside.orderBy(_RANK)).alias(_PLACE),
        F.min(_RANK).over(inside).alias(_BEST),
    )
    rows = rows.withColumn(_GROUP, F.dense_rank().over(Window.partitionBy(_ID).orderBy(_BEST)))
    wanted = (F.col(_GROUP) <= k) & (F.col(_PLACE) <= grouping.per_group)
    rows = rows.where(F.when(F.col(_ALONE), F.col(_RANK) == 1).otherwise(wanted))
    in_order = Window.partitionBy(_ID).orderBy(_GROUP, _PLACE)
    return rows.withColumn(_RANK, F.row_number().over(in_order))


def _whole(frame: DataFrame) -> Column:
    return F.struct(*[frame[quoted(name)].alias(name) for name in frame.columns])


def _holds(request: JoinRequest) -> Column:
    """Return a column that is True if a pair satisfies the condition and is not a row paired with itself."""
    asked = request.asked
    holds = F.lit(True) if asked.text is None or asked.right_only else F.expr(asked.text)
    if request.self_columns:
        same = [F.col(LEFT)[name] == F.col(RIGHT)[name] for name in request.self_columns]
        holds = holds & ~F.coalesce(reduce(and_, same), F.lit(False))
    return F.coalesce(holds, F.lit(False))


def _compare(request: JoinRequest) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    asking, found = request.left.column, request.right.column
    label, metric, dimension = request.left.label, request.metric, request.dimension
    farthest = np.inf if request.max_distance is None else request.max_distance
    kept = (LEFT, RIGHT, _ID, _ALONE)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            with in_few_words():
                distance = _distances(rows, asking, found, label, metric, dimension)
            distance[~np.asarray(rows.column(_HOLDS))] = np.nan
            near = distance <= farthest
            wanted = pa.array(near | np.asarray(rows.column(_ALONE)))
            table = rows.select(kept).append_column(_DISTANCE, pa.array(distance, mask=~near))
            yield from table.filter(wanted).combine_chunks().to_batches()

    return run


def _distances(
    rows: pa.Table, asking: VectorColumn, found: VectorColumn, label: str, metric: str, dimension: int | None
) -> Any:
    """Return the distance of each pair, shape (n,), float64, NaN if one side has no usable vector."""
    left, at = query_vectors(rows, replace(asking, name=_ASKING), label, dimension)
    distance = np.full(rows.num_rows, np.nan)
    if dimension is None or not len(left):
        return distance
    right, there = _right_vectors(rows, replace(found, name=_FOUND, dimension=dimension))
    both, of_left, of_right = np.intersect1d(at, there, assume_unique=True, return_indices=True)
    distance[both] = exact_distances(right[of_right], left[of_left], metric)
    return distance


def _right_vectors(rows: pa.Table, column: VectorColumn) -> tuple[Any, Any]:
    array = rows.column(column.name).combine_chunks()
    chunk = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    block = block_of(chunk, replace(column, is_vector=False), np.arange(rows.num_rows), ScanCounts())
    return block.values, block.positions


def _ties(request: JoinRequest) -> list[Column]:
    names = request.right.schema.names
    keyed = all(name in names for name in TIE_COLUMNS)
    chosen = TIE_COLUMNS if keyed else [f.name for f in request.right.schema.fields if not _holds_map(f.dataType)]
    return [F.col(RIGHT)[name].asc_nulls_first() for name in chosen]


def _holds_map(kind: Any) -> bool:
    if isinstance(kind, StructType):
        return any(_holds_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (hasattr(kind, "elementType") and _holds_map(kind.elementType))


def _outputs(request: JoinRequest) -> list[Column]:
    def rank(name: str) -> Column:
        return F.when(~F.col(_ALONE), F.col(name)).cast("int")

    made = {"rank": rank(_RANK), "distance": F.col(_DISTANCE)}
    if request.tuning.grouping is not None:
        made["added"] = rank(_GROUP)
    found = []
    for output in request.outputs():
        column = output.column
        if column.side in made:
            found.append(made[column.side].alias(column.name))
        else:
            found.append(F.col(LEFT if column.side == "query" else RIGHT)[column.source].alias(column.name))
    return found
