"""Spark 4.2's ``nearestByJoin`` for earlier Sparks: its arguments over our join."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame

from hudi_vector.arguments import known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidFilterError, InvalidTypeError, UnknownColumnError, kind_of
from hudi_vector.spark.join.api import knn_join
from hudi_vector.spark.join.prepare import one_of

__all__ = ["nearest_by_join"]

# Spark's functions of vectors: the direction in which each ranks, and the metric that ranks alike.
_FUNCTIONS = {
    "vector_l2_distance": ("distance", "l2"),
    "vector_cosine_similarity": ("similarity", "cosine"),
    "vector_inner_product": ("similarity", "dot_product"),
}
_COLUMN = r"\s*(?:([lr])\s*\.\s*)?(`(?:[^`]|``)+`|\w+)\s*"
_CALL = re.compile(rf"\s*(\w+)\s*\({_COLUMN},{_COLUMN}\)\s*", re.IGNORECASE)
_RANK, _DISTANCE = "__hudi_vector_rank", "__hudi_vector_distance"


@known_arguments()
def nearest_by_join(
    left: DataFrame,
    other: DataFrame,
    ranking_expression: str | Column,
    num_results: int = 1,
    mode: str = "approx",
    direction: str = "distance",
    *,
    join_type: str = "inner",
) -> DataFrame:
    """Join every left row with the right rows that a function of two vectors ranks best, as Spark 4.2's function does.

    Args:
        left: The rows that ask.
        other: The rows that are found.
        ranking_expression: ``vector_l2_distance``, ``vector_cosine_similarity`` or ``vector_inner_product`` of a left
            and a right column, as SQL text or as a Column; ``l.`` and ``r.`` name the side where both have the column.
        num_results: How many right rows each left row gets, 1 to 100,000.
        mode: ``"approx"`` may use an index that misses rows, ``"exact"`` does not.
        direction: ``"distance"`` puts the smallest first, ``"similarity"`` the largest; as the function ranks.
        join_type: ``"inner"``, or ``"left_outer"`` to keep left rows without a match.

    Returns:
        A DataFrame of both sides' columns; right ones whose name the left side has too get the prefix ``right_``.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        InvalidFilterError: The expression is another one; `crossJoin` and `row_number` rank by any expression.
        InvalidTypeError: An argument is of the wrong type.

    Example:
        >>> hv.nearest_by_join(users, products, "vector_l2_distance(taste, embedding)", 3).count()
        6
    """
    for side, name in ((left, "left"), (other, "other")):
        if not isinstance(side, DataFrame):
            raise InvalidTypeError(f"{name} must be a DataFrame, not {kind_of(side)}; knn_join takes names too")
    chosen = {"approx": "approximate", "exact": "exact"}[one_of(mode, "mode", ("approx", "exact"))]
    metric, names = _ranking(
        left, other, ranking_expression, one_of(direction, "direction", ("distance", "similarity"))
    )
    found = knn_join(
        left, other, *names, num_results,
        metric=metric, mode=chosen, join_type=join_type, rank_column=_RANK, distance_column=_DISTANCE,
    )  # fmt: skip
    return found.drop(_RANK, _DISTANCE)


def _ranking(left: DataFrame, right: DataFrame, expression: Any, direction: str) -> tuple[str, tuple[str, str]]:
    """Return the metric of a ranking expression, and the names of its left and its right column."""
    text = expression if isinstance(expression, str) else str(expression._jc) if isinstance(expression, Column) else ""
    call = _CALL.fullmatch(text)
    if call is None or call[1].lower() not in _FUNCTIONS:
        raise InvalidFilterError(
            f"ranking_expression must be {', '.join(_FUNCTIONS)} of a left and a right column, not {expression!r}; "
            "rank by other expressions with crossJoin and row_number"
        )
    ranks_by, metric = _FUNCTIONS[call[1].lower()]
    if ranks_by != direction:
        raise InvalidArgumentError(f"{call[1]} ranks by {ranks_by}; give direction='{ranks_by}', not '{direction}'")
    names: dict[str, str] = {}
    for said, quoted in (call.group(2, 3), call.group(4, 5)):
        name = quoted[1:-1].replace("``", "`") if quoted.startswith("`") else quoted
        sides = [(side, frame) for side, frame in (("l", left), ("r", right)) if (said or side).lower() == side]
        having = {side: own for side, frame in sides for own in frame.columns if own.lower() == name.lower()}
        if not having:
            raise UnknownColumnError.of(name, [c for _, frame in sides for c in frame.columns], "the sides of the join")
        if len(having) > 1:
            raise InvalidFilterError(f"'{name}' in the ranking expression is of both sides; write l.{name} or r.{name}")
        names |= having
    if len(names) < 2:
        raise InvalidFilterError(f"the ranking expression {text!r} names two columns of one side; name one of each")
    return metric, (names["l"], names["r"])
