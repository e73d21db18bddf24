"""Hybrid search from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidTypeError, kind_of
from hudi_vector.spark.hybrid.batch import HybridQueries, hybrid_batch_plan
from hudi_vector.spark.hybrid.search import checked_hybrid, hybrid_relation, probes_of
from hudi_vector.spark.search.api import chosen, frame_of, target_of

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
) -> DataFrame:
    """Find the k best rows of a table by several vector columns together, exactly.

    Each column gives a row a score: cosine 1 − distance, dot_product the product, l2 1 / (1 + distance). The score of
    the row is the sum of weight × score, or of weight / (60 + rank) with ``fusion="rrf"``, where a row's rank in a
    column is 1 and the number of rows that are nearer. All rows count that pass the filter and have a vector in every
    column.

    Args:
        spark: A registered session.
        table: A catalog name, temporary view or path of a Hudi table; a DataFrame is searched too.
        search_columns: The columns: VECTOR, arrays of FLOAT, DOUBLE or TINYINT, and for sparse vectors MAP<STRING,
            FLOAT> or STRUCT<indices: ARRAY<INT>, values: ARRAY<FLOAT>>. A column may be named twice.
        queries: A query for each column: numbers, or for a sparse column a dict from index to value or a pair of
            indices and values.
        k: How many rows, 1 to 100,000.
        metrics: ``"cosine"``, ``"l2"``, ``"dot_product"`` or ``"hamming"`` for all columns, or a list with one for
            each.
        filter: A SQL condition over the table's columns, applied before scores and ranks.
        columns: The columns to return; by default all without the searched ones, and those that are added.
        as_of: An instant of the timeline (14 or 17 digits), or a timestamp: what was visible then.
        weights: A weight for each column, 1 each by default. Below 0 it drives rows away; not with ``"rrf"``.
        fusion: ``"weighted"`` or ``"rrf"``.
        normalize: Whether each column's scores are brought to 0 … 1 first, by the least and the largest of all rows.
        execution: ``"local"`` on the driver, ``"distributed"`` on the executors, ``"auto"`` by size.
        timeout: How long the search may take: a text such as ``"30s"``, or a number of milliseconds; 0 for no limit.

    Returns:
        A lazy DataFrame, descending by ``score``, with ``_distance_<column>`` for each searched column, ``score`` and
        ``_rank`` (from 1). The vectors can be selected too. The snapshot is chosen when the DataFrame is first run.

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
    )
    found = frame_of(spark, hybrid_relation(checked, probes_of(checked, as_probes(queries, len(checked.columns)))))
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
) -> DataFrame:
    """Find the k best rows of a table by several vector columns together, for each row of a DataFrame of queries.

    Args:
        spark: A registered session.
        table: As for `hybrid_search`.
        search_columns: As for `hybrid_search`.
        queries: A DataFrame or the name of a table.
        query_columns: The column of it that holds the query of each search column, dense for dense, sparse for sparse.
        k: How many rows each query row gets, 1 to 100,000.
        metrics: As for `hybrid_search`.
        filter: As for `hybrid_search`.
        columns: The columns to return; all by default.
        as_of: As for `hybrid_search`.
        weights: As for `hybrid_search`.
        fusion: As for `hybrid_search`.
        normalize: As for `hybrid_search`.
        execution: As for `hybrid_search`.
        timeout: As for `hybrid_search`, for each batch of query rows that is searched together.

    Returns:
        A lazy DataFrame: the table's columns without the searched ones, the queries' columns without theirs (clashing
        names with the prefix ``_hudi_query_``), ``_hudi_query_index``, ``_distance_<column>`` for each searched column,
        ``score`` and ``_rank``. Query rows that lack one of the vectors give no rows.

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
    )
    asking = HybridQueries.of(target_of(spark, queries), query_columns, checked)
    found = frame_of(spark, hybrid_batch_plan(checked, asking))
    return chosen(found, columns)


def as_probes(value: Any, columns: int) -> list[Any]:
    """A query for each column.

    Raises:
        InvalidTypeError: They are no list.
        InvalidArgumentError: They are too few or many.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, (Sequence, np.ndarray)):
        raise InvalidTypeError(f"queries must be a list with a query for each search column, not {kind_of(value)}")
    if len(value) != columns:
        raise InvalidArgumentError(f"{len(value)} queries were given for {columns} search columns; give one for each")
    return list(value)
