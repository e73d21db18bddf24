"""The interface of an index view, and the candidates that it returns, for all kinds of indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hudi_vector.errors import InvalidArgumentError, number_of
from hudi_vector.index.kinds.model import Floats64, IndexModel
from hudi_vector.index.kinds.probe import Found
from hudi_vector.index.kinds.segment import FileFingerprint
from hudi_vector.kernels.topk import Ints
from hudi_vector.read.parquet.kept_footer import KeptFooter
from hudi_vector.read.parquet.page_table import PageTable

__all__ = [
    "FEW",
    "Allowed",
    "Candidates",
    "View",
    "bases_of",
    "bitmap_of",
    "bytes_of",
    "candidates_of",
    "fitting",
    "require_model",
    "usual_count",
]

Allowed = Sequence[npt.NDArray[np.bool_] | None] | None
"""For each segment, the rows of its base file that may be found: bool of shape (rows,), or None for all."""

FEW = 0.05
"""The share of rows up to which all rows that pass a filter are scored, whatever list they are in."""


@dataclass(frozen=True)
class Candidates:
    """Rows that may be among the nearest, one entry per (query, row), sorted by query.

    Rows without a code come first in each query, and then, if the view is `View.best_first`, those of an approximate
    search in the order of their codes' ranks.

    `segment` is the number of the joined segment, and `position` the row in that segment's base file. `given_up` are
    queries that exceeded the limit of candidates and have none here. `unseen` has a distance for each query that no
    other allowed row is below, minus infinity if none is known; None if no other row may be among the k nearest.
    """

    query: Ints
    segment: Ints
    position: Ints
    probed_lists: int
    scored_codes: int
    given_up: Ints
    unseen: Floats64 | None = None

    def __len__(self) -> int:
        return len(self.query)


class View(Protocol):
    """Segments of one model, joined in memory: the interface that all kinds of indexes have."""

    @property
    def model(self) -> IndexModel:
        """Return the model of all segments."""

    @property
    def row(self) -> npt.NDArray[Any]:
        """Return the rows that can be found, numbered across segments: segment s begins with row ``bases[s]``."""

    @property
    def bases(self) -> Ints:
        """Return the first row of each segment, followed by the number of all rows."""

    @property
    def pages(self) -> tuple[PageTable | None, ...]:
        """Return the page table of each segment's base file, or None for a segment without one."""

    @property
    def footers(self) -> tuple[KeptFooter | None, ...]:
        """Return what is kept of the footer of each segment's base file, or None for a segment without it."""

    @property
    def rows(self) -> int:
        """Return the number of rows of the segments' base files."""

    @property
    def vectors(self) -> int:
        """Return the number of rows that have a vector, with or without a code."""

    @property
    def nbytes(self) -> int:
        """Return the bytes held in memory."""

    @property
    def efforts(self) -> list[int]:
        """Return values of ``nprobes`` that are worth trying, ascending to one that probes everything."""

    @property
    def best_first(self) -> bool:
        """Return True if an approximate search for fewer candidates finds the first of those that one for more does."""

    def __len__(self) -> int:
        """Return the number of rows that have a code."""

    def need_rows(self) -> None:
        """Read the rows of all entries, if they are not in memory yet; a search with a filter needs them."""

    def cost_of(self, allowed: Allowed) -> int:
        """Return what it costs to have the codes of allowed rows, as a number of bytes that are read in sequence."""

    def spend(self, cost: int) -> None:
        """Add to what it cost so far to read vectors in place of codes; codes cost as much less."""

    def candidates(
        self,
        queries: npt.NDArray[Any],
        k: int,
        *,
        nprobes: int | None = None,
        candidates: int | None = None,
        certain: bool = True,
        allowed: Allowed = None,
        most: int | None = None,
    ) -> Candidates:
        """Return rows that may be among the k nearest of each query, all allowed rows if they are not more than k."""

    def without(self, segment: Ints, position: Ints) -> View:
        """Return a view for calibration in which the given query rows do not help to find themselves.

        Rows of segment -1 are not in the view.
        """

    @property
    def hidden(self) -> tuple[Ints, Ints]:
        """Return the segments and positions of the rows that `without` made impossible to find."""


