"""Sparse vectors: blocks of rows sorted by term, queries, and exact distances.

The sum of a row always runs over its own entries in ascending order of their indices. So a distance has the same bits
in every file layout, whatever other rows are in the block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hudi_vector.kernels.metrics import METRICS, Floats, Metric, exact_distances
from hudi_vector.kernels.topk import Ints

__all__ = ["Indices", "SparseBlock", "SparseVector", "make_sparse_block", "sparse_distances"]

Indices = npt.NDArray[Any]
"""Indices in ascending order: integers as int64, or texts as an object array of their UTF-8 bytes."""

# Sums of squares below this may have lost digits.
_TINY = 1e-290
_TEXT_BYTES = 64


@dataclass(frozen=True)
class SparseVector:
    """One sparse vector: distinct ascending indices and their values, both of shape (s,)."""

    indices: Indices
    values: Floats


@dataclass(frozen=True)
class SparseBlock:
    """Sparse rows to search, with entries sorted by index, then by row.

    Attributes:
        terms: The distinct indices, ascending, shape (t,).
        begins: Where the entries of each term begin, shape (t + 1,): ``terms[i]`` has the entries
            ``begins[i]:begins[i + 1]`` of `rows` and `values`.
        rows: The row number of each entry, shape (e,).
        values: The value of each entry, shape (e,).
        positions: Row positions in the file slice, shape (n,).
        squares: Squared norms, shape (n,).
    """

    terms: Indices
    begins: Ints
    rows: Ints
    values: Floats
    positions: Ints
    squares: Floats

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def nbytes(self) -> int:
        """Return the size in bytes; each text is counted with a fixed estimate."""
        arrays = (self.terms, self.begins, self.rows, self.values, self.positions, self.squares)
        texts = _TEXT_BYTES * len(self.terms) if self.terms.dtype == object else 0
        return int(sum(array.nbytes for array in arrays)) + texts

    @cached_property
    def odd(self) -> npt.NDArray[np.bool_]:
        """Return a mask, shape (n,), of the non-zero rows whose squared norm is outside the safe range of float64."""
        unsafe = ~((self.squares >= _TINY) & np.isfinite(self.squares))
        if unsafe.any():
            filled = np.zeros(len(self), np.bool_)
            filled[self.rows[self.values != 0]] = True
            unsafe &= filled
        return unsafe

    def vectors(self) -> tuple[SparseVector, ...]:
        """Return each row as a separate vector, in row order."""
        order = np.argsort(self.rows, kind="stable")
        index = np.repeat(self.terms, np.diff(self.begins))[order]
        ends = np.cumsum(np.bincount(self.rows, minlength=len(self)))[:-1]
        parts = zip(np.split(index, ends), np.split(self.values[order], ends), strict=True)
        return tuple(SparseVector(*part) for part in parts) if len(self) else ()

    def select(self, mask: npt.NDArray[np.bool_]) -> SparseBlock:
        """Return the rows where the mask, shape (n,), is True."""
        if mask.all():
            return self
        kept = mask[self.rows]
        numbers = np.cumsum(mask) - 1
        counts = np.add.reduceat(kept, self.begins[:-1], dtype=np.int64) if len(self.terms) else np.empty(0, np.int64)
        used = counts > 0
        begins = np.concatenate(([0], np.cumsum(counts[used])))
        rows = numbers[self.rows[kept]]
        return SparseBlock(self.terms[used], begins, rows, self.values[kept], self.positions[mask], self.squares[mask])


def make_sparse_block(
    row: Ints, index: Ints, value: Floats, positions: Ints, texts: Indices | None = None
) -> tuple[SparseBlock, int]:
    """Return a block without the rows that have NaN, infinite or repeated entries, and the number of rows left out.

    Args:
        row: The row number of each entry, from 0, shape (e,).
        index: The index of each entry, shape (e,).
        value: The value of each entry, shape (e,).
        positions: Row positions in the file slice, shape (n,).
        texts: The array of ascending texts that `index` points into; None if `index` holds the indices themselves.
    """
    order = np.lexsort((row, index))
    row, index, value = row[order], index[order], value[order]
    begins_term = np.concatenate(([True], index[1:] != index[:-1])) if len(index) else np.empty(0, np.bool_)
    repeated = np.zeros(len(row), np.bool_)
    repeated[1:] = ~begins_term[1:] & (row[1:] == row[:-1])
    starts = np.flatnonzero(begins_term)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares = np.bincount(row, weights=value * value, minlength=len(positions))
    terms = index[starts] if texts is None else texts[index[starts]]
    block = SparseBlock(terms, np.append(starts, len(row)), row, value, positions, squares.astype(np.float64))
    wrong = row[repeated | ~np.isfinite(value)]
    if not len(wrong):
        return block, 0
    right = np.ones(len(positions), np.bool_)
    right[wrong] = False
    return block.select(right), int((~right).sum())


def sparse_distances(block: SparseBlock, query: SparseVector, metric: str) -> Floats:
    """Return the float64 distances, shape (n,), of sparse rows to one sparse query; a missing index has the value 0.

    `metric` is a name in `hudi_vector.kernels.metrics.METRICS`.

    Example:
        >>> block, _ = make_sparse_block(np.array([0, 0]), np.array([7, 3]), np.array([2.0, 1.0]), np.array([0]))
        >>> sparse_distances(block, SparseVector(np.array([7, 9]), np.array([3.0, 1.0])), "dot_product")
        array([-6.])
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        ask = float(np.add.reduce(query.values * query.values)) if len(query.values) else 0.0
        if METRICS[metric].sparse == "differences":
            distances, lost = _by_differences(block, query)
        else:
            distances, lost = _by_products(block, query, METRICS[metric], ask)
    if query.values.any() and not (_TINY <= ask < np.inf):
        lost = np.ones(len(block), np.bool_)
    if lost.any():
        distances[lost] = _one_by_one(block, query, metric, np.flatnonzero(lost))
    return distances


