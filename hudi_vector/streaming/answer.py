"""The output rows of a streaming search: the asking rows joined with the rows found for them."""

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
    """The rows found: the number of the asking row, the search's numbers, and columns of the table, one entry per hit.

    `numbers` holds distances, scores and ranks under their output names.
    """

    row: npt.NDArray[np.int64]
    numbers: pa.Table
    rows: pa.Table


def joined(answers: Sequence[Answer], fields: Sequence[pa.Field], numbers: Sequence[pa.Field]) -> Answer:
    """Concatenate answers to different rows, ordered by asking row.

    `fields` are the table columns in the answers and `numbers` the search's numbers; they give the columns of an answer
    without rows.
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
    """Return the output rows as a table of `fields`, in the order of the asking rows, nearest first.

    `columns` name the side each output column comes from: ``query``, ``corpus`` or ``added``. With `outer`, an asking
    row without hits appears once, with NULLs.
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