def fitting(queries: npt.NDArray[Any], model: IndexModel) -> Floats64:
    """Return queries of shape (m, d), or (d,) for one, as float64 of shape (m, d).

    Raises InvalidArgumentError if they have another dimension than the model.
    """
    rows: Floats64 = np.atleast_2d(np.asarray(queries, np.float64))
    if rows.shape[1] != model.dimension:
        raise InvalidArgumentError(
            f"queries have {number_of(rows.shape[1], 'element')} and the index is of {model.dimension}"
        )
    return rows


def require_model(file: FileFingerprint, model_id: str, model: IndexModel) -> None:
    """Raise InvalidArgumentError, naming the base file, if a segment's model is not the model of the view."""
    if model_id != model.model_id:
        raise InvalidArgumentError(
            f"the segment of '{file.path}' is of the model {model_id}, not of {model.model_id}; build the index again"
        )


def bases_of(rows: Iterable[int]) -> Ints:
    """Return the first row of each segment, numbered across segments, followed by the number of all rows.

    Example:
        >>> bases_of([3, 4]).tolist()
        [0, 3, 7]
    """
    bases: Ints = np.concatenate(([0], np.cumsum(list(rows), dtype=np.int64)))
    return bases


def bytes_of(pages: Iterable[PageTable | None]) -> int:
    """Return the bytes of page tables in memory."""
    return sum(table.nbytes for table in pages if table is not None)


def bitmap_of(allowed: Allowed, bases: Ints) -> npt.NDArray[np.bool_] | None:
    """Return the allowed rows across all segments, bool, or None if all are allowed.

    Raises InvalidArgumentError if `allowed` does not fit the segments.
    """
    if allowed is None or all(part is None for part in allowed):
        return None
    sizes = np.diff(bases)
    fits = len(allowed) == len(sizes) and all(
        part is None or part.shape == (size,) for part, size in zip(allowed, sizes, strict=True)
    )
    if not fits:
        raise InvalidArgumentError("`allowed` must have one entry for each segment, of as many rows as its file has")
    return np.concatenate(
        [np.ones(size, np.bool_) if part is None else part for part, size in zip(allowed, sizes, strict=True)]
    )


def usual_count(k: int, candidates: int | None) -> int:
    """Return the number of candidates per query for an uncertain search.

    By default it is the larger of 2k and k + 10; it is never below k.

    Example:
        >>> usual_count(3, None), usual_count(30, None), usual_count(3, 1)
        (13, 60, 3)
    """
    return max(candidates or max(2 * k, k + 10), k)


def candidates_of(
    found: Found,
    row: npt.NDArray[Any],
    bases: Ints,
    queries: int,
    always: Ints,
    bitmap: npt.NDArray[np.bool_] | None,
) -> Candidates:
    """Return found entries as candidates.

    `row` has the row of each entry, numbered across segments, and `queries` is the number of queries. The rows in
    `always` that `bitmap` allows (None allows all) are candidates of every query that was not given up.
    """
    if bitmap is not None:
        always = always[bitmap[always]]
    query, rows = found.query, row[found.entry].astype(np.int64)
    if len(always):
        kept = np.setdiff1d(np.arange(queries), found.given_up)
        query = np.concatenate([np.repeat(kept, len(always)), query])
        rows = np.concatenate([np.tile(always, len(kept)), rows])
    order = np.argsort(query, kind="stable")
    query, rows = query[order], rows[order]
    segment = np.searchsorted(bases, rows, side="right") - 1
    done = found.probed_lists, found.scored_codes, found.given_up, found.unseen
    return Candidates(query, segment, rows - bases[segment], *done)
