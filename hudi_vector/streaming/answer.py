"""The rows that leave a streaming search: the rows that asked beside what was found for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.read.conform import conform
from hudi_vector.search.batch_rows import Column

__all__ = ["Answer", "assembled", "joined", "scores"]


@dataclass(frozen=True)
class Answer:
    """Rows found: for each the row that asked, its distance, its rank from 1, and columns of the table."""

    row: npt.NDArray[np.int64]
    distance: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int64]
    rows: pa.Table


def joined(answers: Sequence[Answer], fields: Sequence[pa.Field]) -> Answer:
    """Answers to different rows as one, by the row that asked.

    Args:
        answers: The answers.
        fields: The columns of the table in them.

    Returns:
        All their rows.
    """
    if not answers:
        nothing = conform(pa.table({}), list(fields))
        return Answer(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), nothing)
    row = np.concatenate([answer.row for answer in answers])
    order = np.argsort(row, kind="stable")
    return Answer(
        row[order],
        np.concatenate([answer.distance for answer in answers])[order],
        np.concatenate([answer.rank for answer in answers])[order],
        pa.concat_tables([answer.rows for answer in answers]).take(pa.array(order)) if fields else pa.table({}),
    )


def scores(distance: npt.NDArray[np.float64], metric: str) -> npt.NDArray[np.float64]:
    """How alike vectors are, larger for nearer ones.

    Args:
        distance: Distances of the metric.
        metric: A metric's name.

    Returns:
        For cosine 1 minus the distance, for dot_product the product, for l2 1 / (1 + distance).

    Example:
        >>> scores(np.array([0.25, 1.0]), "cosine").tolist()
        [0.75, 0.0]
    """
    if metric == "cosine":
        return np.asarray(1.0 - distance)
    if metric == "dot_product":
        return np.asarray(0.0 - distance)
    return np.asarray(1.0 / (1.0 + distance))


def assembled(
    columns: Sequence[Column],
    fields: Sequence[pa.Field],
    asking: pa.Table,
    answer: Answer,
    metric: str,
    outer: bool,
) -> pa.Table:
    """The output rows, in the order of the rows that asked, the nearest first.

    Args:
        columns: The output's columns; sides are ``query``, ``corpus``, ``score``, ``distance`` and ``rank``.
        fields: Their types.
        asking: The rows that asked.
        answer: What was found, by the row that asked.
        metric: The metric.
        outer: Whether a row that found nothing stays, once.

    Returns:
        A table of the fields.
    """
    left, right = answer.row, np.arange(len(answer.row))
    found = np.ones(len(left), np.bool_)
    if outer:
        alone = np.setdiff1d(np.arange(asking.num_rows), answer.row)
        left = np.concatenate([left, alone])
        order = np.argsort(left, kind="stable")
        right = np.concatenate([right, np.zeros(len(alone), np.int64)])[order]
        found = np.concatenate([found, np.zeros(len(alone), np.bool_)])[order]
        left = left[order]
    taken, chosen = pa.array(left), pa.array(right, mask=~found)
    numbers = {
        "score": pa.array(scores(answer.distance, metric)),
        "distance": pa.array(answer.distance),
        "rank": pa.array(answer.rank.astype(np.int32)),
    }
    out: list[Any] = []
    for column in columns:
        if column.side == "query":
            out.append(asking.column(column.source).take(taken))
        else:
            held = answer.rows.column(column.source) if column.side == "corpus" else numbers[column.side]
            out.append(held.take(chosen))
    return conform(pa.table(out, names=[column.name for column in columns]), list(fields))
