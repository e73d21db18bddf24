"""The Python function ``hv.knn_join``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from hudi_vector import options
from hudi_vector.arguments import known_arguments
from hudi_vector.query.asking.queries import QueryColumns
from hudi_vector.query.asking.task import AskingTask
from hudi_vector.query.explain import explained_by
from hudi_vector.query.grouping.arguments import most_found
from hudi_vector.query.join.nearest import SideFinder
from hudi_vector.query.tuning import JoinOptions
from hudi_vector.spark.catalyst.gateway import JavaObject
from hudi_vector.spark.catalyst.handles import frame_of
from hudi_vector.spark.catalyst.local_rows import arrow_fields
from hudi_vector.spark.catalyst.relation import lazy_relation
from hudi_vector.spark.join.prepare import Prepared, prepare
from hudi_vector.spark.join.request import JoinRequest
from hudi_vector.spark.join.routes.crossjoin import crossjoin_frame
from hudi_vector.spark.join.routes.ways import Way
from hudi_vector.spark.join.sentences import described
from hudi_vector.spark.search.output import Output, schema_of
from hudi_vector.spark.search.spread import spread_plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["JoinedFrame", "join_plan", "joined_frame", "knn_join"]


def _explained(left: Any, right: Any, query_column: Any, column: Any, k: Any, options: Any = None, **asked: Any) -> str:
    """Describe the plan of `knn_join`."""
    return described(prepare(left, right, query_column, column, k, run=False, **asked, **(options or {})))


@known_arguments(JoinOptions)
@explained_by(_explained)
def knn_join(
    left: str | DataFrame,
    right: str | DataFrame,
    query_column: str,
    column: str,
    k: int | None = None,
    *,
    metric: str = "cosine",
    condition: str | None = None,
    mode: str = "auto",
    recall_target: float | None = None,
    max_distance: float | None = None,
    join_type: str = "inner",
    exclude_self: bool | str | Sequence[str] | None = None,
    rank_column: str = "_rank",
    distance_column: str = "_distance",
    deleted: Any = None,
    **options: Unpack[JoinOptions],
) -> JoinedFrame:
    """Join every left row with the k nearest right rows.

    Args:
        left: The query rows: a DataFrame, a catalog name, a view or the path of a Hudi table.
        right: The rows to find, given in the same forms; ``hv.explain(hv.knn_join, …)`` shows how they are searched.
        query_column: The left rows' vectors: a VECTOR column, or an array of FLOAT, DOUBLE or TINYINT.
        column: The right rows' vectors.
        k: The number of right rows for each left row, 1 to 100,000; None for all within `max_distance`.
        metric: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"``, or an alias of one.
        condition: A SQL condition that pairs must meet, applied before the k rows are counted. A bare name is a column
            of the right side; ``l.name`` is a column of the left side; ``r.name`` is the right side's column if both
            sides have the name.
        mode: ``"exact"`` uses no index. ``"auto"`` follows the session's setting, which by default uses an index if the
            result stays exact or a recall target below 1 is set. ``"approximate"`` uses an index even if rows may be
            missed.
        recall_target: The share of the true nearest rows to find on average, as for `search`.
        max_distance: The largest distance to return, inclusive, in the metric's unit.
        join_type: ``"inner"``, or ``"left_outer"`` to keep left rows without a match, once each, with NULL on the
            right.
        exclude_self: For a join of a table with itself: the column or columns that identify a row, or True for the
            record key of a Hudi table. A pair is kept if one of these values is NULL.
        rank_column: The name of the rank column; ranks count from 1.
        distance_column: The name of the distance column.
        deleted: Rows to leave out of a right side of Parquet files, or of a Delta table named by its path in addition
            to the rows that its log deletes: a mapping of files to a bool for each row (True: deleted) or to row
            numbers, or pairs of file and row number, as in Iceberg's position deletes.
        options: ``nprobes``, ``refine_factor``, ``timeout``, and ``group_by``, ``per_group`` and ``group_nulls`` over
            right columns, with which `k` is the number of groups: see `JoinOptions`.

    Returns:
        A DataFrame of the left columns, the right columns (a name that the left side or the join also has gets the
        prefix ``right_``), rank, with ``group_by`` also ``_group_rank``, and distance. Rows of equal distance are
        ordered by the right side's record key, for files by file and row, otherwise by the right columns in order,
        NULLs first. A left row whose vector is NULL or not finite matches nothing. Temporary data of the join is kept
        until `release()`, the end of a ``with`` block or the end of the application.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        InvalidTypeError: An argument, or a vector column, is of the wrong type.
        TableNotFoundError: There is no such table.
        UnsupportedTableError: The right side cannot be searched.

    Example:
        >>> hv.knn_join(users, "products", "taste", "embedding", k=3).count()
        6
    """
    prepared = prepare(
        left,
        right,
        query_column,
        column,
        k,
        metric=metric,
        join_type=join_type,
        mode=mode,
        max_distance=max_distance,
        condition=condition,
        exclude_self=exclude_self,
        rank_column=rank_column,
        distance_column=distance_column,
        deleted=deleted,
        recall_target=recall_target,
        **options,
    )
    return joined_frame(prepared)


def join_plan(prepared: Prepared) -> JavaObject:
    """Return the logical plan of a join.

    It is a relation made by the driver for few left rows, a Python stage over the left partitions for many, and Spark's
    own operators for a cross join.
    """
    request, way = prepared.request, prepared.way
    if way is None:
        return crossjoin_frame(request)._jdf.queryExecution().analyzed()
    if not prepared.on_driver:
        frame, _ = request.left.spread(request.spark)
        return spread_plan(request.spark, frame, _task(request, way, on_driver=False), request.schema(), [])

    def produce(names: Sequence[str]) -> pa.Table:
        by_name = {output.column.name: output for output in request.outputs()}
        chosen = [by_name[name] for name in names]
        rows = request.left.collected(request.needed_left(chosen))
        task = _task(request, way, on_driver=True, outputs=chosen or None)
        made = task.table(rows)
        return made if chosen else pa.table({"": pa.nulls(made.num_rows)})

    def describe() -> str:
        wanted = f"k={request.k}" if request.k else f"max_distance={request.max_distance}"
        grouping = request.tuning.grouping
        wanted += f" groups=[{grouping.describe()}]" if grouping else ""
        return f"knn_join {request.left.label} {request.right.label} {wanted} {request.metric} {prepared.route.name}"

    return lazy_relation(request.spark, "knn_join", request.schema(), [], produce, describe)


def _task(request: JoinRequest, way: Way, on_driver: bool, outputs: Sequence[Output] | None = None) -> AskingTask:
    chosen = request.outputs()[-1:] if outputs is None and on_driver else (outputs or request.outputs())
    side = way.driver if on_driver else way.stage
    assert side is not None
    left = request.left
    return AskingTask(
        queries=QueryColumns.dense(left.column, left.label, request.dimension, request.condition.left, request.zone),
        finder=SideFinder(side, request.ask(way.names)),
        columns=request.columns(way.names, chosen),
        schema=tuple(arrow_fields(schema_of(chosen))),
        k=most_found(request.k, request.tuning.grouping),
        cache=options.CACHE_MAX_BYTES.read(request.conf),
        outer=request.outer,
    )


class JoinedFrame(DataFrame):
    """The result of a join: a DataFrame that can release the temporary data of the join.

    Example:
        >>> with hv.knn_join(users, products.where("price < rand()"), "taste", "embedding", k=3) as found:
        ...     found.write.parquet("/tmp/found")
    """

    _release: Callable[[], None] | None = None

    def release(self) -> None:
        """Remove the temporary dataset or the copies in memory that were made for the join.

        This DataFrame and others made from it can no longer be computed. A second call does nothing. Without a call,
        the data is kept until the application ends.

        Example:
            >>> found = hv.knn_join(users, products, "taste", "embedding", k=3)
            >>> found.count()
            6
            >>> found.release()
        """
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> JoinedFrame:
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


def joined_frame(prepared: Prepared) -> JoinedFrame:
    """Return the lazy result of a join."""
    spark = prepared.request.spark
    made = JoinedFrame(frame_of(spark, join_plan(prepared))._jdf, spark)
    made._release = prepared.way.release if prepared.way else None
    return made
