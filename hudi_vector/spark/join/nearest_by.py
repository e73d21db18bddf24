"""Spark 4.2's ``nearestByJoin`` for earlier Sparks: its arguments, and its functions as metrics, over `knn_join`."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidFilterError, InvalidTypeError, UnknownColumnError, kind_of
from hudi_vector.spark.join.api import knn_join
from hudi_vector.spark.join.prepare import one_of

__all__ = ["nearest_by_join"]

_METRICS = {"vector_l2_distance": "l2", "vector_cosine_similarity": "cosine", "vector_inner_product": "dot_product"}
_COLUMN = r"\s*(?:([lr])\s*\.\s*)?(`(?:[^`]|``)+`|\w+)\s*"
_CALL = re.compile(rf"\s*(\w+)\s*\({_COLUMN},{_COLUMN}\)\s*", re.IGNORECASE)
_OWN: Any = {"rank_column": "__hudi_vector_rank", "distance_column": "__hudi_vector_distance"}


@known_arguments()
def nearest_by_join(
    left: DataFrame, other: DataFrame, ranking_expression: str | Column, num_results: int = 1, mode: str = "approx",
    direction: str = "distance", *, join_type: str = "inner",
) -> DataFrame:  # fmt: skip
    """Join every left row with the right rows that a function of two vectors ranks best, as Spark 4.2's function does.

    Args:
        left: The rows that ask.
        other: The rows that are found.
        ranking_expression: ``vector_l2_distance``, ``vector_cosine_similarity`` or ``vector_inner_product`` of a left
            and a right column, as SQL text or as a Column; ``l.`` and ``r.`` name the side where both have the column.
        num_results: The number of right rows for each left row, 1 to 100,000.
        mode: ``"approx"`` may use an index that misses rows, ``"exact"`` does not.
        direction: ``"distance"`` puts the smallest first, ``"similarity"`` the largest; as the function ranks.
        join_type: ``"inner"``, or ``"left_outer"`` to keep left rows without a match.

    Returns:
        A DataFrame of both sides' columns; right ones whose name the left side has too get the prefix ``right_``.

    Raises:
        InvalidArgumentError: An argument is not allowed, or the ranking expression is another one.

    Example:
        >>> hv.nearest_by_join(users, products, "vector_l2_distance(taste, embedding)", 3).count()
        6
    """
    for side, name in ((left, "left"), (other, "other")):
        if not isinstance(side, DataFrame):
            raise InvalidTypeError(f"{name} must be a DataFrame, not {kind_of(side)}; knn_join takes names too")
    how = "exact" if one_of(mode, "mode", ("approx", "exact")) == "exact" else "approximate"
    wanted = one_of(direction, "direction", ("distance", "similarity"))
    call = _CALL.fullmatch(str(getattr(ranking_expression, "_jc", ranking_expression)))
    if call is None or call[1].lower() not in _METRICS:
        raise InvalidFilterError(
            f"ranking_expression must be {', '.join(_METRICS)} of a left and a right column, not "
            f"{ranking_expression!r}; rank by other expressions with crossJoin and row_number"
        )
    metric = _METRICS[call[1].lower()]
    if (ranks_by := "distance" if metric == "l2" else "similarity") != wanted:
        raise InvalidArgumentError(f"{call[1]} ranks by {ranks_by}; give direction='{ranks_by}', not '{wanted}'")
    on = _named(call[2], call[3], left, other) | _named(call[4], call[5], left, other)
    if len(on) < 2:
        raise InvalidFilterError(f"the ranking expression {call[0]!r} names two columns of one side; name one of each")
    found = knn_join(left, other, on["l"], on["r"], num_results, metric=metric, mode=how, join_type=join_type, **_OWN)
    return found.drop(*_OWN.values())


def _named(side: str | None, quoted: str, left: DataFrame, right: DataFrame) -> dict[str, str]:
    """Return the side that has a column, "l" or "r", with the column's name there; `side` is None if not given."""
    name = quoted[1:-1].replace("``", "`") if quoted.startswith("`") else quoted
    known = {of: frame.columns for of, frame in (("l", left), ("r", right)) if (side or of).lower() == of}
    having = {of: own for of, columns in known.items() for own in columns if own.lower() == name.lower()}
    if not having:
        raise UnknownColumnError.of(name, [own for c in known.values() for own in c], "the sides of the join")
    if len(having) > 1:
        raise InvalidFilterError(f"'{name}' in the ranking expression is of both sides; write l.{name} or r.{name}")
    return having
