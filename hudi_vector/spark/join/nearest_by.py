"""Spark 4.2's ``nearestByJoin`` for earlier Sparks: its arguments, our join where it ranks by a distance of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it
from pyspark.sql.types import MapType

from hudi_vector.arguments import as_k, known_arguments
from hudi_vector.errors import InvalidArgumentError, InvalidFilterError, InvalidTypeError, UnknownColumnError
from hudi_vector.schema import quoted, quoted_if_needed
from hudi_vector.spark.catalyst.gateway import JavaObject, first_sentence, node_name
from hudi_vector.spark.join.api import knn_join
from hudi_vector.spark.join.prepare import one_of, require_distinct
from hudi_vector.spark.join.request import right_names

__all__ = ["nearest_by_join"]

# Spark's functions of vectors, and what ranks rows as each of them does.
_METRICS = {
    ("vector_l2_distance", "distance"): "l2",
    ("vector_cosine_similarity", "similarity"): "cosine",
    ("vector_inner_product", "similarity"): "dot_product",
}
_MODES = {"approx": "approximate", "exact": "exact"}
_ID, _SCORE, _RANK, _DISTANCE = (f"__hudi_vector_{name}" for name in ("left", "score", "rank", "distance"))


@dataclass(frozen=True)
class _Vectors:
    """A ranking that is a distance of a left and a right vector."""

    left: str
    right: str
    metric: str


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
    """The best right rows of every left row by an expression, as Spark 4.2's ``nearestByJoin`` gives them.

    Args:
        left: The rows that ask.
        other: The rows that are found.
        ranking_expression: What ranks them, as SQL text (``l.`` names the left side, ``r.`` the right) or a Column.
            ``vector_l2_distance`` by distance, ``vector_cosine_similarity`` and ``vector_inner_product`` by similarity,
            of a left and a right column, are joined as `knn_join` does; anything else is computed for every pair.
        num_results: How many right rows each left row gets, 1 to 100,000.
        mode: ``"approx"`` may use an index that misses rows, ``"exact"`` does not.
        direction: ``"distance"`` puts the smallest first, ``"similarity"`` the largest.
        join_type: ``"inner"``, or ``"left_outer"`` to keep left rows without a match.

    Returns:
        A DataFrame of both sides' columns; right ones whose name the left side has too get the prefix ``right_``. Rows
        for which the expression is NULL match nothing.

    Raises:
        InvalidArgumentError: An argument is not allowed.
        InvalidFilterError: The expression is not valid.
        InvalidTypeError: An argument is of the wrong type.

    Example:
        >>> hv.nearest_by_join(users, products, "vector_l2_distance(taste, embedding)", 3).count()
        6
    """
    for side, name in ((left, "left"), (other, "other")):
        if not isinstance(side, DataFrame):
            raise InvalidTypeError(f"{name} must be a DataFrame, not {side!r}; hudi_vector.knn_join takes names too")
        require_distinct(side, f"the {name} side")
        if side.isStreaming:
            raise InvalidArgumentError(f"the {name} side is a stream; use it batch by batch, in foreachBatch")
    k = as_k(num_results)
    chosen = _MODES[one_of(mode, "mode", tuple(_MODES))]
    order = one_of(direction, "direction", ("distance", "similarity"))
    kind = one_of(join_type, "join_type", ("inner", "left_outer"))
    vectors = _as_vectors(left, other, _parsed(left.sparkSession, ranking_expression), order)
    if vectors is None:
        return _ranked(left, other, ranking_expression, k, order, kind)
    found = knn_join(
        left,
        other,
        vectors.left,
        vectors.right,
        k,
        metric=vectors.metric,
        join_type=kind,
        mode=chosen,
        rank_column=_RANK,
        distance_column=_DISTANCE,
    )
    return found.drop(_RANK, _DISTANCE)


def _parsed(spark: SparkSession, expression: Any) -> JavaObject:
    if isinstance(expression, Column):
        return expression._jc.expr()
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidTypeError(f"ranking_expression must be SQL text or a Column, not {expression!r}")
    try:
        return spark._jsparkSession.sessionState().sqlParser().parseExpression(expression)
    except (Py4JJavaError, PySparkException) as refused:
        raise InvalidFilterError(
            f"the ranking expression {expression!r} does not parse: {first_sentence(refused)}"
        ) from None


def _as_vectors(left: DataFrame, right: DataFrame, expression: JavaObject, order: str) -> _Vectors | None:
    """The vectors that are compared, None where the ranking is something else."""
    while node_name(expression) == "Alias":
        expression = expression.child()
    if node_name(expression) != "UnresolvedFunction":
        return None
    metric = _METRICS.get((str(expression.nameParts().mkString(".")).lower(), order))
    arguments = expression.arguments()
    if metric is None or arguments.length() != 2:
        return None
    sides = dict(filter(None, (_column(left, right, arguments.apply(i)) for i in range(2))))
    return _Vectors(sides["left"], sides["right"], metric) if len(sides) == 2 else None


def _column(left: DataFrame, right: DataFrame, expression: JavaObject) -> tuple[str, str] | None:
    """The side and the name of a column."""
    kind = node_name(expression)
    if kind == "AttributeReference":
        number = int(expression.exprId().id())
        return next(((side, str(expression.name())) for side, ids in _ids(left, right) if number in ids), None)
    if kind != "UnresolvedAttribute":
        return None
    parts = expression.nameParts()
    name = str(parts.apply(parts.length() - 1))
    said = str(parts.apply(0)).lower() if parts.length() == 2 else ""
    if parts.length() > 2 or said not in ("", "l", "r"):
        return None
    sides = [("left", left, "l"), ("right", right, "r")]
    holding = [
        (side, next(own for own in frame.columns if own.lower() == name.lower()))
        for side, frame, letter in sides
        if said in ("", letter) and name.lower() in {own.lower() for own in frame.columns}
    ]
    if len(holding) > 1:
        wanted = quoted_if_needed(name)
        raise InvalidFilterError(
            f"the ranking expression names '{name}', a column of both sides; write l.{wanted} or r.{wanted}"
        )
    if not holding:
        raise UnknownColumnError.of(name, [*left.columns, *right.columns], "the sides of the join")
    return holding[0]


def _ids(left: DataFrame, right: DataFrame) -> list[tuple[str, set[int]]]:
    found = []
    for side, frame in (("left", left), ("right", right)):
        output = frame._jdf.queryExecution().analyzed().output()
        found.append((side, {int(output.apply(i).exprId().id()) for i in range(output.length())}))
    return found


def _ranked(left: DataFrame, right: DataFrame, expression: Any, k: int, order: str, kind: str) -> DataFrame:
    """Spark's way: the expression for every pair."""
    names = right_names(right.columns, {name.lower() for name in left.columns})
    asking = left.withColumn(_ID, F.monotonically_increasing_id())
    score = expression if isinstance(expression, Column) else F.expr(expression)
    try:
        pairs = asking.alias("l").crossJoin(right.alias("r")).withColumn(_SCORE, score)
    except (Py4JJavaError, PySparkException) as refused:
        raise InvalidFilterError(f"the ranking expression is not valid: {first_sentence(refused)}") from None
    best = F.col(_SCORE).asc() if order == "distance" else F.col(_SCORE).desc()
    ties = [
        F.col(quoted("r", f.name)).asc_nulls_first() for f in right.schema.fields if not isinstance(f.dataType, MapType)
    ]
    within = Window.partitionBy(_ID).orderBy(best, *ties)
    found = pairs.where(F.col(_SCORE).isNotNull()).withColumn(_RANK, F.row_number().over(within))
    found = found.where(F.col(_RANK) <= k)
    theirs = [F.col(quoted("r", own)).alias(name) for own, name in zip(right.columns, names, strict=True)]
    if kind == "inner":
        return found.select(*(F.col(quoted("l", name)) for name in left.columns), *theirs)
    kept = asking.join(found.select(F.col(_ID), *theirs), _ID, "left_outer")
    return kept.drop(_ID)
