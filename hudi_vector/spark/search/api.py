"""The Python functions ``hv.search`` and ``hv.search_batch``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import as_text, as_vector, checked_names, known_arguments
from hudi_vector.errors import InvalidTypeError, UnknownColumnError
from hudi_vector.query.explain import explained_by
from hudi_vector.query.tuning import SearchOptions, checked_tuning
from hudi_vector.schema import quoted
from hudi_vector.spark.catalyst.handles import frame_of, selected
from hudi_vector.spark.catalyst.settings import one_step
from hudi_vector.spark.columns import DISTANCE, IN_PYTHON
from hudi_vector.spark.resolve import Target, resolve_frame, resolve_name
from hudi_vector.spark.search.batch import BatchShape, QueryRows, batch_plan
from hudi_vector.spark.search.search import TableSearch
from hudi_vector.spark.search.single import constant_query, single_relation
from hudi_vector.spark.search.table_functions import checked_search
from hudi_vector.storage import path_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["chosen", "search", "search_batch", "target_of"]

_MANY = 1 << 20  # an assumed number of queries above every limit of the planner


def _explained(
    spark: SparkSession, table: Any, column: str | None, query: Any, columns: Any, options: Any = None, **asked: Any
) -> str:
    """Describe the plan of `search`; `columns` are checked but do not change the plan."""
    vector = as_vector(query, None)
    checked_names(columns)
    return _checked(spark, table, column, len(vector), options=options or {}, **asked).explain(len(vector), 1)


def _batch_explained(
    spark: SparkSession,
    table: Any,
    column: str | None,
    queries: Any,
    query_column: Any,
    columns: Any,
    options: Any = None,
    **asked: Any,
) -> str:
    """Describe the plan of `search_batch`; the number of queries is known for an array, otherwise taken as large."""
    rows = _query_rows(spark, queries, query_column)
    checked_names(columns)
    checked = _checked(spark, table, column, rows.dimension, options=options or {}, **asked)
    count = _MANY if rows.matrix is None else len(rows.matrix)
    return checked.explain(rows.dimension or checked.column.dimension, count)


@known_arguments(SearchOptions)
@explained_by(_explained)
def search(
    spark: SparkSession,
    table: str | os.PathLike[str] | DataFrame,
    column: str | None = None,
    query: Any = None,
    k: int = 10,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    columns: Sequence[str] | None = None,
    mode: str | None = None,
    recall_target: float | None = None,
    as_of: Any = None,
    max_distance: float | None = None,
    execution: str = "auto",
    **options: Unpack[SearchOptions],
) -> DataFrame:
    """Find the k nearest rows of a table to one vector; the result is exact by default.

    Args:
        spark: A registered session.
        table: A catalog name, temporary view or path of a Hudi table, or a DataFrame.
        column: A VECTOR column, or an array of FLOAT, DOUBLE or TINYINT. If none is named, the one that
            `hudi_vector.vectors.use` chose for the table, or its only VECTOR column.
        query: The query vector: a list or one-dimensional array of numbers, as long as the column's vectors.
        k: The number of rows, 1 to 100,000.
        metric: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"``, or an alias of one.
        filter: A SQL condition over the table's columns, applied before distances are computed.
        columns: The columns to return in addition to ``_distance``; by default all except the vector and Hudi's own,
            whose names begin with ``_hoodie_``.
        mode: ``"exact"`` uses no index. ``"auto"``, the default of ``hoodie.vector.search.mode``, uses an index if the
            result stays exact or a recall target below 1 is set. ``"approximate"`` uses an index even if rows may be
            missed. None follows the setting.
        recall_target: The share of the true nearest rows to find on average, for example 0.95.
        as_of: An instant of the timeline (14 or 17 digits) or a timestamp, to search the table as it was visible then.
        max_distance: The largest distance to return, inclusive, in the metric's unit.
        execution: ``"local"`` on the driver, ``"distributed"`` on the executors, ``"auto"`` by size.
        options: ``algorithm``, ``nprobes``, ``refine_factor``, ``timeout``, ``group_by``, ``per_group`` and
            ``group_nulls``: see `SearchOptions`.

    Returns:
        A lazy DataFrame, ascending by ``_distance``, or with ``group_by`` by ``_group_rank`` and then ``_distance``.
        ``_rank`` (from 1), ``_hudi_distance``, the vector and the
        ``_hoodie_*`` columns can be selected too. The snapshot is chosen when the DataFrame is first run.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.search(spark, "products", "embedding", [1.0, 2.0, 3.0], k=10).count()
        10
    """
    vector = as_vector(query, None)
    checked = _checked(
        spark, table, column, len(vector), mode, recall_target, options,
        k=k, metric=metric, filter=filter, as_of=as_of, max_distance=max_distance, execution=execution,
    )  # fmt: skip
    found = frame_of(spark, single_relation(checked, constant_query(vector, checked.column.dimension), IN_PYTHON))
    return chosen(found, columns, (DISTANCE, *checked.group_columns))


@known_arguments(SearchOptions)
@explained_by(_batch_explained)
def search_batch(
    spark: SparkSession,
    table: str | os.PathLike[str] | DataFrame,
    column: str | None = None,
    queries: Any = None,
    query_column: str | None = None,
    k: int = 10,
    *,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    columns: Sequence[str] | None = None,
    mode: str | None = None,
    recall_target: float | None = None,
    as_of: Any = None,
    max_distance: float | None = None,
    execution: str = "auto",
    **options: Unpack[SearchOptions],
) -> DataFrame:
    """Find the k nearest rows of a table to each of many vectors; the result is exact by default.

    Args:
        spark: A registered session.
        table: A catalog name, temporary view or path of a Hudi table, or a DataFrame.
        column: A VECTOR column, or an array of FLOAT, DOUBLE or TINYINT. If none is named, as for `search`.
        queries: A DataFrame or table name with a column of query vectors, or a two-dimensional array of shape
            (queries, dimension).
        query_column: The column of the query vectors; leave it out for an array.
        k: The number of rows for each query, 1 to 100,000.
        metric: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"``, or an alias of one.
        filter: A SQL condition over the table's columns, applied before distances are computed.
        columns: The columns to return in addition to ``_distance``; by default all except Hudi's own, whose names
            begin with ``_hoodie_``.
        mode: ``"exact"`` uses no index. ``"auto"``, the default of ``hoodie.vector.search.mode``, uses an index if the
            result stays exact or a recall target below 1 is set. ``"approximate"`` uses an index even if rows may be
            missed. None follows the setting.
        recall_target: The share of the true nearest rows to find on average, for example 0.95.
        as_of: An instant of the timeline (14 or 17 digits) or a timestamp, to search the table as it was visible then.
        max_distance: The largest distance to return, inclusive, in the metric's unit.
        execution: ``"local"`` on the driver, ``"distributed"`` on the executors, ``"auto"`` by size.
        options: ``algorithm``, ``nprobes``, ``refine_factor``, ``timeout``, ``group_by``, ``per_group`` and
            ``group_nulls``: see `SearchOptions`.

    Returns:
        A lazy DataFrame: the table's columns without the vector, the queries' columns without theirs (clashing names
        get the prefix ``_hudi_query_``), ``_hudi_query_index`` (for an array the row number), ``_distance`` and
        ``_rank``. ``_hudi_distance`` can be selected too. Query rows without a vector are left out.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.search_batch(spark, "products", "embedding", Q, k=2).count()
        6
    """
    rows = _query_rows(spark, queries, query_column)
    checked = _checked(
        spark, table, column, rows.dimension, mode, recall_target, options,
        k=k, metric=metric, filter=filter, as_of=as_of, max_distance=max_distance, execution=execution,
    )  # fmt: skip
    found = frame_of(spark, batch_plan(checked, rows, BatchShape.CORPUS_FIRST, IN_PYTHON))
    return chosen(found, columns, (DISTANCE, *checked.group_columns))


def _checked(
    spark: SparkSession,
    table: str | os.PathLike[str] | DataFrame,
    column: str | None,
    dimension: int | None,
    mode: str | None,
    recall_target: float | None,
    options: Mapping[str, Any],
    **asked: Any,
) -> TableSearch:
    name, tuning = as_text(column, "column", allow_null=True), checked_tuning(mode, recall_target, **options)
    with one_step():
        return checked_search(spark, target_of(spark, table), name, dimension, tuning=tuning, **asked)


def target_of(spark: SparkSession, table: str | os.PathLike[str] | DataFrame) -> Target:
    """Return the target of a name, a path or a DataFrame."""
    if isinstance(table, DataFrame):
        return resolve_frame(spark, table._jdf.queryExecution().analyzed(), "the DataFrame")
    return resolve_name(spark, as_text(path_text(table), "table"))


def _query_rows(spark: SparkSession, queries: Any, query_column: str | None) -> QueryRows:
    if isinstance(queries, (DataFrame, str, os.PathLike)):
        if query_column is None:
            raise InvalidTypeError("query_column is missing: name the column of the query vectors")
        return QueryRows.of(target_of(spark, queries), query_column)
    if query_column is not None:
        raise InvalidTypeError("query_column goes with a DataFrame or table of queries; leave it out for an array")
    return QueryRows.of_array(_as_matrix(queries))


def _as_matrix(queries: Any) -> Any:
    try:
        matrix = np.asarray(queries, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InvalidTypeError("queries must be a DataFrame, a table's name or a two-dimensional array of numbers")
    return matrix


def chosen(found: DataFrame, columns: Sequence[str] | None, always: Sequence[str] = ()) -> DataFrame:
    """Return the named columns and the columns in `always`, or all columns if `columns` is None.

    A name that is not a column may be the dotted path of a field. Raises UnknownColumnError if it is neither.
    """
    if columns is None:
        return found
    names = list(checked_names(columns) or ())
    asked = {name.lower() for name in names}
    shown = {name.lower() for name in found.columns}
    taken = [quoted(name) if name.lower() in shown else name for name in names]
    missing = [] if "*" in names else [name for name in always if name not in asked]
    try:
        return selected(found, taken + missing)
    except AnalysisException as refused:
        if not (refused.getErrorClass() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        unknown = (refused.getMessageParameters() or {}).get("objectName", "").replace("`", "")
        raise UnknownColumnError.of(unknown, found.columns, "the result") from None
