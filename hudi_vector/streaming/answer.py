"""The rows that leave a streaming search: the rows that asked beside what was found for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_vector.query.batch_rows import Column
from hudi_vector.read.conform import conform

__all__ = ["Answer", "assembled", "joined"]


@dataclass(frozen=True)
class Answer:
    """Rows found: for each the row that asked, what the search says of it, and columns of the table.

    `numbers` are distances, scores and ranks by the names they have in the output.
    """

    row: npt.NDArray[np.int64]
    numbers: pa.Table
    rows: pa.Table


def joined(answers: Sequence[Answer], fields: Sequence[pa.Field], numbers: Sequence[pa.Field]) -> Answer:
    """Answers to different rows as one, by the row that asked.

    Args:
        answers: The answers.
        fields: The columns of the table in them.
        numbers: What searches say of the rows.

    Returns:
        All their rows.
    """
    if not answers:
        nothing = pa.table({})
        return Answer(np.empty(0, np.int64), conform(nothing, list(numbers)), conform(nothing, list(fields)))
    row = np.concatenate([answer.row for answer in answers])
    order = np.argsort(row, kind="stable")
    taken = pa.array(order)
    return Answer(
        row[order],
        pa.concat_tables([answer.numbers for answer in answers]).take(taken),
        pa.concat_tables([answer.rows for answer in answers]).take(taken) if fields else pa.table({}),
    )


def assembled(
    columns: Sequence[Column], fields: Sequence[pa.Field], asking: pa.Table, answer: Answer, outer: bool
) -> pa.Table:
    """The output rows, in the order of the rows that asked, the nearest first.

    Args:
        columns: The output's columns; sides are ``query``, ``corpus`` and ``added``.
        fields: Their types.
        asking: The rows that asked.
        answer: What was found, by the row that asked.
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
    out: list[Any] = []
    for column in columns:
        if column.side == "query":
            out.append(asking.column(column.source).take(taken))
        else:
            held = answer.rows if column.side == "corpus" else answer.numbers
            out.append(held.column(column.source).take(chosen))
    return conform(pa.table(out, names=[column.name for column in columns]), list(fields))
