"""Selected rows of a merged file slice, found by record key and commit sequence number.

hudi-rs cannot read selected rows, so the slice is merged again. Whole columns of plain values are therefore cached, so
that a repeated search does not merge the slice each time.
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
    """Return True if whole columns of this type are cached: numbers, times and texts, not bytes and nested values."""
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


class Asked:
    """The rows to find, given by a table with the columns of `TIE_COLUMNS`; a row may occur more than once.

    The length is the number of distinct rows.
    """

    def __init__(self, keys: pa.Table) -> None:
        self._pairs = _pairs(keys)
        self._places = {pair: place for place, pair in enumerate(dict.fromkeys(self._pairs))}
        self._keys = pc.unique(keys.column(_KEY))

    def __len__(self) -> int:
        return len(self._places)

    @property
    def order(self) -> pa.Array:
        """Return the index of each row to find among the distinct rows."""
        return pa.array([self._places[pair] for pair in self._pairs])

    def find(self, rows: pa.Table | pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Return the indices in `rows` of the rows to find, and the index of each among the distinct rows."""
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
    """Return the rows to find, in their order, out of all rows of a file slice; None if one is missing.

    `batches` have the columns of `TIE_COLUMNS`; `conformed` selects the wanted columns and converts their types.
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
    """Whole columns of a file slice with its rows in one order, including the key and the sequence number."""

    rows: pa.Table

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns."""
        return int(self.rows.nbytes)

    def has(self, fields: Sequence[pa.Field]) -> bool:
        """Return True if all these columns are present in these types."""
        kept = {field.name: field.type for field in self.rows.schema}
        return all(kept.get(field.name) == field.type for field in fields)

    def select(self, asked: Asked, names: Sequence[str]) -> pa.Table | None:
        """Return columns of the rows to find, in their order; None if a row is missing."""
        wanted = list(names)
        return select_rows(
            asked, [self.rows.select(dict.fromkeys([*wanted, *TIE_COLUMNS]))], lambda rows: rows.select(wanted)
        )
