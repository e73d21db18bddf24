"""The function ``hv.search_changes``, which compares a search at two points of a table's history."""

from __future__ import annotations

import os
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, UnsupportedTableError
from hudi_vector.query.changes.compare import changes_between
from hudi_vector.spark.search.api import search

__all__ = ["CHANGE_SCHEMA", "search_changes"]

_KEY, _PARTITION = "_hoodie_record_key", "_hoodie_partition_path"
CHANGE_SCHEMA = (
    f"change STRING, {_KEY} STRING, {_PARTITION} STRING, from_rank INT, to_rank INT, "
    "from_distance DOUBLE, to_distance DOUBLE"
)


@known_arguments()
def search_changes(
    spark: SparkSession,
    table: str | os.PathLike[str],
    column: str,
    query: Any,
    k: int = 10,
    *,
    from_instant: Any = None,
    to_instant: Any = None,
    metric: str = "cosine",
    filter: str | None = None,  # noqa: A002 - the name SQL gives it
    max_distance: float | None = None,
) -> DataFrame:
    """Find the rows that entered or left the k nearest, or changed rank, between two points of a table's history.

    The searches at both points are exact.

    Args:
        spark: A registered session.
        table: A catalog name or path of a Hudi table.
        column: A VECTOR column, or an array of FLOAT, DOUBLE or TINYINT.
        query: The query vector, as for `search`.
        k: The number of rows, 1 to 100,000.
        from_instant: The earlier point: an instant of the timeline (14 or 17 digits) or a timestamp; the table is
            searched as it was visible then.
        to_instant: The later point, in the same forms; now by default.
        metric: As for `search`.
        filter: As for `search`.
        max_distance: As for `search`.

    Returns:
        A row for each row that changed: ``change`` (``entered``, ``left``, or ``moved`` for another rank or distance),
        its record key and partition path, ``from_rank``, ``to_rank`` (from 1), ``from_distance`` and ``to_distance``.
        The order is by the later rank; rows that left come last.

    Raises:
        InvalidArgumentError: `from_instant` is missing, or another argument is not allowed.
        InstantNotAvailableError: The table does not keep one of the points, or does not keep it any more.
        UnsupportedTableError: The table stores no record keys in its rows.

    Example:
        >>> written = spark.table("products").first()["_hoodie_commit_time"]
        >>> hv.search_changes(spark, "products", "embedding", q, from_instant=written).count()
        0
    """
    if from_instant is None:
        raise InvalidArgumentError("from_instant is missing: give an instant of the timeline, or a timestamp")

    def ranked(point: Any) -> dict[tuple[str, str], tuple[int, float]]:
        found = search(
            spark, table, column, query, k, metric=metric, filter=filter, max_distance=max_distance, as_of=point,
            mode="auto", recall_target=1.0,
        )  # fmt: skip
        try:
            named = found.select(_KEY, _PARTITION, "_distance")
        except AnalysisException:
            raise UnsupportedTableError(
                f"'{table}' keeps no {_KEY} in its rows, so that a row cannot be recognised at another instant"
            ) from None
        rows = named.collect()
        # Rows come in order of rank; a column named _rank may belong to the table.
        return {(row[0], row[1]): (rank, row[2]) for rank, row in enumerate(rows, 1)}

    return spark.createDataFrame(list(changes_between(ranked(from_instant), ranked(to_instant))), CHANGE_SCHEMA)
