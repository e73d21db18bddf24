"""Chosen rows of a merged slice, found by record key and commit sequence number.

hudi-rs has no way to read chosen rows: the slice is merged again. Columns of plain values are therefore kept whole,
so that a search that is repeated does not merge the slice each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_vector.read.spec import TIE_COLUMNS

__all__ = ["Asked", "KeptColumns", "is_small", "select_rows"]

_KEY, _, _SEQNO = TIE_COLUMNS


def is_small(kind: pa.DataType) -> bool:
    """Whether a column of this type is kept whole: numbers, times and text, not bytes and nested values."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


class Asked:
    """Rows that are looked for.

    Args:
        keys: A table with the columns of `TIE_COLUMNS`; a row may be asked for twice.
    """

    def __init__(self, keys: pa.Table) -> None:
        self._pairs = _pairs(keys)
        self._places = {pair: place for place, pair in enumerate(dict.fromkeys(self._pairs))}
        self._keys = pc.unique(keys.column(_KEY))

    def __len__(self) -> int:
        return len(self._places)

    @property
    def order(self) -> pa.Array:
        """The place of each asked row among the distinct ones."""
        return pa.array([self._places[pair] for pair in self._pairs])

    def find(self, rows: pa.Table | pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Which of some rows are asked for, and their places."""
        near = np.flatnonzero(np.asarray(pc.is_in(rows.column(_KEY), value_set=self._keys)))
        if not len(near):
            return near, []
        pairs = _pairs(rows.select([_KEY, _SEQNO]).take(pa.array(near)))
        hits = [
            (row, self._places[pair]) for row, pair in zip(near.tolist(), pairs, strict=True) if pair in self._places
        ]
        return np.array([row for row, _ in hits], np.int64), [place for _, place in hits]


def _pairs(rows: pa.Table | pa.RecordBatch) -> list[tuple[object, object]]:
    return list(zip(rows.column(_KEY).to_pylist(), rows.column(_SEQNO).to_pylist(), strict=True))


def select_rows(
    asked: Asked, batches: Iterable[pa.Table | pa.RecordBatch], conformed: Callable[[Any], pa.Table]
) -> pa.Table | None:
    """The rows asked for, out of all rows of a slice.

    Args:
        asked: The rows that are looked for.
        batches: All rows, with the columns of `TIE_COLUMNS`.
        conformed: Brings the wanted columns to the table's types.

    Returns:
        A row for each asked one, in that order; None if one is not there.
    """
    parts, places = [], []
    for batch in batches:
        rows, found = asked.find(batch)
        if len(rows):
            parts.append(conformed(batch.take(pa.array(rows))))
            places += found
    if len(set(places)) != len(asked):
        return None
    order = np.empty(len(asked), np.int64)
    order[np.array(places)] = np.arange(len(places))
    return pa.concat_tables(parts).take(pa.array(order)).take(asked.order)


@dataclass(frozen=True)
class KeptColumns:
    """Columns of a slice, whole, in one order of its rows; the key and sequence number among them."""

    rows: pa.Table

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.rows.nbytes)

    def has(self, fields: Sequence[pa.Field]) -> bool:
        """Whether all these columns are kept, in these types."""
        kept = {field.name: field.type for field in self.rows.schema}
        return all(kept.get(field.name) == field.type for field in fields)

    def select(self, asked: Asked, names: Sequence[str]) -> pa.Table | None:
        """The rows asked for; None if one is not there."""
        wanted = list(names)
        return select_rows(
            asked, [self.rows.select(dict.fromkeys([*wanted, *TIE_COLUMNS]))], lambda rows: rows.select(wanted)
        )