def _by_products(
    block: SparseBlock, query: SparseVector, metric: Metric, ask: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    rows, products = _products(block, query)
    dots = np.bincount(rows, weights=products, minlength=len(block)).astype(np.float64)
    lost = block.odd | ~np.isfinite(dots)
    return metric.of_products(dots, np.sqrt(block.squares) * np.sqrt(ask)), lost


def _products(block: SparseBlock, query: SparseVector) -> tuple[Ints, Floats]:
    """Return row numbers and products of the entries whose index the query has too, in ascending order of index."""
    slots, wanted = _named(block, query)
    if not len(slots):
        return np.empty(0, np.int64), np.empty(0, np.float64)
    ranges = [slice(block.begins[slot], block.begins[slot + 1]) for slot in slots]
    values = [block.values[part] * value for part, value in zip(ranges, query.values[wanted], strict=True)]
    return np.concatenate([block.rows[part] for part in ranges]), np.concatenate(values)


def _named(block: SparseBlock, query: SparseVector) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the positions in `block.terms` of the shared indices, and a mask of which query indices are shared."""
    slots = np.searchsorted(block.terms, query.indices)
    wanted = np.zeros(len(slots), np.bool_)
    inside = slots < len(block.terms)
    wanted[inside] = block.terms[slots[inside]] == query.indices[inside]
    return slots[wanted], wanted


def _by_differences(block: SparseBlock, query: SparseVector) -> tuple[Floats, npt.NDArray[np.bool_]]:
    slots, wanted = _named(block, query)
    asked = np.zeros(len(block.terms))
    asked[slots] = query.values[wanted]
    difference = block.values - np.repeat(asked, np.diff(block.begins))
    squares = np.bincount(block.rows, weights=difference * difference, minlength=len(block)).astype(np.float64)
    place = dict(zip(np.flatnonzero(wanted).tolist(), slots.tolist(), strict=True))
    for number, value in enumerate(query.values):
        lacking = np.ones(len(block), np.bool_)
        if number in place:
            slot = place[number]
            lacking[block.rows[block.begins[slot] : block.begins[slot + 1]]] = False
        squares[lacking] += value * value
    return np.sqrt(squares), ~np.isfinite(squares) | (squares < _TINY)


def _one_by_one(block: SparseBlock, query: SparseVector, metric: str, wanted: Ints) -> Floats:
    """Compute distances with the dense kernels over the union of each row's and the query's indices.

    The dense kernels scale vectors whose squares leave the range of float64. `wanted` holds row numbers.
    """
    entries = np.flatnonzero(np.isin(block.rows, wanted))
    entries = entries[np.argsort(block.rows[entries], kind="stable")]
    rows = block.rows[entries]
    term = np.repeat(block.terms, np.diff(block.begins))
    out = np.empty(len(wanted))
    for place, row in enumerate(wanted):
        here = entries[np.searchsorted(rows, row) : np.searchsorted(rows, row, "right")]
        union = np.union1d(term[here], query.indices)
        mine, asked = np.zeros((1, len(union))), np.zeros(len(union))
        mine[0, np.searchsorted(union, term[here])] = block.values[here]
        asked[np.searchsorted(union, query.indices)] = query.values
        if len(union):
            out[place] = exact_distances(mine, asked, metric)[0]
        else:
            out[place] = METRICS[metric].of_nothing
    return out
