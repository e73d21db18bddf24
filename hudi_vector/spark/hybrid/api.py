"""The Python functions ``hv.hybrid_search`` and ``hv.hybrid_search_batch``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, kind_of, number_of
from hudi_vector.spark.catalyst.handles import frame_of
from hudi_vector.spark.columns import IN_PYTHON
from hudi_vector.spark.hybrid.batch import HybridQueries, hybrid_batch_plan
from hudi_vector.spark.hybrid.search import checked_hybrid, hybrid_relation, probes_of
from hudi_vector.spark.search.api import chosen, target_of

__all__ = ["as_probes", "hybrid_search", "hybrid_search_batch"]


@known_arguments()
def hybrid_search(
    spark: SparkSession,
    table: str | os.PathLike[str] | DataFrame,
    search_columns: Sequence[str],
    queries: Sequence[Any],
    k: int = 10,
    *,
    metrics: str | Sequence[str] = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    columns: Sequence[str] | None = None,
    as_of: Any = None,
    weights: Sequence[float] | None = None,
    fusion: str = "weighted",
    normalize: bool = False,
    execution: str = "auto",
    timeout: str | int | None = None,
    group_by: str | Sequence[str] | None = None,
    per_group: int | None = None,
    group_nulls: str | None = None,
) -> DataFrame:
    """Find the k best rows of a table by several vector columns together, exactly.

    Each column gives a row a score: 1 − distance for cosine, the product for dot_product, 1 / (1 + distance) for l2.
    The score of the row is the sum of weight × score, or of weight / (60 + rank) with ``fusion="rrf"``, where the rank
    of a row in a column is 1 plus the number of nearer rows. All rows that pass the filter and have a vector in every
    column are ranked.

    Args:
        spark: A registered session.
        table: A catalog name, temporary view or path of a Hudi table, or a DataFrame.
        search_columns: The columns: VECTOR, arrays of FLOAT, DOUBLE or TINYINT, and for sparse vectors MAP<STRING,
            FLOAT> or STRUCT<indices: ARRAY<INT>, values: ARRAY<FLOAT>>. A column may be named twice.
        queries: A query for each column: numbers, or for a sparse column a dict from index to value or a pair of
            indices and values.
        k: The number of rows, 1 to 100,000.
        metrics: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"`` for all columns, or a list with one for
            each.
        filter: A SQL condition over the table's columns, applied before scores and ranks are computed.
        columns: The columns to return; by default the added columns and all of the table except the searched ones and
            Hudi's own, whose names begin with ``_hoodie_``.
        as_of: An instant of the timeline (14 or 17 digits) or a timestamp, to search the table as it was visible then.
        weights: A weight for each column, 1 each by default. A weight below 0 prefers distant rows; it is not allowed
            with ``"rrf"``.
        fusion: ``"weighted"`` or ``"rrf"``.
        normalize: Whether the scores of each column are first scaled to 0 … 1, by their minimum and maximum over all
            rows.
        execution: ``"local"`` on the driver, ``"distributed"`` on the executors, ``"auto"`` by size.
        timeout: How long the search may take: a text such as ``"30s"``, or a number of milliseconds; 0 for no limit.
        group_by: A column of the table, or a list of columns, of plain values. The answer is then the k best groups,
            each as good as its best row. Scores and ranks are those of rows among all rows, as without groups.
        per_group: The largest number of rows of each group, 1 by default.
        group_nulls: ``"keep"``, the default, for NULL as a value like others; ``"drop"`` to leave out rows with NULL in
            a column of `group_by`, which still have ranks.

    Returns:
        A lazy DataFrame, descending by ``score``, with ``_distance_<column>`` for each searched column, ``score`` and
        ``_rank`` (from 1). With `group_by` it is ordered by the rank of a row's group in ``_group_rank`` (from 1), then
        by ``score``. The vectors can be selected too. The snapshot is chosen when the DataFrame is first run.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.hybrid_search(
        ...     spark, "products", ["embedding", "words"], [q, {"red": 0.5, "shoe": 1.25}], weights=[0.7, 0.3], k=10
        ... ).count()
        10
    """
    checked = checked_hybrid(
        spark,
        target_of(spark, table),
        search_columns,
        k=k,
        weights=weights,
        metrics=metrics,
        fusion=fusion,
        normalize=normalize,
        filter=filter,
        as_of=as_of,
        execution=execution,
        timeout=timeout,
        group_by=group_by,
        per_group=per_group,
        group_nulls=group_nulls,
    )
    found = frame_of(
        spark, hybrid_relation(checked, probes_of(checked, as_probes(queries, len(checked.columns))), IN_PYTHON)
    )
    return chosen(found, columns)


@known_arguments()
def hybrid_search_batch(
    spark: SparkSession,
    table: str | os.PathLike[str] | DataFrame,
    search_columns: Sequence[str],
    queries: str | DataFrame,
    query_columns: Sequence[str],
    k: int = 10,
    *,
    metrics: str | Sequence[str] = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    columns: Sequence[str] | None = None,
    as_of: Any = None,
    weights: Sequence[float] | None = None,
    fusion: str = "weighted",
    normalize: bool = False,
    execution: str = "auto",
    timeout: str | int | None = None,
    group_by: str | Sequence[str] | None = None,
    per_group: int | None = None,
    group_nulls: str | None = None,
) -> DataFrame:
    """Find the k best rows of a table by several vector columns together, for each row of a DataFrame of queries.

    Args:
        spark: A registered session.
        table: As for `hybrid_search`.
        search_columns: As for `hybrid_search`.
        queries: A DataFrame or the name of a table.
        query_columns: For each search column, the column of `queries` that holds its query: dense for a dense search
            column, sparse for a sparse one.
        k: The number of rows for each query row, 1 to 100,000.
        metrics: As for `hybrid_search`.
        filter: As for `hybrid_search`.
        columns: The columns to return; by default all except Hudi's own, whose names begin with ``_hoodie_``.
        as_of: As for `hybrid_search`.
        weights: As for `hybrid_search`.
        fusion: As for `hybrid_search`.
        normalize: As for `hybrid_search`.
        execution: As for `hybrid_search`.
        timeout: As for `hybrid_search`, for each batch of query rows that is searched together.
        group_by: As for `hybrid_search`: the k best groups for each query row.
        per_group: As for `hybrid_search`.
        group_nulls: As for `hybrid_search`.

    Returns:
        A lazy DataFrame: the table's columns without the searched ones, the columns of `queries` without the query
        columns (clashing names get the prefix ``_hudi_query_``), ``_hudi_query_index``, ``_distance_<column>`` for each
        searched column, ``score`` and ``_rank``, with `group_by` also ``_group_rank``. Query rows that lack one of the
        vectors are left out.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        TableNotFoundError: There is no such table.

    Example:
        >>> hv.hybrid_search_batch(
        ...     spark, "products", ["embedding", "image"], users, ["taste", "looks"], k=3
        ... ).count()
        6
    """
    checked = checked_hybrid(
        spark,
        target_of(spark, table),
        search_columns,
        k=k,
        weights=weights,
        metrics=metrics,
        fusion=fusion,
        normalize=normalize,
        filter=filter,
        as_of=as_of,
        execution=execution,
        timeout=timeout,
        group_by=group_by,
        per_group=per_group,
        group_nulls=group_nulls,
    )
    asking = HybridQueries.of(target_of(spark, queries), query_columns, checked)
    found = frame_of(spark, hybrid_batch_plan(checked, asking, IN_PYTHON))
    return chosen(found, columns)


def as_probes(value: Any, columns: int) -> list[Any]:
    """Return the queries as a list, one for each column.

    Raises InvalidTypeError unless they are a sequence or an array, InvalidArgumentError if their number is not
    `columns`.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
        raise InvalidTypeError(f"queries must be a list with a query for each search column, not {kind_of(value)}")
    if len(value) != columns:
        raise InvalidArgumentError(
            f"{number_of(len(value), 'query was', 'queries were')} given for {number_of(columns, 'search column')}; "
            "give one for each"
        )
    return list(value)
